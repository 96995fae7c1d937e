"""How good a simulation is: errors of the mean, densities, and honesty of the bands. Arrays in, numbers out.

Samples are (S, T, D_y) without observation noise, `noise_sd` is (D_y,), measured outputs are (T, D_y) with NaN where
nothing was measured; missing values count nowhere.
"""

import numpy as np
from scipy.special import logsumexp, ndtr


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


def mixture_nll_terms(measured: np.ndarray, samples: np.ndarray, noise_sd: np.ndarray) -> np.ndarray:
    """-log (1/S) Σ_s N(y | sample_s, noise²) for every step and output."""
    z = (measured[None] - samples) / noise_sd
    log_density = -0.5 * z**2 - np.log(noise_sd) - 0.5 * np.log(2 * np.pi)
    return np.log(len(samples)) - logsumexp(log_density, axis=0)


def mixture_nll(measured: np.ndarray, samples: np.ndarray, noise_sd: np.ndarray) -> np.ndarray:
    """Mean negative log density per step of the sample mixture, per output."""
    return np.nanmean(mixture_nll_terms(measured, samples, noise_sd), axis=0)


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
    levels = ((np.arange(count) + 0.5) / count).reshape(-1, *[1] * measured.ndim)
    excess = quantiles - measured[None]
    return 2 * np.mean(((excess > 0) - levels) * excess, axis=0)


def coverage(measured: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Share of measured values inside [lower, upper], per output."""
    inside = ((measured >= lower) & (measured <= upper)).astype(float)
    return np.nanmean(np.where(np.isnan(measured), np.nan, inside), axis=0)


def pit(measured: np.ndarray, samples: np.ndarray, noise_sd: np.ndarray) -> np.ndarray:
    """Probability integral transform: the mixture's distribution function at y, for every step and output."""
    values = np.mean(ndtr((measured[None] - samples) / noise_sd), axis=0)
    return np.where(np.isnan(measured), np.nan, values)


def best_temperature(measured: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """The factor τ on the deviations of draws from their mean m that makes the CRPS of m + τ (X - m) least, per output.

    E|X - X'| grows with τ, so only E|m + τ (X - m) - y| is evaluated anew, on a grid from 1/8 to 8.
    """
    grid = np.exp(np.linspace(-np.log(8), np.log(8), 121))
    mean = draws.mean(axis=0)
    spread = np.nanmean(np.mean(np.abs(draws - measured[None]), axis=0) - crps_terms(measured, draws), axis=0)
    distance = [np.nanmean(np.abs(mean + t * (draws - mean) - measured[None]), axis=(0, 1)) for t in grid]
    return grid[np.argmin(np.array(distance) - grid[:, None] * spread, axis=0)]
