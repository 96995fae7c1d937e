"""Trajectories of measurements: how far an error lasts from row to row, and what the outputs have in common.

At every row the law of a measurement is known (`mrgpssm.runtime.output`). A trajectory draws from it at all rows with

    g = √a z + √(1 - a) e,    e = √b r + √(1 - b) ε,    r_t = φ r_{t-1} + √(1 - φ²) η_t,    φ = exp(-Δ / memory),

where z is the normal score of a sample's rank among all samples of that row, so that the error of a trajectory follows
its own sample, r lasts for `memory` samples, and ε does not last. Δ is the time since the last row. η and ε of the
outputs have the correlations `ties`.

- Student's t around the mean: y = m + s F⁻¹(Φ(g)), F the distribution function of t(ν).
- Samples with Gaussian noise: y = x + σ e. The sample has its share already, and a has no part.

Either way the draws at a single row are those of its law: a, b, memory and ties say how rows and outputs depend on each
other, and nothing else. NumPy alone: the runtime uses it, too.
"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.runtime.distributions.counters import fold_in, normal, seed_key
from mrgpssm.runtime.distributions.normal import normal_quantile

_PATHS = 4  # the stream of keys; that of draws at single rows comes before it


@dataclass(frozen=True)
class PathLaw:
    """`own` a, `lasting` b and `memory`, (D_y,) each, and `ties` (D_y, D_y); one row per output."""

    own: np.ndarray
    lasting: np.ndarray
    memory: np.ndarray
    ties: np.ndarray

    @classmethod
    def white(cls, outputs: int) -> "PathLaw":
        """Errors that do not last, of outputs that have nothing in common: what is known before anything is learned."""
        return cls(np.zeros(outputs), np.zeros(outputs), np.ones(outputs), np.eye(outputs))


class PathNoise:
    """e of all samples and outputs, row after row; a function of seed, row, output and sample alone."""

    def __init__(self, law: PathLaw, samples: int, seed: int):
        self.law, self.samples = law, samples
        self._root = fold_in(seed_key(seed, wide=True), _PATHS)
        self._factor = np.linalg.cholesky(law.ties)
        self._last: tuple[float, np.ndarray] | None = None

    def follow(self, rows: np.ndarray, clock: np.ndarray) -> np.ndarray:
        """(S, C, D_y) at the next C rows, given their numbers and their times in samples."""
        row = fold_in(self._root, rows)
        key = fold_in((row[0][:, None], row[1][:, None]), np.arange(len(self.law.memory)))
        drawn = normal(key, (self.samples, 2), "float64").transpose(3, 2, 0, 1)
        still, fresh = drawn @ self._factor.T
        r = np.empty_like(still)
        for i, now in enumerate(clock):
            if self._last is None:
                r[:, i] = still[:, i]
            else:
                phi = np.exp(-(now - self._last[0]) / self.law.memory)
                r[:, i] = phi * self._last[1] + np.sqrt(1 - phi**2) * still[:, i]
            self._last = (now, r[:, i])
        return np.sqrt(self.law.lasting) * r + np.sqrt(1 - self.law.lasting) * fresh


def rank_scores(samples: np.ndarray) -> np.ndarray:
    """Φ⁻¹((k - 1/2) / S) for the k-th smallest of S samples along the first axis, of unit variance."""
    count = len(samples)
    levels = normal_quantile((2 * np.arange(count) + 1) / count - 1)
    levels = levels / np.sqrt(np.mean(levels**2))
    return levels[np.argsort(np.argsort(samples, axis=0), axis=0)]
