"""Power spectra of recordings in pieces."""

from collections.abc import Sequence

import numpy as np


def segment_rows(lengths: Sequence[int], most: int = 16_384) -> int:
    """A power of two that leaves several segments to average over: about a quarter of the longest recording."""
    return int(min(most, 2 ** np.floor(np.log2(max(max(lengths) // 4, 8)))))


def welch(pieces: Sequence[np.ndarray], dt: float, rows: int) -> tuple[np.ndarray, np.ndarray]:
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
    known = ~np.isnan(values)
    if known.all():
        return np.asarray(values, float)
    if not known.any():
        return np.zeros(len(values))
    rows = np.arange(len(values))
    return np.interp(rows, rows[known], np.asarray(values, float)[known])
