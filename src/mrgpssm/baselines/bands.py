"""Predictive distributions given by a few quantiles, and their calibration on held-out data.

Between the levels p_1 < ... < p_L the quantile function is linear in z = Φ⁻¹(p); beyond them the tails are exponential:

    Q(p) = q_i + (z - z_i) (q_{i+1} - q_i) / (z_{i+1} - z_i),        Q(p) = q_L + b log((1 - p_L) / (1 - p)) above p_L

so that there is a density everywhere, and an error far outside the band costs in proportion to its size.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtri

from mrgpssm.prediction.forecast import LEVELS
from mrgpssm.prediction.metrics import quantile_crps_terms

_FLOOR = 1e-4  # narrowest quantile spacing per unit of z, in units of the training data's deviation
_NODES = 24
_GRID = 200  # levels of the pinball integral
_Z = ndtri(np.array(LEVELS))
_MIDDLE = LEVELS.index(0.5)
# Mean excess of N(0, 1) over its outermost level: the default tail of a band.
NORMAL_TAIL = float(np.exp(-0.5 * _Z[-1] ** 2) / np.sqrt(2 * np.pi) / (1 - LEVELS[-1]) - _Z[-1])


@dataclass(frozen=True)
class QuantileBands:
    """A mean (T, D), quantiles (L, T, D) at `LEVELS`, and the tails' scales (2, T, D) below and above them."""

    mean: np.ndarray
    values: np.ndarray
    tails: np.ndarray

    def thin(self, stride: int) -> "QuantileBands":
        """Every `stride`-th row."""
        return QuantileBands(self.mean[::stride], self.values[:, ::stride], self.tails[:, ::stride])

    def quantile(self, level: float) -> np.ndarray:
        """(T, D) quantile at any level in (0, 1)."""
        if level < LEVELS[0]:
            return self.values[0] - self.tails[0] * np.log(LEVELS[0] / level)
        if level > LEVELS[-1]:
            return self.values[-1] + self.tails[1] * np.log((1 - LEVELS[-1]) / (1 - level))
        i = min(int(np.searchsorted(LEVELS, level, side="right")) - 1, len(LEVELS) - 2)
        share = (ndtri(level) - _Z[i]) / (_Z[i + 1] - _Z[i])
        return self.values[i] + share * (self.values[i + 1] - self.values[i])

    def quantiles(self, levels: Iterable[float]) -> np.ndarray:
        """(levels, T, D)."""
        return np.array([self.quantile(level) for level in levels]).reshape(-1, *self.mean.shape)

    @functools.cached_property
    def std(self) -> np.ndarray:
        """(T, D) standard deviation: Gauss-Legendre between the outermost levels, the tails in closed form."""
        low, high = LEVELS[0], LEVELS[-1]
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        center = self.values[_MIDDLE]
        first, second = np.zeros_like(center), np.zeros_like(center)
        for node, weight in zip(nodes, weights, strict=True):
            q = self.quantile(0.5 * (low + high) + 0.5 * (high - low) * node) - center
            first, second = first + 0.5 * (high - low) * weight * q, second + 0.5 * (high - low) * weight * q**2
        # An exponential tail of mass m from q on: E = m (q ± b), E of squares = m (q² ± 2 q b + 2 b²).
        for sign, mass, q, b in (
            (-1, low, self.values[0], self.tails[0]),
            (1, 1 - high, self.values[-1], self.tails[1]),
        ):
            edge = q - center
            first, second = first + mass * (edge + sign * b), second + mass * (edge**2 + 2 * sign * edge * b + 2 * b**2)
        return np.sqrt(np.maximum(second - first**2, _FLOOR**2))

    def nll(self, measured: np.ndarray) -> np.ndarray:
        """(T, D) -log density at the measured values: φ(z) dz/dq between the levels, exponential beyond."""
        below, above = (self.values[0] - measured) / self.tails[0], (measured - self.values[-1]) / self.tails[1]
        result = np.where(
            below > 0,
            below - np.log(LEVELS[0] / self.tails[0]),
            above - np.log((1 - LEVELS[-1]) / self.tails[1]),
        )
        for i in range(len(LEVELS) - 1):
            slope = (self.values[i + 1] - self.values[i]) / (_Z[i + 1] - _Z[i])
            z = _Z[i] + (measured - self.values[i]) / slope
            inside = (measured >= self.values[i]) & (measured <= self.values[i + 1])
            result = np.where(inside, 0.5 * z**2 + 0.5 * np.log(2 * np.pi) + np.log(slope), result)
        return np.where(np.isnan(measured), np.nan, result)

    def crps(self, measured: np.ndarray) -> np.ndarray:
        """(T, D) pinball integral of the quantiles."""
        return quantile_crps_terms(measured, self.quantiles((i + 0.5) / _GRID for i in range(_GRID)))


