"""Measurements around a free run as Student's t with a scale of its own at every row, in scaled units:

    y = m + s T,   T ~ t(ν),   log s = wᵀφ,   φ = [1, z, z²/2, m u],   z = [m, log d, u] clipped to ±2.5,

where m and d are mean and deviation of the free run and u what drives it; log s stays between the edges that it had
where it was learned. NumPy alone: the runtime uses it, too.
"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.runtime.distributions.student import student_quantile

_EDGE = 2.5


@dataclass(frozen=True)
class StudentNoise:
    """`weights` (D_y, features), `dof` ν > 2, (D_y,), and the `edges` of log s, (D_y, 2): one row per output."""

    weights: np.ndarray
    dof: np.ndarray
    edges: np.ndarray

    def scale(self, mean: np.ndarray, deviation: np.ndarray, drive: np.ndarray) -> np.ndarray:
        """s at every row, (T, D_y); mean and deviation are (T, D_y), drive is (T, D_u)."""
        found = [features(mean[:, c], deviation[:, c], drive) @ w for c, w in enumerate(self.weights)]
        return np.exp(np.clip(np.stack(found, axis=1), *self.edges.T))

    def deviation(self, scale: np.ndarray) -> np.ndarray:
        """s sqrt(ν / (ν - 2))."""
        return scale * np.sqrt(self.dof / (self.dof - 2))

    def quantile(self, level: float) -> np.ndarray:
        """Of T, (D_y,)."""
        return student_quantile(level, self.dof)


def places(mean: np.ndarray, deviation: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """z at every row, (T, 2 + D_u), from (T,), (T,) and (T, D_u)."""
    with np.errstate(divide="ignore"):
        spread = np.log(deviation)
    return np.clip(np.column_stack([mean, np.maximum(spread, -_EDGE), drive]), -_EDGE, _EDGE)


def features(mean: np.ndarray, deviation: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """φ at every row, (T, features), from the same."""
    z = places(mean, deviation, drive)
    return np.column_stack([np.ones(len(z)), z, z**2 / 2, z[:, :1] * z[:, 2:]])
