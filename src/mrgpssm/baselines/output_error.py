"""Output-error models: linear difference equations fitted by their free run, not by one-step predictions."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mrgpssm.baselines.arx import ARXSettings, fit_equation, lift
from mrgpssm.baselines.base import Report
from mrgpssm.baselines.linear import AbstractLinear, Rivals
from mrgpssm.data.ranges import Recording, RowFold, RowRange, whole
from mrgpssm.training.linear.free_error import Solution, Stretch, minimise
from mrgpssm.training.linear.statespace import StateSpace
from mrgpssm.training.linear.subspace import cut_out, observe, usable_views
from mrgpssm.training.linear.trials import Trial, run_left_out

_NEW_POLE = 0.5


@dataclass(frozen=True)
class OutputErrorSettings:
    """Number of poles; the inputs have as many lags."""

    order: int


@dataclass(eq=False)
class OutputError(AbstractLinear):
    """Each output as F(q) (y - c) = B(q) u, with the F, B, c and initial states that minimise the free run's error.

    (L. Ljung, System Identification, 2nd ed., section 4.2 and chapter 10.) The error has local minima: every order
    starts from the poles of subspace models, of ARX models, plain and refined, and of the order below with one more
    pole; the best few starts are followed to their minimum and the lowest is kept. At most `rows` evenly spaced rows
    are fitted, on free runs over all of them. The order is chosen by the free-run error on left-out training data.
    Bands are the quantiles of left-out free-run residuals.
    """

    title = "output error"
    failure = "Output error: no stable model of any order; the inputs or outputs may be degenerate."
    threads = 1

    orders: tuple[int, ...] = (1, 2, 3, 4, 6)
    horizons: tuple[int, ...] = (8, 20)
    strides: tuple[int, ...] = (1, 8)
    starts: int = 2
    evaluations: int = 20
    rows: int = 10_000
    fold_count: int = 3

    def compete(self, recordings: list[Recording], split: list[RowFold], report: Report) -> Iterator[Rivals]:
        for column, name in enumerate(self.output_names_):
            alone, memo = [r.column(column) for r in recordings], {}
            models = []
            for number, fold in enumerate(split):
                report(f"{name}, fold {number + 1} of {len(split)}")
                models.append(self._fit(alone, fold.train, memo))
            report(f"{name}, all data")
            final = self._fit(alone, whole([len(r) for r in recordings]), memo)
            runs = {s: run_left_out((found.get(s) for found in models), alone, split) for s in final}
            yield [Trial(s, r[:, 0]) for s, r in runs.items() if r is not None], final.get

    def _fit(
        self, recordings: list[Recording], pieces: tuple[RowRange, ...], memo: dict
    ) -> dict[OutputErrorSettings, StateSpace]:
        """For every order, the model with the lowest minimum over all starts."""
        cut = cut_out(recordings, pieces)
        step = max(1, sum(map(len, cut)) // self.rows)
        stretches = [Stretch(r.inputs, r.outputs[:, 0], step) for r in cut]
        views = usable_views(recordings, self.horizons, self.strides)
        seen = [observe(recordings, pieces, view, memo) for view in views]
        found: dict[OutputErrorSettings, StateSpace] = {}
        below: Solution | None = None
        for order in sorted(self.orders):
            modes = [m for m in (o.modes(order) for o in seen) if m is not None]
            starts = [np.poly(m.poles).real[1:] for m in modes] + self._equations(recordings, pieces, order, memo)
            if below is not None:
                grown = np.append(below.poles(), np.full(order - len(below.denominator), _NEW_POLE))
                starts.append(np.poly(grown).real[1:])
            first = _solve_all(stretches, starts, 1)[: self.starts]
            ends = _solve_all(stretches, [s.denominator for s in first], self.evaluations)
            if ends:
                below, found[OutputErrorSettings(order)] = ends[0], ends[0].model().settle(cut)
        return found

    def _equations(self, recordings: list[Recording], pieces: tuple[RowRange, ...], order: int, memo: dict) -> list:
        """Denominators of ARX equations of that order, by least squares and refined."""
        spans = tuple((lag, lag) for lag in range(order + 1))
        lifted, sums = lift(recordings, spans), memo.setdefault(("sums", order), {})
        settings = (ARXSettings(order, spans, 1e-6, rounds) for rounds in (0, 6))
        equations = (fit_equation(lifted, pieces, s, sums) for s in settings)
        return [-e.a for e in equations if e is not None]


def _solve_all(stretches: list[Stretch], starts: list[np.ndarray], evaluations: int) -> list[Solution]:
    """The result of every start after so many evaluations, lowest error first."""
    found = [minimise(stretches, start, evaluations) for start in starts]
    return sorted((s for s in found if s is not None), key=lambda s: s.error)
