"""Least squares: with a ridge on all weights but the offset, and from tall tables that are compressed to triangles."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve


@dataclass(frozen=True)
class Linear:
    """y = w^T x + c."""

    weights: np.ndarray
    offset: float

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return features @ self.weights + self.offset


@dataclass(frozen=True)
class Normal:
    """The sums over rows that the normal equations need; sums of row ranges can be added."""

    count: float
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, target: np.ndarray) -> "Normal":
        """The sums over the rows without missing values."""
        joint = np.column_stack([features, target])
        joint = joint[np.isfinite(joint).all(axis=1)]
        return cls(float(len(joint)), joint.sum(0), joint.T @ joint)

    def __add__(self, other: "Normal") -> "Normal":
        return Normal(self.count + other.count, self.first + other.first, self.second + other.second)

    def solve(self, strength: float) -> Linear:
        """argmin Σ (y - w^T x - c)² + strength N Σ_j Var(x_j) w_j²: the ridge acts on standardised features."""
        mean = self.first / max(self.count, 1.0)
        covariance = self.second / max(self.count, 1.0) - np.outer(mean, mean)
        gram, cross = covariance[:-1, :-1], covariance[:-1, -1]
        penalty = strength * np.diag(gram) + 1e-9 * max(1e-300, float(np.max(np.diag(gram), initial=0.0)))
        weights = cho_solve(cho_factor(gram + np.diag(penalty), lower=True), cross)
        return Linear(weights, float(mean[-1] - weights @ mean[:-1]))


def total(parts: list[Normal]) -> Normal:
    """The sum over several row ranges."""
    return sum(parts[1:], parts[0])


def compress(table: np.ndarray) -> np.ndarray:
    """The triangle R of the QR factorisation: R^T R = table^T table, with no more rows than columns."""
    return np.asarray(np.linalg.qr(table, mode="r"))


def take_out(table: np.ndarray, count: int) -> np.ndarray:
    """The other columns as a triangle, after the first `count` are projected out of them."""
    return compress(table)[count:, count:]


def solve(table: np.ndarray) -> np.ndarray:
    """Least squares of the last column on the others, whatever their scales and rank."""
    x, y = table[:, :-1], table[:, -1]
    scale = np.linalg.norm(x, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return np.linalg.lstsq(x / scale, y, rcond=1e-13)[0] / scale
