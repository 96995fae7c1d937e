"""Linear regression with a ridge penalty on all weights but the offset."""

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


def fit_ridge(features: np.ndarray, target: np.ndarray, strength: float) -> Linear:
    """The ridge regression of one target on features."""
    return Normal.of(features, target).solve(strength)
