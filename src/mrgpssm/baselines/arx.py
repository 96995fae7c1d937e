"""Linear difference equations with inputs (ARX), fitted by least squares or refined towards the output error."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import lfilter, lfiltic

from mrgpssm.baselines.base import Recording, Report
from mrgpssm.baselines.folds import RowFold, RowRange, whole
from mrgpssm.baselines.lags import Spans, bridge, lag_spans, shorter, span_means
from mrgpssm.baselines.linear import AbstractLinear, Rivals, Trial, run_left_out
from mrgpssm.baselines.regression import Normal, total
from mrgpssm.baselines.statespace import LARGEST_POLE


@dataclass(frozen=True)
class ARXSettings:
    """Number of output lags, spans of input lags (their means are the regressors), ridge and refinements."""

    order: int
    spans: Spans
    ridge: float
    refinements: int


@dataclass(frozen=True)
class Equation:
    """y_t = Σ_i a_i y_{t-i} + b^T φ(u_t, u_{t-1}, ...) + c, with all roots of 1 - Σ a_i q^-i inside the unit circle."""

    settings: ARXSettings
    a: np.ndarray
    b: np.ndarray
    c: float

    def largest_pole(self) -> float:
        """Largest modulus of a root; below 1 the free run is stable."""
        return float(np.max(np.abs(np.roots(np.concatenate([[1.0], -self.a]))), initial=0.0))

    def run_forced(self, forced: np.ndarray, past: np.ndarray) -> np.ndarray:
        """(T,) free run given φ. `past` holds the outputs before it; if it is empty, the run starts in equilibrium."""
        driven = forced @ self.b + self.c
        if not len(self.a):
            return driven
        if not len(past):
            past = np.array([driven[0] / (1 - self.a.sum())])
        newest_first = np.resize(past[::-1], len(self.a)) if len(past) < len(self.a) else past[::-1][: len(self.a)]
        denominator = np.concatenate([[1.0], -self.a])
        return lfilter([1.0], denominator, driven, zi=lfiltic([1.0], denominator, newest_first))[0]

    def run(self, inputs: np.ndarray, warmup: Recording | None) -> np.ndarray:
        """(T, 1) free run over the inputs after a warm-up; missing warm-up outputs are simulated."""
        past = Recording(inputs[:0], np.empty((0, 1))) if warmup is None else warmup
        forced = span_means(np.concatenate([past.inputs, inputs]), self.settings.spans)
        recent = past.outputs[-max(len(self.a), 1) :, 0]
        if np.isnan(recent).any():
            before = self.run_forced(forced[: len(past)], recent[:0])[-len(recent) :]
            recent = np.where(np.isnan(recent), before, recent)
        return self.run_forced(forced[len(past) :], recent)[:, None]


@dataclass(eq=False)
class ARX(AbstractLinear):
    """Each output as a linear difference equation of the inputs, simulated freely.

    The order (0 is a finite impulse response), the kind of input lags, the ridge, and whether the fit is refined are
    chosen by the free-run error on left-out training data (`judge`). Equations with a pole of modulus 0.9999 or more
    are rejected. Refined fits use the method of Steiglitz and McBride: regress again with all signals filtered by 1 /
    A(q) of the last fit, which turns the one-step error into the error of the free run. Bands are the quantiles of
    left-out free-run residuals.
    """

    title = "ARX"
    failure = "ARX: no stable equation for output {output}; its inputs or outputs may be degenerate."

    orders: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8)
    ridges: tuple[float, ...] = (1e-6, 1e-3)
    refinements: tuple[int, ...] = (0, 6)
    reach: int = 1024
    fold_count: int = 3

    def compete(self, recordings: list[Recording], split: list[RowFold], report: Report) -> Iterator[Rivals]:
        lengths, outputs = [len(r) for r in recordings], recordings[0].outputs.shape[1]
        alone = [[r.column(k) for r in recordings] for k in range(outputs)]
        tried: list[list[Trial]] = [[] for _ in alone]
        grid = self._grid(lag_spans(lengths, self.reach))
        for (order, spans), group in itertools.groupby(grid, key=lambda s: (s.order, s.spans)):
            report(f"order {order}, {len(spans)} input lags")
            forced, alike = [span_means(r.inputs, spans) for r in recordings], list(group)
            for own, trials in zip(alone, tried, strict=True):
                memo = {}
                trials += [t for s in alike if (t := _try(forced, own, split, s, memo)) is not None]
        for own, trials in zip(alone, tried, strict=True):
            yield trials, functools.partial(_fit_all, own)

    def _grid(self, spans: Spans) -> list[ARXSettings]:
        """Plain fits for every order and both kinds of input lags; refined fits only with single input lags."""
        grid = []
        for order in sorted({0, *self.orders}):  # order 0 has no pole: there is always something to choose
            single = tuple((lag, lag) for lag in range(order + 1))
            kinds = [single, spans] if order else [spans[: shorter(spans, 4)], spans]
            for kind in kinds:
                rounds = self.refinements if order and kind is single else (0,)
                grid += [ARXSettings(order, kind, r, k) for r in self.ridges for k in rounds]
        return grid


def fit_equation(
    forced: list[np.ndarray],
    targets: list[np.ndarray],
    pieces: tuple[RowRange, ...],
    settings: ARXSettings,
    memo: dict[RowRange, Normal],
) -> Equation | None:
    """Least squares on the row ranges, then refinements. Returns None if no stable equation was found.

    Refinements need not converge. Of all rounds, the one with the smallest free-run error on the row ranges is kept.

    `memo` keeps the sums of every row range for other ridges, folds and refinements of the same order and lags.
    """
    n, found, lowest = settings.order, None, np.inf
    a = np.zeros(n)
    for p in pieces:
        if p not in memo:
            memo[p] = _sums(forced[p.index][p.rows], targets[p.index][p.rows], a, n)
    sums = [memo[p] for p in pieces]
    for _ in range(settings.refinements + 1):
        if np.any(a):
            sums = [_sums(forced[p.index][p.rows], targets[p.index][p.rows], a, n) for p in pieces]
        linear = total(sums).solve(settings.ridge)
        gain = 1 / (1 - a.sum())  # an offset c passes the filter as c / A(1)
        equation = Equation(settings, linear.weights[:n], linear.weights[n:], linear.offset / gain)
        if not equation.largest_pole() < LARGEST_POLE:
            break
        a, error = equation.a, _free_error(equation, forced, targets, pieces) if settings.refinements else 0.0
        if error < lowest:
            found, lowest = equation, error
    return found


def _free_error(
    equation: Equation, forced: list[np.ndarray], targets: list[np.ndarray], pieces: tuple[RowRange, ...]
) -> float:
    """Sum of squared errors of the free runs over the row ranges. Each run starts from its first outputs."""
    total, n = 0.0, equation.settings.order
    for p in pieces:
        target = targets[p.index][p.rows]
        if len(target) <= n:
            continue
        before = target[:n] if np.isfinite(target[:n]).all() else target[:0]
        total += float(np.nansum((equation.run_forced(forced[p.index][p.rows][n:], before) - target[n:]) ** 2))
    return total


def _sums(forced: np.ndarray, target: np.ndarray, a: np.ndarray, order: int) -> Normal:
    """Normal equations of y_t on y_{t-1} ... y_{t-n} and φ_t, all filtered by 1 / (1 - Σ a_i q^-i)."""
    if len(target) <= order:
        return Normal.of(np.empty((0, order + forced.shape[1])), np.empty(0))
    if np.any(a):
        target, forced = _filter(bridge(target[:, None])[:, 0], a), _filter(forced, a)
    lagged = sliding_window_view(target[:-1], order)[:, ::-1] if order else np.empty((len(target), 0))
    return Normal.of(np.hstack([lagged, forced[order:]]), target[order:])


def _filter(signal: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The signal filtered by 1 / (1 - Σ a_i q^-i). Before its first row it is constant at its first value."""
    denominator = np.concatenate([[1.0], -a])
    rest = 1 / (1 - a.sum())
    # state of the transposed direct form II after a long stretch of a constant 1
    state = np.array([np.sum(a[i:]) for i in range(len(a))]) * rest
    first = signal[:1]
    initial = state * first if signal.ndim == 1 else state[:, None] * first
    return lfilter([1.0], denominator, signal, axis=0, zi=initial)[0]


def _try(
    forced: list[np.ndarray], recordings: list[Recording], split: list[RowFold], settings: ARXSettings, memo: dict
) -> Trial | None:
    """Free runs over every left-out row range; None where a fold has no stable equation."""
    held, targets = [], [r.outputs[:, 0] for r in recordings]
    for fold in split:
        equation = fit_equation(forced, targets, fold.train, settings, memo)
        if equation is None:
            return None
        held += run_left_out(equation, recordings, fold.test)
    return Trial(settings, np.concatenate(held)[:, 0])


def _fit_all(recordings: list[Recording], settings: ARXSettings) -> Equation | None:
    forced = [span_means(r.inputs, settings.spans) for r in recordings]
    return fit_equation(forced, [r.outputs[:, 0] for r in recordings], whole(list(map(len, recordings))), settings, {})
