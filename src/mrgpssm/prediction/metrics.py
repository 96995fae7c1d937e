"""How good a simulation is: errors of the mean, densities, and honesty of the bands. Arrays in, numbers out.

Measured outputs are (T, D_y) with NaN where nothing was measured; missing values count nowhere.
"""

from collections.abc import Mapping

import numpy as np

_BANDS = {"coverage_50": (0.25, 0.75), "coverage_90": (0.05, 0.95), "coverage_95": (0.025, 0.975)}


def rmse(measured: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Root mean squared error of the mean, per output."""
    return np.sqrt(np.nanmean((measured - mean) ** 2, axis=0))


def nrmse(measured: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """RMSE over the standard deviation of what was measured."""
    return rmse(measured, mean) / np.nanstd(measured, axis=0)


def fit_percent(measured: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """100 (1 - |y - ŷ| / |y - mean(y)|), the identification community's fit."""
    return 100 * (1 - nrmse(measured, mean))


def gaussian_nll(measured: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Mean negative log density per step of N(mean, std²), per output."""
    return np.nanmean(0.5 * ((measured - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi), axis=0)


def crps_terms(measured: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """E|X - y| - E|X - X'| / 2 from draws X of the output *with* noise, for every step and output (unbiased in S)."""
    count = len(draws)
    ordered = np.sort(draws, axis=0)
    weights = (2 * np.arange(1, count + 1) - count - 1).reshape(-1, *[1] * (draws.ndim - 1))
    spread = np.sum(weights * ordered, axis=0) / (count * (count - 1))
    return np.mean(np.abs(draws - measured[None]), axis=0) - spread


def crps(measured: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Mean continuous ranked probability score, per output."""
    return np.nanmean(crps_terms(measured, draws), axis=0)


def quantile_crps_terms(measured: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """2 ∫ (1{y < Q(p)} - p) (Q(p) - y) dp from the quantiles Q at p = (l - 1/2) / L, l = 1 ... L, along the first axis.

    The midpoint rule on the pinball integral, for every step and output; missing values stay NaN.
    """
    count = len(quantiles)
    return 2 * pinball_terms(measured, quantiles, (np.arange(count) + 0.5) / count)


def pinball_terms(measured: np.ndarray, quantiles: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Mean over the levels of (1{y < Q(p)} - p) (Q(p) - y), for every step and output."""
    excess = quantiles - measured[None]
    return np.mean(((excess > 0) - levels.reshape(-1, *[1] * measured.ndim)) * excess, axis=0)


def energy(measured: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """E|X - y| - E|X - X'| / 2 from trajectories X (S, T, D_y), with |.| the root mean square over rows; unbiased in S.

    The CRPS of a whole run, per output: small where trajectories are near to what was measured and as far from each
    other.
    """
    found, count = [], len(samples)
    for column in range(measured.shape[1]):
        known = ~np.isnan(measured[:, column])
        away = (samples[:, known, column] - measured[known, column]) / np.sqrt(max(known.sum(), 1))
        squares, products = (away**2).sum(axis=1), away @ away.T
        apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0.0))
        found.append(np.sqrt(squares).mean() - apart.sum() / (2 * count * (count - 1)) if known.any() else np.nan)
    return np.array(found)


def variogram(measured: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Mean of (√|y_{t+k} - y_t| - E√|X_{t+k} - X_t|)² over rows t, and over lags k = 1, 2, 4, ... to half of the rows.

    Per output, from trajectories X (S, T, D_y): small where they change over time as what was measured does.
    """
    found = []
    for y, x in zip(measured.T, samples.T, strict=True):  # (T,) and (T, S)
        terms = []
        for k in (2**i for i in range((len(y) // 2).bit_length())):
            seen = ~np.isnan(y[k:] - y[:-k])
            expected = np.mean(np.sqrt(np.abs(x[k:] - x[:-k])), axis=1)
            terms += [np.mean((np.sqrt(np.abs(y[k:] - y[:-k])) - expected)[seen] ** 2)] if seen.any() else []
        found.append(np.mean(terms) if terms else np.nan)
    return np.array(found)


def coverage(measured: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Share of measured values inside [lower, upper], per output."""
    inside = ((measured >= lower) & (measured <= upper)).astype(float)
    return np.nanmean(np.where(np.isnan(measured), np.nan, inside), axis=0)


def summarise(
    measured: np.ndarray, mean: np.ndarray, std: np.ndarray, quantiles: Mapping[float, np.ndarray]
) -> dict[str, np.ndarray]:
    """The scores of mean, deviation and quantiles by level, per output; of the bands, those whose edges are known."""
    bands = {name: edges for name, edges in _BANDS.items() if quantiles.keys() >= set(edges)}
    return {
        "rmse": rmse(measured, mean),
        "nrmse": nrmse(measured, mean),
        "fit_percent": fit_percent(measured, mean),
        "nll_gaussian": gaussian_nll(measured, mean, std),
        **{name: coverage(measured, quantiles[low], quantiles[high]) for name, (low, high) in bands.items()},
    }


def best_temperature(measured: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The factor τ, (D_y,), by which 90 % bands, widened around the mean, hold 90 % of what was measured.

    τ is the 90 % quantile of |y - m| over the distance of the band's edge on that side, from 1/8 to 8. All are of shape
    (T, D_y); measurements that are NaN do not count, and τ is 1 where there are none.
    """
    edge = np.where(measured > mean, high - mean, mean - low)
    ratios = np.abs(measured - mean) / np.maximum(edge, np.finfo(float).tiny)
    seen = [column[~np.isnan(column)] for column in ratios.T]
    return np.array([np.clip(np.quantile(r, 0.9), 1 / 8, 8) if len(r) else 1.0 for r in seen])
