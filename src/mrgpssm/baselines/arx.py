"""Linear difference equations with inputs (ARX), fitted by least squares or refined towards the output error."""

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter, lfiltic

from mrgpssm.baselines.bands import calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Recording, Report
from mrgpssm.baselines.folds import Fold, Piece, folds
from mrgpssm.baselines.lags import Spans, consecutive, lag_spans, shorter, span_means
from mrgpssm.baselines.ridge import Normal, total
from mrgpssm.baselines.scoring import Predictive
from mrgpssm.errors import FitError

_LARGEST_POLE = 0.9999


@dataclass(frozen=True)
class ARXSettings:
    """Output lags, spans of input lags whose means enter, ridge, and refinements."""

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
        """(T,) free run; `past` holds the outputs before it, or nothing: then it starts at rest at its first input."""
        driven = forced @ self.b + self.c
        if not len(self.a):
            return driven
        if not len(past):
            past = np.array([driven[0] / (1 - self.a.sum())])
        newest_first = np.resize(past[::-1], len(self.a)) if len(past) < len(self.a) else past[::-1][: len(self.a)]
        denominator = np.concatenate([[1.0], -self.a])
        return lfilter([1.0], denominator, driven, zi=lfiltic([1.0], denominator, newest_first))[0]


class ARX(AbstractBaseline):
    """Each output as a linear difference equation of the inputs, simulated freely.

    Orders (0 is a finite impulse response), kind of input lags, ridge, and whether the fit is refined are chosen by the
    free-run error on left-out training data; equations with a pole of modulus 0.9999 or more are not considered.
    Refined fits are Steiglitz-McBride: regress again with all signals filtered by 1 / A(q) of the last fit, which turns
    the one-step error into the error of the free run. Bands are the quantiles of left-out free-run residuals.
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
        tried: list[list[_Tried]] = [[] for _ in range(outputs)]
        for (order, spans), group in itertools.groupby(grid, key=lambda s: (s.order, s.spans)):
            report(f"order {order}, {len(spans)} input lags")
            forced, alike = [span_means(r.inputs, spans) for r in recordings], list(group)
            for column in range(outputs):
                targets, memo = [r.outputs[:, column] for r in recordings], {}
                found = [_try(forced, targets, split, settings, memo) for settings in alike]
                tried[column] += [t for t in found if t is not None]
        self.equations_, held = [], []
        for column, found in enumerate(tried):
            best, equation = _best(recordings, column, found)
            self.equations_.append(equation)
            held.append(best.held)
        measured = np.concatenate([recordings[p.index].outputs[p.rows] for fold in split for p in fold.test])
        self.calibration_ = calibrate(normal_quantiles(np.column_stack(held)), measured)

    def predict(self, inputs: np.ndarray, warmup: Recording | None) -> Predictive:
        past = Recording(inputs[:0], np.empty((0, len(self.equations_)))) if warmup is None else warmup
        whole = np.concatenate([past.inputs, inputs])
        columns = []
        for column, equation in enumerate(self.equations_):
            forced = span_means(whole, equation.settings.spans)
            before = _filled(equation, forced[: len(past)], past.outputs[:, column])
            columns.append(equation.run(forced[len(past) :], before))
        mean = np.column_stack(columns)
        return Predictive(mean, self.calibration_.apply(normal_quantiles(mean)))

    def chosen(self) -> dict[str, Any]:
        return {
            name: asdict(e.settings) | {"largest_pole": e.largest_pole()}
            for name, e in zip(self.output_names_, self.equations_, strict=True)
        }

    def _grid(self, spans: Spans) -> list[ARXSettings]:
        """Plain fits for every order and both kinds of input lags; refined ones where few lags carry the inputs."""
        grid = []
        for order in sorted({0, *self.orders}):  # order 0 has no pole: there is always something to choose
            single = tuple((lag, lag) for lag in range(order + 1))
            kinds = [single, spans] if order else [spans[: shorter(spans, 4)], spans]
            for kind in kinds:
                rounds = self.refinements if order and kind is single else (0,)
                grid += [ARXSettings(order, kind, r, k) for r in self.ridges for k in rounds]
        return grid


@dataclass(frozen=True)
class _Tried:
    """Held-out free-run error of one candidate, and its held-out free runs."""

    error: float
    settings: ARXSettings
    held: np.ndarray


def fit_equation(
    forced: list[np.ndarray],
    targets: list[np.ndarray],
    pieces: tuple[Piece, ...],
    settings: ARXSettings,
    memo: dict[Piece, Normal],
) -> Equation | None:
    """Least squares on the pieces, then refinements; None where no stable equation was found.

    `memo` keeps the sums of every piece for other ridges, folds and refinements of the same order and lags.
    """
    n, found = settings.order, None
    a = np.zeros(n)
    for p in pieces:
        if p not in memo:
            memo[p] = _sums(forced[p.index][p.rows], targets[p.index][p.rows], a, n)
    sums = [memo[p] for p in pieces]
    for _ in range(settings.refinements + 1):
        if found is not None:
            sums = [_sums(forced[p.index][p.rows], targets[p.index][p.rows], a, n) for p in pieces]
        linear = total(sums).solve(settings.ridge)
        gain = 1 / (1 - a.sum())  # an offset c passes the filter as c / A(1)
        equation = Equation(settings, linear.weights[:n], linear.weights[n:], linear.offset / gain)
        if not equation.largest_pole() < _LARGEST_POLE:
            break
        found, a = equation, equation.a
    return found


def _sums(forced: np.ndarray, target: np.ndarray, a: np.ndarray, order: int) -> Normal:
    """Normal equations of y_t on y_{t-1} ... y_{t-n} and φ_t, all filtered by 1 / (1 - Σ a_i q^-i)."""
    if len(target) <= order:
        return Normal.of(np.empty((0, order + forced.shape[1])), np.empty(0))
    if np.any(a):
        if np.isnan(target).any():
            seen = np.flatnonzero(np.isfinite(target))
            target = np.interp(np.arange(len(target)), seen, target[seen]) if len(seen) else target
        target, forced = _filtered(target, a), _filtered(forced, a)
    lagged = consecutive(target[:, None], 1, order)[order:] if order else np.empty((len(target), 0))
    return Normal.of(np.hstack([lagged, forced[order:]]), target[order:])


def _filtered(signal: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The signal through 1 / (1 - Σ a_i q^-i), at rest at its first value before it starts."""
    denominator = np.concatenate([[1.0], -a])
    rest = 1 / (1 - a.sum())
    # state of the transposed direct form II after a long stretch of a constant 1
    state = np.array([np.sum(a[i:]) for i in range(len(a))]) * rest
    first = signal[:1]
    initial = state * first if signal.ndim == 1 else state[:, None] * first
    return lfilter([1.0], denominator, signal, axis=0, zi=initial)[0]


