"""Dead times: after how many rows an input is first seen in an output, by correlation with whitened inputs.

An input is whitened by its own autoregression, and the output is filtered alike. Their correlation at a lag is then in
proportion to the impulse response there, and without one it has a deviation of 1 / √N.
"""

import numpy as np
from scipy.signal import lfilter

from mrgpssm.data.ranges import Recording
from mrgpssm.training.linear.lags import bridge
from mrgpssm.training.linear.regression import Normal, total

_ORDER, _RIDGE = 20, 1e-6  # of the autoregression
_LONGEST, _SHARE = 200, 10  # lags that are looked at: rows, and at most this part of a recording
_SURE = 5.0  # deviations
_STILL = 1e-12  # the variance of an input that does not move


def find_dead_times(recordings: list[Recording]) -> np.ndarray:
    """(D_u,) the first lag in rows at which each input is seen in a single output; -1 where it is not seen at all.

    Recordings of less than 40 rows are passed over.
    """
    columns, usable = range(recordings[0].inputs.shape[1]), [r for r in recordings if len(r) >= 2 * _ORDER]
    longest = min(_LONGEST, min(map(len, usable), default=0) // _SHARE)
    return np.array([_find_one(usable, column, longest) if usable else -1 for column in columns])


def _find_one(recordings: list[Recording], column: int, longest: int) -> int:
    inputs = [r.inputs[:, column] for r in recordings]
    lags = np.arange(1, _ORDER + 1)
    tables = [(np.stack([u[_ORDER - lag : len(u) - lag] for lag in lags], axis=1), u[_ORDER:]) for u in inputs]
    if np.var(np.concatenate(inputs)) < _STILL:
        return -1
    weights = total([Normal.of(x, y) for x, y in tables]).solve(_RIDGE).weights
    whitener = np.concatenate([[1.0], -weights])
    products, powers = np.zeros(longest + 1), np.zeros(2)
    for r, u in zip(recordings, inputs, strict=True):
        output = bridge(r.outputs)[:, 0]
        u, y = (np.asarray(lfilter(whitener, [1.0], signal))[_ORDER:] for signal in (u, output))
        u, y = u - u.mean(), y - y.mean()
        products += [u[: len(u) - lag] @ y[lag:] for lag in range(longest + 1)]
        powers += [u @ u, y @ y]
    count = sum(len(r) - _ORDER for r in recordings)
    seen = np.abs(products) > _SURE * np.sqrt(np.prod(powers) / count)
    return int(np.argmax(seen)) if seen.any() else -1
