"""Time from row to row, cut into steps of at most one sample.

A step over r samples has size h = r / R, and what is promised of free runs holds for h <= 1. So a gap of g samples is
walked in

    n = ceil(g - 0.05) equal steps of min(g / n, 1) samples each,

with the input held. Clocks jitter: up to 0.05 samples above a whole number count as that number.
"""

from typing import NamedTuple

import numpy as np

from mrgpssm.errors import DataError

JITTER = 0.05
LONGEST = 100_000  # samples
_ROUNDING = 1e-5  # of a sample: what a clock that was read in seconds since 1970 may cost


class Steps(NamedTuple):
    """Steps of at most one sample: the row whose input each one holds, its size, and the first step of every row."""

    source: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray


def cut(gaps: np.ndarray, name: str) -> Steps:
    """The steps of all rows from `gaps` (T,), the samples from each row to the next; `name` is for messages."""
    if not (np.isfinite(gaps).all() and (gaps > 0).all()):
        row = int(np.argmax(~(np.isfinite(gaps) & (gaps > 0))))
        raise DataError(f"{name}: the time from row {row} to the next must be positive; got {gaps[row]:g} samples.")
    row = int(np.argmax(gaps))
    if gaps[row] > LONGEST:
        raise DataError(
            f"{name}: row {row} is followed by a gap of {gaps[row]:,.0f} samples, more than {LONGEST:,}; "
            "split the recording there."
        )
    whole = np.maximum(np.round(gaps), 1.0)
    gaps = np.where(np.abs(gaps - whole) <= _ROUNDING, whole, gaps)
    counts = np.maximum(np.ceil(gaps - JITTER), 1).astype(int)
    sizes = np.minimum(gaps / counts, 1.0)
    return Steps(np.repeat(np.arange(len(gaps)), counts), np.repeat(sizes, counts), np.cumsum(counts) - counts)


def checked_time(time, rows: int, name: str) -> np.ndarray:
    """Seconds of every row, (rows,), increasing."""
    array = np.array(time, dtype=float)
    if array.shape != (rows,):
        raise DataError(f"{name}: time must have shape ({rows},), one value per row; got {array.shape}.")
    steps = np.diff(array)
    if not (np.isfinite(array).all() and (steps > 0).all()):
        row = int(np.argmax(~(steps > 0))) + 1
        raise DataError(f"{name}: time must increase; it does not at row {row}. Sort the rows, or drop duplicates.")
    return array
