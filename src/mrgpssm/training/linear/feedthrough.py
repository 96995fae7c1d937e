"""Does an input act on the output of its own row? One-step regressions with and without it, judged on rows left out."""

import numpy as np

from mrgpssm.data.ranges import Recording
from mrgpssm.training.linear.regression import Normal

_LAGS = 10  # rows of past inputs and outputs
_ROWS_EACH = 10  # the least rows for every weight


def one_step_ratio(recordings: list[Recording]) -> float:
    """Mean squared one-step errors of a single output with the input of its own row, over those without it.

    The larger ratio of both halves counts: without feed-through it is about 1. It is 1 where rows are too few to tell.
    """
    errors = one_step_errors(recordings)
    return 1.0 if errors is None else float(np.max(errors[0] / np.maximum(errors[1], np.finfo(float).tiny)))


def one_step_errors(recordings: list[Recording]) -> np.ndarray | None:
    """(2, 2) mean squared one-step errors of a single output, with and without the input of its own row, on each half.

    Both are linear in the inputs and outputs of ten rows before, and each half of the rows is predicted by weights of
    the other. None where rows are too few.
    """
    tables = [_features(r) for r in recordings if len(r.inputs) > _LAGS]
    if not tables:
        return None
    past, now, target = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    known = np.isfinite(past).all(axis=1) & np.isfinite(target)
    past, now, target = past[known], now[known], target[known]
    if len(target) < 2 * _ROWS_EACH * (past.shape[1] + now.shape[1]):
        return None
    half, errors = len(target) // 2, []
    for x in (np.hstack([past, now]), past):
        for own, other in ((slice(half, None), slice(half)), (slice(half), slice(half, None))):
            fitted = Normal.of(x[own], target[own]).solve(0.0)
            errors.append(np.mean((target[other] - fitted(x[other])) ** 2))
    return np.reshape(errors, (2, 2))


def _features(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is known before every row, the input of the row, and its output."""
    u, y = recording.inputs, recording.outputs
    rows = np.arange(_LAGS, len(u))
    past = [signal[rows - lag] for lag in range(1, _LAGS + 1) for signal in (y, u)]
    return np.hstack(past), u[rows], y[rows, 0]
