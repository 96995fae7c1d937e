"""Statistics of simulation errors, behind the report. Arrays in, arrays out, NumPy only.

A recording may come in pieces (sequences). NaN marks values that were not measured; they are ignored.
"""

from collections.abc import Sequence

import numpy as np

Pieces = Sequence[np.ndarray]
_NORMAL_99 = 2.5758293035489004  # two-sided normal quantile


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


def white_limit(count: int) -> float:
    """± z / √N: the autocorrelation of N values of white noise stays within, at each lag, in 99 % of cases."""
    return _NORMAL_99 / np.sqrt(max(count, 1))


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


def segment_rows(lengths: Sequence[int], most: int = 16_384) -> int:
    """A power of two that leaves several segments to average over: about a quarter of the longest recording."""
    return int(min(most, 2 ** np.floor(np.log2(max(max(lengths) // 4, 8)))))


def welch(pieces: Pieces, dt: float, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies in Hz and one-sided power density (Welch, 1967).

    Hann windows of `rows` rows, half overlapping, each with its mean removed; the average is over all segments of all
    pieces. Missing values are interpolated. A piece shorter than a segment does not count.
    """
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(rows) / rows)
    density, count = np.zeros(rows // 2 + 1), 0
    for piece in pieces:
        filled = fill_gaps(piece)
        for start in range(0, len(filled) - rows + 1, rows // 2):
            part = filled[start : start + rows]
            density += np.abs(np.fft.rfft(window * (part - part.mean()))) ** 2
            count += 1
    density *= dt / (np.sum(window**2) * max(count, 1))
    density[1 : (rows + 1) // 2] *= 2  # all but zero and, for even rows, the Nyquist frequency stand for two
    return np.fft.rfftfreq(rows, dt), density


def log_average(frequency: np.ndarray, density: np.ndarray, per_decade: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Means over bands of equal width on a logarithmic axis; frequency zero is left out."""
    frequency, density = frequency[1:], density[1:]
    band = np.floor(np.log10(frequency / frequency[0]) * per_decade + 1e-9).astype(int)
    size = np.bincount(band)
    used = size > 0
    centre = np.exp(np.bincount(band, np.log(frequency))[used] / size[used])
    return centre, np.bincount(band, density)[used] / size[used]


def fill_gaps(values: np.ndarray) -> np.ndarray:
    """Missing values by linear interpolation; zeros where nothing was measured at all."""
    known = np.flatnonzero(~np.isnan(values))
    return np.interp(np.arange(len(values)), known, values[known]) if len(known) else np.zeros(len(values))


def horizon_edges(longest: float, dt: float, per_decade: int = 8) -> np.ndarray:
    """Edges of times since a free run began, even on a logarithmic axis from one step to the end of the longest run."""
    count = max(int(np.ceil(per_decade * np.log10(max(longest / dt, 2.0)))), 1)
    return np.geomspace(dt, longest * (1 + 1e-9), count + 1)


def rms_by_horizon(elapsed: Pieces, values: Pieces, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square of `values` whose time since the start of their run lies in [edge_k, edge_{k+1}).

    Returned for horizons that hold any known value: their geometric centres, and the root mean square.
    """
    t, v = np.concatenate(list(elapsed)), np.concatenate(list(values))
    known = ~np.isnan(v) & (t >= edges[0] * (1 - 1e-9))
    square = mean_by_bin(t[known] * (1 + 1e-9), v[known] ** 2, edges)
    used = ~np.isnan(square)
    return np.sqrt(edges[:-1] * edges[1:])[used], np.sqrt(square[used])


def common_edges(training: np.ndarray, test: np.ndarray, bins: int = 30) -> np.ndarray:
    """Edges of even bins that hold both."""
    low, high = min(training.min(), test.min()), max(training.max(), test.max())
    return np.linspace(low, high if high > low else low + 1.0, bins + 1)


def shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Shares of the values in every bin [edge_k, edge_{k+1}); the last bin holds its upper edge, too."""
    return np.histogram(values, edges)[0] / max(len(values), 1)


def mean_by_bin(position: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Mean of `values` whose `position` lies in each bin; NaN for empty bins."""
    bins = len(edges) - 1
    band = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, bins - 1)
    count, total = np.bincount(band, minlength=bins), np.bincount(band, values, minlength=bins)
    return np.divide(total, count, out=np.full(bins, np.nan), where=count > 0)


def outside(training: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, float]:
    """Shares of test rows (T, D_u) outside the training range: for each input, and for any input."""
    beyond = (test < training.min(axis=0)) | (test > training.max(axis=0))
    return beyond.mean(axis=0), float(beyond.any(axis=1).mean())


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
    known, found = ~np.isnan(measured), []
    for low in range(len(levels) - 1, -1, -1):
        matches = np.flatnonzero(np.isclose(levels, 1 - levels[low]))
        if levels[low] < 0.5 and len(matches):
            high = matches[0]
            inside = (measured[known] >= quantiles[low, known]) & (measured[known] <= quantiles[high, known])
            found.append((levels[high] - levels[low], inside.mean() if len(inside) else np.nan))
    nominal, actual = np.array(found).reshape(-1, 2).T
    return nominal, actual


def worst_segments(error: np.ndarray, rows: int, count: int) -> list[tuple[int, float]]:
    """First rows and RMS errors of the `count` worst stretches of `rows` rows that do not overlap, worst first.

    Stretches of which less than half was measured do not count.
    """
    rows, known = min(rows, len(error)), ~np.isnan(error)
    square, measured = _sliding(np.where(known, error, 0.0) ** 2, rows), _sliding(known.astype(float), rows)
    mean = np.divide(square, measured, out=np.full_like(square, -1.0), where=measured >= max(0.5 * rows, 1))
    found: list[tuple[int, float]] = []
    while len(found) < count and mean.max() >= 0:
        start = int(mean.argmax())
        found.append((start, float(np.sqrt(mean[start]))))
        mean[max(start - rows + 1, 0) : start + rows] = -1.0
    return found


def _sliding(values: np.ndarray, rows: int) -> np.ndarray:
    """Sums over all stretches of `rows` rows."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return total[rows:] - total[:-rows]