def _try(
    forced: list[np.ndarray], targets: list[np.ndarray], split: list[Fold], settings: ARXSettings, memo: dict
) -> _Tried | None:
    """Free runs over every left-out piece, from the outputs just before it where the sequence was cut."""
    held, measured = [], []
    for fold in split:
        equation = fit_equation(forced, targets, fold.train, settings, memo)
        if equation is None:
            return None
        for p in fold.test:
            before = _filled(equation, forced[p.index][: p.start], targets[p.index][: p.start])
            held.append(equation.run(forced[p.index][p.rows], before))
            measured.append(targets[p.index][p.rows])
    runs = np.concatenate(held)
    error = float(np.nanmean((runs - np.concatenate(measured)) ** 2))
    return _Tried(error, settings, runs) if np.isfinite(error) else None


def _filled(equation: Equation, forced: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """The last outputs before a free run; where some are missing, the equation's own run stands in."""
    if not len(outputs):
        return outputs
    recent = outputs[-max(len(equation.a), 1) :]
    if np.isnan(recent).any():
        recent = np.where(np.isnan(recent), equation.run(forced, outputs[:0])[-len(recent) :], recent)
    return recent


def _best(recordings: list[Recording], column: int, tried: list[_Tried]) -> tuple[_Tried, Equation]:
    """The candidate with the lowest error that is stable on all data too, and its equation."""
    whole = tuple(Piece(i, 0, len(r)) for i, r in enumerate(recordings))
    targets = [r.outputs[:, column] for r in recordings]
    for candidate in sorted(tried, key=lambda t: t.error):
        forced = [span_means(r.inputs, candidate.settings.spans) for r in recordings]
        equation = fit_equation(forced, targets, whole, candidate.settings, {})
        if equation is not None:
            return candidate, equation
    raise FitError(f"ARX: no stable equation for output {column + 1}; its inputs or outputs may be degenerate.")
