"""Trials: which of some specifications is learned, and whether a linear model would have done better.

All are judged in free runs over what the folds leave out, or over validation sequences. The score is the mean logarithm
of their errors over all stretches and outputs, so that no single stretch decides alone. After a short fit a model may
lose the state long before a stretch ends, whatever it has learned. So in trials, runs over short pieces of a stretch
count as much as those over all of it.
"""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from contextlib import AbstractContextManager

import numpy as np

from mrgpssm.advice.automatic import Selection
from mrgpssm.advice.rivals import INTEGRATOR
from mrgpssm.advice.suggest import MANY
from mrgpssm.errors import DataError, FitError
from mrgpssm.estimator.fitting import Field, check_data, judge, list_judges, name_stages, train, train_some
from mrgpssm.estimator.judges import Judge
from mrgpssm.estimator.unseen import Judged, run_all
from mrgpssm.file import read_json, write_json
from mrgpssm.prediction.predict import Piece
from mrgpssm.prediction.scores import Table
from mrgpssm.runtime.output import Measurements
from mrgpssm.spec import Spec
from mrgpssm.training import FleetFit, Snapshot
from mrgpssm.training.progress import Reporter

LINEAR = "in the end the linear model: it leaves less on rows left out than what was learned"
_TITLES = {
    "preset": "preset start",
    "linear": "linear start",
    "integrator": "linear start with an integrator",
    "low": "linear start of low order",
    "low integrator": "linear start of low order with an integrator",
}
_LEAST_CYCLES, _ALL_STEPS = 3, 600  # of a trial
_PIECE = 200  # rows of a short run
_LOST = 100.0  # the error of a candidate that cannot be judged
_SMALLEST = 1e-6  # errors below this share of the deviation count as this
_MOST, _AHEAD = np.log(0.5), np.log(1.2)  # a preset start that explains most is given up for a clearly better one
_CLEAR = np.log(1.1)  # what was learned is given up for a clearly better linear model, an integrator for one that fades
_MARGIN, _FAR = 0.1, np.log(2)  # a linear model that is not that near is judged no further: many recordings, or few

Watch = Callable[[Spec, str], AbstractContextManager[Reporter]]


def settle(selection: Selection, field: Field, watch: Watch) -> Selection:
    """The selection, or a rival where that is better after some cycles; without rivals nothing is trained.

    The winner goes on from where its trial stands. `watch(spec, label)` shows a trial. A candidate whose trial
    fails has lost.
    """
    candidates = list_candidates(selection)
    if len(candidates) < 2:
        return selection
    errors, begun = _hold_trials(candidates, field, watch)
    name = _pick(errors)
    *most, last = [f"{_share(errors[name])} from the {title}" for name, title in _TITLES.items() if name in errors]
    shares = f"{', '.join(most)} and {last}"
    reason = f"a {_TITLES[name]}: short fits leave {shares} of the deviation on rows left out"
    winner = candidates[name]
    if name not in begun and errors[name] < _LOST:
        begun[name], _ = _try_out(field, winner.spec, name, watch, cool=False)  # its last checkpoint
    start = begun.get(name)
    return winner._replace(reasons=(*winner.reasons, reason), rivals=(), linear=selection.linear, begun=start)


def _hold_trials(
    candidates: dict[str, Selection], field: Field, watch: Watch
) -> tuple[dict[str, float], dict[str, Snapshot]]:
    """The error of every candidate, and where its training stands."""
    choice = None if field.run is None else field.run.root / "trials" / "choice.json"
    errors: dict[str, float] = {} if choice is None or not choice.exists() else read_json(choice)
    begun: dict[str, Snapshot] = {}
    for name, (spec, *_) in candidates.items():
        if name in errors:
            continue
        try:
            check_data(spec, field.training)
            begun[name], cooled = _try_out(field, spec, name, watch)
            errors[name] = trial_error(list_judges(field, spec, FleetFit.of(cooled))[1])
        except (DataError, FitError):  # such as a fold whose rows show no linear model
            errors[name] = _LOST
    if choice is not None:
        write_json(choice, errors)  # a run that goes on elsewhere goes on with the same winner
    return errors, begun