@dataclass(frozen=True)
class Calibration:
    """A correction that makes raw quantiles cover their nominal share, per output.

    The median moves by `shift` (D,) quartile widths. The distance of every other quantile to it is multiplied by
    `scales` (L, D). The tails have mean excess `tails` (2, D), in units of |outermost quantile - median| / |z|.
    """

    shift: np.ndarray
    scales: np.ndarray
    tails: np.ndarray

    @classmethod
    def join(cls, parts: "Iterable[Calibration]") -> "Calibration":
        """Calibrations of single outputs side by side."""
        parts = list(parts)
        return cls(*(np.concatenate([getattr(p, field.name) for p in parts], axis=-1) for field in fields(cls)))

    def apply(self, mean: np.ndarray, raw: np.ndarray | None = None) -> QuantileBands:
        """Bands from raw quantiles (L, T, D), left out those of N(mean, 1).

        Crossing quantiles are sorted, equal ones are moved apart.
        """
        raw = _sort_levels(normal_quantiles(mean) if raw is None else raw)
        center = raw[_MIDDLE] + self.shift * _width(raw)
        values = _sort_levels(center + self.scales[:, None] * (raw - raw[_MIDDLE]))
        reach = np.stack([values[_MIDDLE] - values[0], values[-1] - values[_MIDDLE]]) / _Z[-1]
        return QuantileBands(mean, values, self.tails[:, None] * reach)


def calibrate(raw: np.ndarray, measured: np.ndarray) -> Calibration:
    """Fit shift, scales and tails on held-out predictions: raw (L, N, D), measured (N, D).

    Each level then has its nominal share of the held-out values below it. With raw quantiles of N(mean, 1) this makes
    the bands the mean plus the quantiles of the held-out residuals.
    """
    raw = _sort_levels(raw)
    shift = np.nanmedian((measured - raw[_MIDDLE]) / _width(raw), axis=0)
    error = measured - raw[_MIDDLE] - shift * _width(raw)
    scales = np.ones((len(LEVELS), measured.shape[1]))
    for i, level in enumerate(LEVELS):
        if i != _MIDDLE:
            # y ≤ m + s (Q - m) reads ratio ≤ s above the median and ratio ≥ s below it
            scales[i] = np.nanquantile(error / (raw[i] - raw[_MIDDLE]), max(level, 1 - level), axis=0)
    bands = Calibration(shift, scales, np.full((2, measured.shape[1]), NORMAL_TAIL)).apply(raw[_MIDDLE], raw)
    return Calibration(shift, scales, _tail_scales(bands, measured))


def _tail_scales(bands: QuantileBands, measured: np.ndarray) -> np.ndarray:
    """(2, D) mean excess beyond the outermost quantiles, which is the exponential's maximum-likelihood scale."""
    center = bands.values[_MIDDLE]
    found = []
    for edge, sign in ((bands.values[0], -1), (bands.values[-1], 1)):
        excess = sign * (measured - edge) / (sign * (edge - center) / _Z[-1])
        seen = excess > 0
        total, count = np.where(seen, excess, 0.0).sum(0), seen.sum(0)
        # two pseudo-observations of a normal tail keep few exceedances from deciding alone
        found.append((total + 2 * NORMAL_TAIL) / (count + 2))
    return np.stack(found)


def normal_quantiles(mean: np.ndarray) -> np.ndarray:
    """(L, T, D) quantiles of N(mean, 1), for methods that predict a mean only."""
    return mean[None] + _Z[:, None, None]


def _width(ordered: np.ndarray) -> np.ndarray:
    return ordered[LEVELS.index(0.75)] - ordered[LEVELS.index(0.25)]


def _sort_levels(values: np.ndarray) -> np.ndarray:
    """Sort the quantiles by level and keep them at least `_FLOOR` apart; the median does not move."""
    return np.sort(values, axis=0) + _FLOOR * _Z[:, None, None]
