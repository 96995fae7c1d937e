"""Auto- and cross-correlation over several recordings, with confidence limits."""

from collections.abc import Sequence

import numpy as np

Pieces = Sequence[np.ndarray]
_NORMAL = {0.95: 1.9599639845400545, 0.99: 2.5758293035489004}  # two-sided normal quantiles


def cross_correlation(first: Pieces, second: Pieces, lags: int) -> np.ndarray:
    """(2 lags + 1,) r(k) = mean_t (a_t - ā)(b_{t+k} - b̄) / (sd_a sd_b) for k = -lags, ..., lags.

    A positive lag is `second` answering `first`. Pairs are within one recording, and only where both are known.
    """
    a, b = _standard(first), _standard(second)
    total, pairs = np.zeros(2 * lags + 1), np.zeros(2 * lags + 1)
    for x, y in zip(a, b, strict=True):
        total += _lag_products(np.nan_to_num(x), np.nan_to_num(y), lags)
        pairs += np.round(_lag_products((~np.isnan(x)).astype(float), (~np.isnan(y)).astype(float), lags))
    return np.divide(total, pairs, out=np.zeros_like(total), where=pairs > 0)


def autocorrelation(pieces: Pieces, lags: int) -> np.ndarray:
    """(lags + 1,) r(k) of a series with itself for k = 0, ..., lags; r(0) = 1."""
    return cross_correlation(pieces, pieces, lags)[lags:]


def white_limit(count: int, level: float = 0.99) -> float:
    """± z / √N: the autocorrelation of N values of white noise stays within, at each lag, with this probability."""
    return _NORMAL[level] / np.sqrt(max(count, 1))


def cross_limit(input_correlation: np.ndarray, residual_correlation: np.ndarray, count: int) -> float:
    """99 % limit on r(k) of two independent series that are each correlated in time (Ljung, 1999, section 16.6).

    The variance of r is Σ_k ρ_u(k) ρ_e(k) / N over all lags, negative ones too; for white residuals that is 1 / N.
    """
    size = min(len(input_correlation), len(residual_correlation))
    spread = 1 + 2 * float(np.sum(input_correlation[1:size] * residual_correlation[1:size]))
    return white_limit(count) * np.sqrt(max(spread, 1.0))


def _standard(pieces: Pieces) -> list[np.ndarray]:
    """Zero mean and unit variance over all pieces together; zeros where nothing varies."""
    whole = np.concatenate([np.asarray(p, float) for p in pieces])
    known = whole[~np.isnan(whole)]
    mean, sd = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
    return [(np.asarray(p, float) - mean) / (sd if sd > 0 else np.inf) for p in pieces]


def _lag_products(x: np.ndarray, y: np.ndarray, lags: int) -> np.ndarray:
    """Σ_t x_t y_{t+k} for k = -lags, ..., lags, by FFT."""
    size = 2 ** int(np.ceil(np.log2(2 * max(len(x), lags + 1))))
    spectrum = np.conj(np.fft.rfft(x, size)) * np.fft.rfft(y, size)
    circular = np.fft.irfft(spectrum, size)
    return np.concatenate([circular[size - lags :], circular[: lags + 1]]) if lags else circular[:1]
