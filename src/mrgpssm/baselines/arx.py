"""Linear difference equations with inputs (ARX), fitted by least squares or refined towards the output error."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import lfilter, lfilter_zi, lfiltic

from mrgpssm.baselines.base import Report
from mrgpssm.baselines.linear import AbstractLinear, Rivals
from mrgpssm.data.ranges import Recording, RowFold, RowRange, whole
from mrgpssm.training.linear.lags import Spans, bridge, lag_spans, shorter, span_means
from mrgpssm.training.linear.regression import Normal, total
from mrgpssm.training.linear.statespace import LARGEST_POLE
from mrgpssm.training.linear.trials import Trial, run_left_out


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

    def run(self, inputs: np.ndarray, warmup: Recording) -> np.ndarray:
        """(T, 1) free run over the inputs after a warm-up; missing warm-up outputs are simulated."""
        forced = span_means(np.concatenate([warmup.inputs, inputs]), self.settings.spans)
        recent = warmup.outputs[-max(len(self.a), 1) :, 0]
        if np.isnan(recent).any():
            before = self.run_forced(forced[: len(warmup)], recent[:0])[-len(recent) :]
            recent = np.where(np.isnan(recent), before, recent)
        return self.run_forced(forced[len(warmup) :], recent)[:, None]


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
        alone = [[r.column(k) for r in recordings] for k in range(recordings[0].outputs.shape[1])]
        tried: list[list[Trial]] = [[] for _ in alone]
        grid = self._grid(lag_spans([len(r) for r in recordings], self.reach))
        for (order, spans), group in itertools.groupby(grid, key=lambda s: (s.order, s.spans)):
            report(f"order {order}, {len(spans)} input lags")
            lifted, alike = lift(recordings, spans), list(group)
            for column, trials in enumerate(tried):
                own, memo = [r.column(column) for r in lifted], {}
                for settings in alike:
                    equations = (fit_equation(own, fold.train, settings, memo) for fold in split)
                    runs = run_left_out(equations, alone[column], split)
                    if runs is not None:
                        trials.append(Trial(settings, runs[:, 0]))
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


def lift(recordings: list[Recording], spans: Spans) -> list[Recording]:
    """The recordings with φ in place of their inputs."""
    return [Recording(span_means(r.inputs, spans), r.outputs) for r in recordings]


def fit_equation(
    lifted: list[Recording], pieces: tuple[RowRange, ...], settings: ARXSettings, memo: dict[RowRange, Normal]
) -> Equation | None:
    """Least squares on row ranges of lifted recordings, then refinements. None if no stable equation was found.

    Refinements need not converge. Of all rounds, the one with the smallest free-run error on the row ranges is kept.
    `memo` keeps the sums of every row range for other ridges, folds and refinements of the same order and lags.
    """
    cut = [lifted[p.index].rows(p.rows) for p in pieces]
    n, found, lowest = settings.order, None, np.inf
    a = np.zeros(n)
    for p, piece in zip(pieces, cut, strict=True):
        if p not in memo:
            memo[p] = _sum_up(piece, a)
    for _ in range(settings.refinements + 1):
        sums = [_sum_up(piece, a) for piece in cut] if np.any(a) else [memo[p] for p in pieces]
        linear = total(sums).solve(settings.ridge)
        gain = 1 / (1 - a.sum())  # an offset c passes the filter as c / A(1)
        equation = Equation(settings, linear.weights[:n], linear.weights[n:], linear.offset / gain)
        if not equation.largest_pole() < LARGEST_POLE:
            break
        a, error = equation.a, sum(_free_error(equation, piece) for piece in cut) if settings.refinements else 0.0
        if error < lowest:
            found, lowest = equation, error
    return found


def _fit_all(recordings: list[Recording], settings: ARXSettings) -> Equation | None:
    return fit_equation(lift(recordings, settings.spans), whole([len(r) for r in recordings]), settings, {})


def _free_error(equation: Equation, piece: Recording) -> float:
    """Sum of squared errors of the free run over a lifted piece, from its first outputs on."""
    target, n = piece.outputs[:, 0], len(equation.a)
    if len(target) <= n:
        return 0.0
    before = target[:n] if np.isfinite(target[:n]).all() else target[:0]
    return float(np.nansum((equation.run_forced(piece.inputs[n:], before) - target[n:]) ** 2))


def _sum_up(piece: Recording, a: np.ndarray) -> Normal:
    """Normal equations of y_t on y_{t-1} ... y_{t-n} and φ_t, all filtered by 1 / (1 - Σ a_i q^-i).

    Before its first row a signal is taken to be constant at its first value.
    """
    n, joint = len(a), np.column_stack([piece.outputs, piece.inputs])
    if len(joint) <= n:
        return Normal.of(np.empty((0, n + piece.inputs.shape[1])), np.empty(0))
    if np.any(a):
        joint[:, :1], denominator = bridge(piece.outputs), np.concatenate([[1.0], -a])
        start = lfilter_zi([1.0], denominator)[:, None] * joint[:1]
        joint = lfilter([1.0], denominator, joint, axis=0, zi=start)[0]
    lagged = sliding_window_view(joint[:-1, 0], n)[:, ::-1] if n else np.empty((len(joint), 0))
    return Normal.of(np.hstack([lagged, joint[n:, 1:]]), joint[n:, 0])
