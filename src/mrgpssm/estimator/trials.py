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
from mrgpssm.advice.suggest import MANY
from mrgpssm.errors import DataError, FitError
from mrgpssm.estimator.choosing import best_restarts
from mrgpssm.estimator.fitting import Field, check_data, judge, make_judges, name_stages, train, train_some
from mrgpssm.estimator.unseen import Judge, Judged, run_all
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
}
_LEAST_CYCLES, _ALL_STEPS = 3, 600  # of a trial
_PIECE = 200  # rows of a short run
_LOST = 100.0  # the error of a candidate that cannot be judged
_SMALLEST = 1e-6  # errors below this share of the deviation count as this
_MOST, _AHEAD = np.log(0.5), np.log(1.2)  # a preset start that explains most is given up for a clearly better one
_CLEAR = np.log(1.1)  # what was learned is given up for a clearly better linear model, an integrator for one that fades
_MARGIN = 0.1  # of log error: among many recordings, a linear model that is not that near is judged no further

Watch = Callable[[tuple[int, ...], str], AbstractContextManager[Reporter]]


def settle(selection: Selection, field: Field, watch: Watch) -> Selection:
    """The selection, or a rival where that is better after some cycles; without rivals nothing is trained.

    The winner goes on from where its trial stands. `watch(resolutions, label)` shows a trial. A candidate whose trial
    fails has lost.
    """
    candidates = list_candidates(selection)
    if len(candidates) < 2:
        return selection
    choice = None if field.run is None else field.run.root / "trials" / "choice.json"
    errors, begun = {} if choice is None or not choice.exists() else read_json(choice), {}
    for name, own in candidates.items():
        if name in errors:
            continue
        try:
            check_data(own.spec, field.training)
            begun[name] = _try_out(field, own.spec, name, watch)
            errors[name] = trial_error(_list_judges(field, own.spec, FleetFit.of(begun[name])))
        except (DataError, FitError):  # such as a fold whose rows show no linear model
            errors[name] = _LOST
    if choice is not None:
        write_json(choice, errors)  # a run that goes on elsewhere goes on with the same winner
    ahead = _AHEAD if errors["preset"] < _MOST else 0.0
    best = min((name for name in candidates if name != "preset"), key=lambda name: errors[name])
    name = best if errors[best] < errors["preset"] - ahead else "preset"
    if name == "linear" and "integrator" in candidates and errors["integrator"] < errors["linear"] + _CLEAR:
        name = "integrator"
    *most, last = [f"{_share(errors[name])} from the {title}" for name, title in _TITLES.items() if name in candidates]
    shares = f"{', '.join(most)} and {last}"
    reason = f"a {_TITLES[name]}: short fits leave {shares} of the deviation on rows left out"
    winner = candidates[name]
    if name not in begun and errors[name] < _LOST:
        begun[name] = _try_out(field, winner.spec, name, watch)  # a run that goes on: its last checkpoint
    start = begun.get(name)
    return winner._replace(reasons=(*winner.reasons, reason), rivals=(), linear=selection.linear, begun=start)


def _try_out(field: Field, spec: Spec, name: str, watch: Watch) -> Snapshot:
    """Where training stands after the cycles of a trial."""
    run = None if field.run is None else field.run.below(f"trials/{name}")
    with watch(spec.structure.resolutions, name_trial(name)) as shown:
        return train_some(field._replace(run=run), spec, shown.steps, count_cycles(spec))


def _list_judges(field: Field, spec: Spec, fleet: FleetFit) -> list[Judge]:
    """The models of a fleet, each with what it has not seen."""
    model = best_restarts(spec, fleet, field.scale(spec), field.training[0])
    return make_judges(model, fleet, field.training, field.held_out)


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
    if len(field.training) >= MANY and known > ours + _MARGIN:
        return None
    scaling = field.scale(linear.spec)
    try:
        check_data(linear.spec, field.training)
        fleet = train(field._replace(run=None), linear.spec, lambda _: None)
        model = best_restarts(linear.spec, fleet, scaling, field.training[0])
    except (DataError, FitError):
        return None
    rivals = make_judges(model, fleet, field.training, field.held_out)
    return judge(model, rivals, field.held_out, stage) if left_out_error(rivals) < ours - _CLEAR else None


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
