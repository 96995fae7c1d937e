"""How much to trust each part of a blend: shares that make the error least on data that no part has seen."""

import itertools
from collections.abc import Iterable

import numpy as np

MOST_SHARE = 0.9
RIDGE = 0.2  # few recordings tell shares with much noise, and parts of fewer recordings differ from the final ones


def find_shares(errors: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The shares s (K,) of one output that minimise the mean over recordings of

        |(1 - Σ_k s_k) a + Σ_k s_k b_k|² / |a|² + 0.2 |s|²,   s >= 0,   Σ_k s_k <= 0.9,

    where a (T,) is the error of the first part, b (K, T) that of each further part; NaN where nothing was measured.
    The last term keeps shares of the further parts small where the errors say little about them.
    """
    H, g, count, parts = 0.0, 0.0, 0, 0
    for a, b in errors:
        parts = len(b)
        seen = ~(np.isnan(a) | np.isnan(b).any(axis=0))
        if seen.any():
            a, d = a[seen], (a - b)[:, seen]
            size = max(float(a @ a), 1e-12)
            H, g, count = H + d @ d.T / size, g + d @ a / size, count + 1
    if not count:
        return np.zeros(parts)
    return _least(H / count + RIDGE * np.eye(parts), np.asarray(g / count))


def _least(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The s that minimises sᵀHs - 2 gᵀs with s >= 0 and Σs <= 0.9, H positive definite.

    At the least, some shares are positive and solve H s = g - λ/2, λ = 0 or such that they add up to 0.9; all such
    choices are tried, since parts are few.
    """
    candidates = [np.zeros(len(g))]
    for kept in (np.array(some) for n in range(len(g)) for some in itertools.combinations(range(len(g)), n + 1)):
        free, ones = np.linalg.solve(H[np.ix_(kept, kept)], np.column_stack([g[kept], np.ones(len(kept))])).T
        for values in (free, free - (free.sum() - MOST_SHARE) / ones.sum() * ones):
            if (values >= 0).all() and values.sum() <= MOST_SHARE + 1e-12:
                candidates.append(np.zeros(len(g)))
                candidates[-1][kept] = values
    return min(candidates, key=lambda s: float(s @ H @ s - 2 * g @ s))
