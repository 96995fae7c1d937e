"""Does an input act on the output of its own row? One-step regressions with and without it, judged on rows left out."""

import numpy as np

from mrgpssm.data.ranges import Recording
from mrgpssm.training.linear.regression import Normal

_LAGS = 10  # rows of past inputs and outputs
_ROWS_EACH = 10  # the least rows for every weight


def one_step_ratio(recordings: list[Recording]) -> float:
    """Mean squared one-step errors of a single output with the input of its own row, over those without it.

    Both are linear in the inputs and outputs of ten rows before. Each half of the rows is predicted by weights of the
    other, and the larger ratio counts: without feed-through it is about 1. It is 1 where rows are too few to tell.
    """
    tables = [_features(r) for r in recordings if len(r.inputs) > _LAGS]
    if not tables:
        return 1.0
    past, now, target = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    known = np.isfinite(past).all(axis=1) & np.isfinite(target)
    past, now, target = past[known], now[known], target[known]
    if len(target) < 2 * _ROWS_EACH * (past.shape[1] + now.shape[1]):
        return 1.0
    half, ratios = len(target) // 2, []
    for own, other in ((slice(half, None), slice(half)), (slice(half), slice(half, None))):
        errors = []
        for x in (np.hstack([past, now]), past):
            fitted = Normal.of(x[own], target[own]).solve(0.0)
            errors.append(np.mean((target[other] - fitted(x[other])) ** 2))
        ratios.append(errors[0] / max(errors[1], np.finfo(float).tiny))
    return float(max(ratios))


def _features(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is known before every row, the input of the row, and its output."""
    u, y = recording.inputs, recording.outputs
    rows = np.arange(_LAGS, len(u))
    past = [signal[rows - lag] for lag in range(1, _LAGS + 1) for signal in (y, u)]
    return np.hstack(past), u[rows], y[rows, 0]
