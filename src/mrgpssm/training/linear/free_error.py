"""The smallest error of a free run over all numerators, offsets and initial states, as a function of the poles alone.

The free run of F(q) (y - c) = B(q) u is linear in B, c and the initial states, so these are eliminated: G. Golub and
V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413-432, with the Jacobian of L. Kaufman, BIT 15 (1975) 49-57. What is left
are the coefficients of F, whose Gauss-Newton steps `scipy.optimize.least_squares` takes. Residuals enter as a column of
the triangle of a QR factorisation: its norm and its products with the Jacobian's columns there are the residuals' own.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.signal import lfilter

from mrgpssm.training.linear.regression import compress, solve, take_out
from mrgpssm.training.linear.statespace import LARGEST_POLE, StateSpace


@dataclass(frozen=True)
class Stretch:
    """Inputs (T, D_u) and one output (T,) of consecutive rows; every `step`-th row with a measurement is fitted."""

    inputs: np.ndarray
    target: np.ndarray
    step: int

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """Indices of the rows that are fitted."""
        rows = np.arange(0, len(self.target), self.step)
        return rows[np.isfinite(self.target[rows])]


@dataclass(frozen=True)
class Solution:
    """Coefficients f_1 ... f_n of F, numerators (n + 1, D_u), the offset, residuals and their Jacobian by F."""

    denominator: np.ndarray
    numerators: np.ndarray
    offset: float
    residual: np.ndarray
    jacobian: np.ndarray

    @property
    def error(self) -> float:
        """The mean squared error of the fit."""
        return float(self.residual @ self.residual)

    def poles(self) -> np.ndarray:
        """The roots of F."""
        return _roots(self.denominator)

    def model(self) -> StateSpace:
        """The same equation in observer form."""
        f, direct, later = self.denominator, self.numerators[:1], self.numerators[1:]
        A = np.eye(len(f), k=1)
        A[:, 0] -= f
        return StateSpace.of(A, later - f[:, None] * direct, np.eye(1, len(f)), direct, np.array([self.offset]))


def minimise(
    stretches: list[Stretch], denominator: np.ndarray, evaluations: int, direct: bool = True
) -> Solution | None:
    """The local minimum reached from these coefficients; None if no stretch has enough rows.

    Without `direct`, an input acts from the next row on. None, too, if poles are so close that rounding takes them out
    of the unit circle.
    """
    problem = _Problem(stretches, len(denominator), direct)
    if not problem.stretches:
        return None
    start = problem.stabilise(denominator)
    if not np.isfinite(problem.residual(start)).all():
        return None
    found = least_squares(
        problem.residual,
        start,
        jac=lambda f: problem.solve(f).jacobian,  # pyright: ignore[reportArgumentType]
        x_scale="jac",
        max_nfev=evaluations,
        ftol=1e-6,
        xtol=1e-12,
    )
    return problem.solve(found.x)


class _Problem:
    """Residual and Jacobian, cached for the last coefficients; infinite if a time constant is too long."""

    def __init__(self, stretches: list[Stretch], order: int, direct: bool = True):
        self.stretches = [s for s in stretches if len(s.rows) > order]
        self.order, self.lags = order, range(0 if direct else 1, order + 1)
        self.largest = min(LARGEST_POLE, np.exp(-1 / max((len(s.target) for s in self.stretches), default=1)))
        self.last: tuple[bytes, Solution] | None = None

    def stabilise(self, f: np.ndarray) -> np.ndarray:
        """Shrink the roots whose time constant is longer than the longest stretch."""
        roots = _roots(f)
        return np.real(np.poly(roots * np.minimum(1.0, 0.9999 * self.largest / np.maximum(np.abs(roots), 1e-300))))[1:]

    def residual(self, f: np.ndarray) -> np.ndarray:
        inside = np.max(np.abs(_roots(f))) <= self.largest
        return self.solve(f).residual if inside else np.full(self.order + 1, np.inf)

    def solve(self, f: np.ndarray) -> Solution:
        if self.last is None or self.last[0] != f.tobytes():
            self.last = f.tobytes(), self._solve(f)
        return self.last[1]

    def _solve(self, f: np.ndarray) -> Solution:
        n, F = self.order, np.concatenate([[1.0], f])
        tables = [_table(s, F, self.lags) for s in self.stretches]
        factors = [
            compress(np.column_stack([x, s.target[s.rows]])) for x, s in zip(tables, self.stretches, strict=True)
        ]
        weights = solve(compress(np.concatenate([t[n:, n:] for t in factors])))
        numerators, offset = np.zeros((n + 1, self.stretches[0].inputs.shape[1])), weights[-1]
        numerators[self.lags] = weights[:-1].reshape(len(self.lags), -1)
        joined = []
        for s, table, triangle in zip(self.stretches, tables, factors, strict=True):
            top = triangle[:n]
            start = solve(np.column_stack([top[:, :n], top[:, -1] - top[:, n:-1] @ weights]))
            slopes = _slopes(s, F, numerators, start)
            joined.append(take_out(np.column_stack([table, slopes, s.target[s.rows]]), n))
        tail = take_out(np.concatenate(joined), len(weights))
        rest = np.zeros((n + 1, n + 1))
        rest[: len(tail)] = tail / np.sqrt(max(sum(len(s.rows) for s in self.stretches), 1))
        return Solution(f.copy(), numerators, float(offset), rest[:, -1], rest[:, :-1])


def _roots(f: np.ndarray) -> np.ndarray:
    return np.roots(np.concatenate([[1.0], f]))


def _table(stretch: Stretch, F: np.ndarray, lags: range) -> np.ndarray:
    """Columns q^-k δ / F for the initial state, q^-k u / F for the numerators, and 1, at the fitted rows."""
    n, impulse = len(F) - 1, np.zeros((len(stretch.target), 1))
    impulse[0] = 1.0
    decays = _delays(lfilter([1.0], F, impulse, axis=0), stretch.rows, range(n))
    driven = _delays(lfilter([1.0], F, stretch.inputs, axis=0), stretch.rows, lags)
    return np.hstack([decays, driven, np.ones((len(stretch.rows), 1))])


def _slopes(stretch: Stretch, F: np.ndarray, numerators: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Derivatives of y - ŷ by f_1 ... f_n at the fitted rows: q^-k ŷ / F, where F ŷ = B u + the initial impulses."""
    forced = np.zeros(len(stretch.target))
    forced[: len(start)] = start
    for signal, b in zip(stretch.inputs.T, numerators.T, strict=True):
        forced += lfilter(b, [1.0], signal)
    twice = lfilter([1.0], F, lfilter([1.0], F, forced))
    return _delays(np.asarray(twice)[:, None], stretch.rows, range(1, len(F)))


def _delays(signals, rows: np.ndarray, lags: range) -> np.ndarray:
    """(rows, lags D) the signals delayed by every lag, zero before the first row."""
    padded = np.concatenate([np.zeros((lags[-1], signals.shape[1])), signals])
    return np.hstack([padded[rows + lags[-1] - lag] for lag in lags])
