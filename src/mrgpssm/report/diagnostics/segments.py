"""Find the worst stretches of a simulation."""

import numpy as np


def worst_segments(error: np.ndarray, rows: int, count: int) -> list[tuple[int, float]]:
    """First rows and RMS errors of the `count` worst stretches of `rows` rows that do not overlap, worst first.

    Stretches of which less than half was measured do not count.
    """
    rows = min(rows, len(error))
    known = ~np.isnan(error)
    square = _sliding(np.where(known, error, 0.0) ** 2, rows)
    measured = _sliding(known.astype(float), rows)
    mean = np.divide(square, measured, out=np.full_like(square, -1.0), where=measured >= max(0.5 * rows, 1))
    found: list[tuple[int, float]] = []
    while len(found) < count and mean.max() >= 0:
        start = int(mean.argmax())
        found.append((start, float(np.sqrt(mean[start]))))
        mean[max(start - rows + 1, 0) : start + rows] = -1.0
    return found


def _sliding(values: np.ndarray, rows: int) -> np.ndarray:
    """Sums over all stretches of `rows` rows."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return total[rows:] - total[:-rows]