def _pick(errors: dict[str, float]) -> str:
    """The winner of the trials."""
    preset, rivals = errors["preset"], {name: e for name, e in errors.items() if name != "preset"}
    best = min(rivals, key=lambda name: rivals[name])
    if rivals[best] >= preset - (_AHEAD if preset < _MOST else 0.0):
        return "preset"
    adding = INTEGRATOR.get(best, best)
    return adding if rivals.get(adding, _LOST) < rivals[best] + _CLEAR else best


def _try_out(field: Field, spec: Spec, name: str, watch: Watch, cool: bool = True) -> tuple[Snapshot, Snapshot]:
    """Where training stands after the cycles of a trial, and what it is judged by."""
    run = None if field.run is None else field.run.below(f"trials/{name}")
    with watch(spec, name_trial(name)) as shown:
        return train_some(field._replace(run=run), spec, shown.steps, count_cycles(spec), cool)


def name_trial(name: str) -> str:
    """What people are told of a trial."""
    return f"trial, {_TITLES[name]}"


def list_candidates(selection: Selection) -> dict[str, Selection]:
    """All that are tried, by name."""
    return {"preset": selection, **dict(selection.rivals)}


def prefer_linear(
    selection: Selection, field: Field, judges: list[Judge], stage: Callable[[str], None]
) -> Judged | None:
    """The linear model with its bands where it is better than the judges' models on what they have not seen."""
    linear = selection.linear
    if linear is None or not judges:
        return None
    run_all(judges, name_stages(stage))
    stage("a linear model beside it")
    ours = left_out_error(judges)
    known = float(np.mean(np.log(np.maximum(linear.errors, _SMALLEST))))
    if known > ours + (_MARGIN if len(field.training) >= MANY else _FAR):
        return None
    apart = field._replace(run=None)
    try:
        check_data(linear.spec, field.training)
        start, _ = train_some(apart, linear.spec, lambda _: None, 0)
        if left_out_error(list_judges(field, linear.spec, FleetFit.of(start))[1]) >= ours - _CLEAR:
            return None
        fleet = train(apart, linear.spec, lambda _: None, start)
    except (DataError, FitError):
        return None
    return judge(*list_judges(field, linear.spec, fleet), field.held_out, stage)


def trial_error(judges: SequenceOf[Judge]) -> float:
    """The mean of two errors: that of runs over whole stretches, and that of runs over short pieces of them."""
    found = [left_out_error(some) for some in (judges, [judge.cut(_PIECE) for judge in judges])]
    return _LOST if max(found) >= _LOST else float(np.mean(found))


def left_out_error(judges: SequenceOf[Judge]) -> float:
    """The mean log of RMSE over deviation, over all judges, runs and outputs; `_LOST` where a run is not finite."""
    found = [np.log(np.maximum(e, _SMALLEST)) for judge in judges for e in _errors(judge)]
    mean = float(np.nanmean(np.concatenate(found))) if found else np.nan
    return mean if np.isfinite(mean) else _LOST


def _share(error: float) -> str:
    return "all" if error >= _LOST else f"{100 * np.exp(error):.2g} %"


def _errors(judge: Judge) -> list[np.ndarray]:
    """(D_y,) RMSE of every run, in deviations of the training data; NaN where nothing was measured."""

    def tell(_: Piece, found: Measurements, measured: np.ndarray) -> Table:
        squares = (found.mean - measured) ** 2
        return {"squares": np.where(np.isnan(squares) & ~np.isnan(measured), np.inf, squares)}

    tables = [table["squares"] for table in judge.runs.gather(tell)]
    counts = [(~np.isnan(squares)).sum(axis=0) for squares in tables]
    return [
        np.sqrt(np.where(n, np.nansum(squares, axis=0) / np.maximum(n, 1), np.nan))
        for squares, n in zip(tables, counts, strict=True)
    ]


def count_cycles(spec: Spec) -> int:
    """Cycles of a trial."""
    return min(max(_LEAST_CYCLES, -(-_ALL_STEPS // spec.training.steps)), spec.training.cycles)
