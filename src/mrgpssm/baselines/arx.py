"""Linear difference equations with inputs (ARX), fitted by least squares or refined towards the output error."""

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter, lfiltic

from mrgpssm.baselines.bands import calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Recording, Report
from mrgpssm.baselines.folds import RowFold, RowRange, folds, judge, whole
from mrgpssm.baselines.lags import Spans, consecutive, lag_spans, shorter, span_means
from mrgpssm.baselines.ridge import Normal, total
from mrgpssm.baselines.scoring import Predictive
from mrgpssm.baselines.statespace import LARGEST_POLE
from mrgpssm.errors import FitError


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

    def run(self, forced: np.ndarray, past: np.ndarray) -> np.ndarray:
        """(T,) free run. `past` holds the outputs before it; if it is empty, the run starts in equilibrium."""
        driven = forced @ self.b + self.c
        if not len(self.a):
            return driven
        if not len(past):
            past = np.array([driven[0] / (1 - self.a.sum())])
        newest_first = np.resize(past[::-1], len(self.a)) if len(past) < len(self.a) else past[::-1][: len(self.a)]
        denominator = np.concatenate([[1.0], -self.a])
        return lfilter([1.0], denominator, driven, zi=lfiltic([1.0], denominator, newest_first))[0]

    def continue_from(self, past: np.ndarray, outputs: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """(T,) free run over the inputs after a warm-up; missing warm-up outputs are simulated."""
        forced = span_means(np.concatenate([past, inputs]), self.settings.spans)
        recent = outputs[-max(len(self.a), 1) :]
        if np.isnan(recent).any():
            recent = np.where(np.isnan(recent), self.run(forced[: len(past)], recent[:0])[-len(recent) :], recent)
        return self.run(forced[len(past) :], recent)


class ARX(AbstractBaseline):
    """Each output as a linear difference equation of the inputs, simulated freely.

    The order (0 is a finite impulse response), the kind of input lags, the ridge, and whether the fit is refined are
    chosen by the free-run error on left-out training data (`judge`). Equations with a pole of modulus 0.9999 or more
    are rejected. Refined fits use the method of Steiglitz and McBride: regress again with all signals filtered by 1 /
    A(q) of the last fit, which turns the one-step error into the error of the free run. Bands are the quantiles of
    left-out free-run residuals.
    """

    title = "ARX"

    def __init__(
        self,
        orders: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8),
        ridges: tuple[float, ...] = (1e-6, 1e-3),
        refinements: tuple[int, ...] = (0, 6),
        reach: int = 1024,
        fold_count: int = 3,
    ):
        self.orders = orders
        self.ridges = ridges
        self.refinements = refinements
        self.reach = reach
        self.fold_count = fold_count

    def learn(self, recordings: list[Recording], report: Report) -> None:
        split = folds([len(r) for r in recordings], self.fold_count)
        outputs = recordings[0].outputs.shape[1]
        grid = self._grid(lag_spans([len(r) for r in recordings], self.reach))
        tried: list[list[_EquationTrial]] = [[] for _ in range(outputs)]
        for (order, spans), group in itertools.groupby(grid, key=lambda s: (s.order, s.spans)):
            report(f"order {order}, {len(spans)} input lags")
            forced, alike = [span_means(r.inputs, spans) for r in recordings], list(group)
            for column in range(outputs):
                alone, memo = [Recording(r.inputs, r.outputs[:, [column]]) for r in recordings], {}
                found = [_try(forced, alone, split, settings, memo) for settings in alike]
                tried[column] += [t for t in found if t is not None]
        self.equations_, held = [], []
        for column, found in enumerate(tried):
            best, equation = _best(recordings, column, found)
            self.equations_.append(equation)
            held.append(best.held)
        measured = np.concatenate([recordings[p.index].outputs[p.test_rows] for fold in split for p in fold.test])
        self.calibration_ = calibrate(normal_quantiles(np.column_stack(held)), measured)

    def predict(self, inputs: np.ndarray, warmup: Recording | None) -> Predictive:
        past = Recording(inputs[:0], np.empty((0, len(self.equations_)))) if warmup is None else warmup
        pairs = zip(self.equations_, past.outputs.T, strict=True)
        mean = np.column_stack([equation.continue_from(past.inputs, column, inputs) for equation, column in pairs])
        return Predictive(mean, self.calibration_.apply(normal_quantiles(mean)))

    def describe_choice(self) -> dict[str, Any]:
        return {
            name: asdict(e.settings) | {"largest_pole": e.largest_pole()}
            for name, e in zip(self.output_names_, self.equations_, strict=True)
        }

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


@dataclass(frozen=True)
class _EquationTrial:
    """The free-run error of one candidate on left-out data (see `judge`), and those free runs."""

    error: float
    settings: ARXSettings
    held: np.ndarray


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
        total += float(np.nansum((equation.run(forced[p.index][p.rows][n:], before) - target[n:]) ** 2))
    return total


def _sums(forced: np.ndarray, target: np.ndarray, a: np.ndarray, order: int) -> Normal:
    """Normal equations of y_t on y_{t-1} ... y_{t-n} and φ_t, all filtered by 1 / (1 - Σ a_i q^-i)."""
    if len(target) <= order:
        return Normal.of(np.empty((0, order + forced.shape[1])), np.empty(0))
    if np.any(a):
        if np.isnan(target).any():
            seen = np.flatnonzero(np.isfinite(target))
            target = np.interp(np.arange(len(target)), seen, target[seen]) if len(seen) else target
        target, forced = _filter(target, a), _filter(forced, a)
    lagged = consecutive(target[:, None], 1, order)[order:] if order else np.empty((len(target), 0))
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
) -> _EquationTrial | None:
    """Free runs over every left-out row range, each after its own warm-up."""
    held, measured, targets = [], [], [r.outputs[:, 0] for r in recordings]
    for fold in split:
        equation = fit_equation(forced, targets, fold.train, settings, memo)
        if equation is None:
            return None
        for p in fold.test:
            inputs, target = recordings[p.index].inputs, targets[p.index]
            held.append(equation.continue_from(inputs[p.warm], target[p.warm], inputs[p.test_rows]))
            measured.append(target[p.test_rows])
    runs = np.concatenate(held)
    error = judge(runs[:, None], np.concatenate(measured)[:, None], split).item()
    return _EquationTrial(error, settings, runs) if np.isfinite(error) else None


def _best(recordings: list[Recording], column: int, tried: list[_EquationTrial]) -> tuple[_EquationTrial, Equation]:
    """The candidate with the lowest error that is also stable when fitted to all data, and its equation."""
    everything = whole([len(r) for r in recordings])
    targets = [r.outputs[:, column] for r in recordings]
    for candidate in sorted(tried, key=lambda t: t.error):
        forced = [span_means(r.inputs, candidate.settings.spans) for r in recordings]
        equation = fit_equation(forced, targets, everything, candidate.settings, {})
        if equation is not None:
            return candidate, equation
    raise FitError(f"ARX: no stable equation for output {column + 1}; its inputs or outputs may be degenerate.")
