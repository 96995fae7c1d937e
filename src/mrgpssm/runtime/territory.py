"""New territory: how unlike the rows of training a row of a run is, and how much wider bands are there.

A row is z = [u, m], what drives the model and the mean of the run, scaled. `points` cover the rows of training. The
alarm of a row is its distance from the nearest point over `reach`, which rows of the training data keep from stretches
they do not belong to, but for one in twenty. Above 1 it rings, and deviations are multiplied by alarm^growth.
NumPy alone: the runtime uses it, too.
"""

from dataclasses import dataclass

import numpy as np

_BLOCK = 2_000_000  # distances at a time


@dataclass(frozen=True)
class Territory:
    """`points` (N, D_u + D_y), their `reach`, and the `growth` of every output's deviation, (D_y,)."""

    points: np.ndarray
    reach: np.ndarray
    growth: np.ndarray

    def alarm(self, mean: np.ndarray, drive: np.ndarray) -> np.ndarray:
        """(C,) for the means of a run (C, D_y) and what drives it (C, D_u)."""
        return nearest(np.concatenate([drive, mean], axis=1), self.points) / self.reach

    def stretch(self, alarm: np.ndarray) -> np.ndarray:
        """(C, D_y) factors on deviations."""
        return np.maximum(alarm, 1.0)[:, None] ** self.growth


def nearest(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(C,) distances of rows (C, D) from the nearest of the points (N, D)."""
    size, squares = max(1, _BLOCK // len(points)), (points**2).sum(axis=1)
    found = [
        ((part**2).sum(axis=1)[:, None] + squares - 2 * part @ points.T).min(axis=1)
        for part in (rows[i : i + size] for i in range(0, len(rows), size))
    ]
    return np.sqrt(np.maximum(np.concatenate(found), 0.0))
