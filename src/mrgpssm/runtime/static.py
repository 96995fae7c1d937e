"""What the static part, a Gaussian process, says: in scaled units, with u what drives the model,

m(u) = slopeᵀu + Σ_j w_j exp(-r(u, Z_j)),   r² = Σ_i (u_i - Z_ji)² / ℓ_i².
"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.runtime.part import Part

_CHUNK = 5_000


@dataclass(frozen=True)
class StaticPart(Part):
    """`inducing` Z (M, D_u) is common; `weights` (D_y, M), `lengthscales` and `slopes` (D_y, D_u) and the `shares` s
    (D_y,) have one row per output.
    """

    inducing: np.ndarray
    weights: np.ndarray
    lengthscales: np.ndarray
    slopes: np.ndarray
    shares: np.ndarray

    def __call__(self, drive: np.ndarray) -> np.ndarray:
        chunks = [drive[i : i + _CHUNK] for i in range(0, len(drive), _CHUNK)]
        return np.concatenate([self._at(chunk) for chunk in chunks])

    def _at(self, u: np.ndarray) -> np.ndarray:
        found = [
            u @ slope + np.exp(-distances(u, self.inducing, scales)) @ weights
            for weights, scales, slope in zip(self.weights, self.lengthscales, self.slopes, strict=True)
        ]
        return np.stack(found, axis=1)


def distances(a: np.ndarray, b: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
    """r between all rows of (N, D) and (M, D)."""
    a, b = a / lengthscales, b / lengthscales
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.sqrt(np.maximum(squares, 0.0))
