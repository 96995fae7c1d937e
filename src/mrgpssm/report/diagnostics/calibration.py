"""Are the bands calibrated? Where measured values fall among the predicted quantiles."""

import numpy as np


def pit_shares(measured: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """(Q + 1,) shares of measured values below the first quantile, between neighbours, and above the last.

    `measured` is (T,), `quantiles` (Q, T) in increasing order of level. Where forecasts are calibrated, each share is
    the difference of its two levels: the histogram of the probability integral transform.
    """
    known = ~np.isnan(measured)
    place = np.sum(quantiles[:, known] < measured[known], axis=0)
    return np.bincount(place, minlength=len(quantiles) + 1) / max(int(known.sum()), 1)


def coverage_curve(measured: np.ndarray, levels: np.ndarray, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nominal and actual share inside each central band, for all pairs of levels q and 1 - q, narrow bands first."""
    nominal, actual = [], []
    known = ~np.isnan(measured)
    for low in range(len(levels) - 1, -1, -1):
        matches = np.flatnonzero(np.isclose(levels, 1 - levels[low]))
        if levels[low] < 0.5 and len(matches):
            high = matches[0]
            inside = (measured[known] >= quantiles[low, known]) & (measured[known] <= quantiles[high, known])
            nominal.append(levels[high] - levels[low])
            actual.append(inside.mean() if len(inside) else np.nan)
    return np.array(nominal), np.array(actual)
