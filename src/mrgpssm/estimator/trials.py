"""Trials: which of some specifications is learned, and whether a linear model would have done better.

All are judged in free runs over what the folds leave out, or over validation sequences. The score is the mean logarithm
of their errors over all stretches and outputs, so that no single stretch decides alone. After a short fit a model may
lose the state long before a stretch ends, whatever it has learned. So in trials, runs over short pieces of a stretch
count as much as those over all of it.
"""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from mrgpssm.advice.automatic import Selection
from mrgpssm.advice.suggest import MANY
from mrgpssm.data import Scaling, Sequence, apply_drive
from mrgpssm.errors import DataError, FitError
from mrgpssm.estimator.choosing import best_restarts
from mrgpssm.estimator.fitting import check_data, judge, make_judges, train
from mrgpssm.estimator.unseen import SAMPLES, Judge, Judged
from mrgpssm.file import read_json, write_json
from mrgpssm.prediction.predict import Piece
from mrgpssm.prediction.scores import Table
from mrgpssm.runtime.output import Measurements
from mrgpssm.spec import Spec
from mrgpssm.training import Progress
from mrgpssm.training.progress import Reporter
from mrgpssm.training.runs import RunDirectory

LINEAR = "in the end the linear model: it leaves less on rows left out than what was learned"
_TITLES = {
    "preset": "preset start",
    "linear": "linear start",
    "integrator": "linear start with an integrator",
}
_STEPS, _LEAST_CYCLES, _ALL_STEPS = 150, 4, 600  # of a trial
_SAMPLES = 30
_PIECE = 200  # rows of a short run
SAMPLES_SHARE = _SAMPLES / SAMPLES  # of the samples that runs have in calibration
_LOST = 100.0  # the error of a candidate that cannot be judged
_SMALLEST = 1e-6  # errors below this share of the deviation count as this
_MOST, _AHEAD = np.log(0.5), np.log(1.2)  # a preset start that explains most is given up for a clearly better one
_CLEAR = np.log(1.1)  # what was learned is given up for a clearly better linear model, an integrator for one that fades
_MARGIN = 0.1  # of log error: among many recordings, a linear model that is not that near is judged no further

Watch = Callable[[tuple[int, ...], str], AbstractContextManager[Reporter]]


class Field(NamedTuple):
    """What trials are held on: training data, validation sequences where there are some, and the folder of the run."""

    training: list[Sequence]
    held_out: list[Sequence] | None
    run: RunDirectory | None

    def scale(self, spec: Spec) -> Scaling:
        """The scaling of what drives a model."""
        return Scaling.fit(apply_drive(spec.structure.drive, s) for s in self.training)

    def learn(self, spec: Spec, name: str, report: Callable[[Progress], None]) -> list[Judge]:
        """The models of a short fit, each with what it has not seen."""
        run = None if self.run is None else self.run.below(f"trials/{name}")
        scaling = self.scale(spec)
        fleet = train(run, spec, self.training, scaling, self.held_out, report)
        return make_judges(best_restarts(spec, fleet, scaling, self.training[0]), fleet, self.training, self.held_out)


def settle(selection: Selection, field: Field, watch: Watch) -> Selection:
    """The selection, or a rival where that is better after short fits; without rivals nothing is trained.

    `watch(resolutions, label)` shows a trial. A candidate whose trial fails has lost.
    """
    candidates = list_candidates(selection)
    if len(candidates) < 2:
        return selection
    choice = None if field.run is None else field.run.root / "trials" / "choice.json"
    errors = {} if choice is None or not choice.exists() else read_json(choice)
    for name, own in candidates.items():
        if name in errors:
            continue
        short = shorten(own.spec)
        try:
            check_data(own.spec, field.training)
            with watch(short.structure.resolutions, name_trial(name)) as shown:
                errors[name] = trial_error(field.learn(short, name, shown.steps))
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
    return winner._replace(reasons=(*winner.reasons, reason), rivals=(), linear=selection.linear)


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
    stage("a linear model beside it")
    ours = left_out_error(judges)
    known = float(np.mean(np.log(np.maximum(linear.errors, _SMALLEST))))
    if len(field.training) >= MANY and known > ours + _MARGIN:
        return None
    scaling = field.scale(linear.spec)
    try:
        check_data(linear.spec, field.training)
        fleet = train(None, linear.spec, field.training, scaling, field.held_out, lambda _: None)
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

    tables = [table["squares"] for runs in judge.run(_SAMPLES) for table in runs.gather(tell)]
    counts = [(~np.isnan(squares)).sum(axis=0) for squares in tables]
    return [
        np.sqrt(np.where(n, np.nansum(squares, axis=0) / np.maximum(n, 1), np.nan))
        for squares, n in zip(tables, counts, strict=True)
    ]


def shorten(spec: Spec) -> Spec:
    """The same with one restart, few cycles, and nothing that is not judged here."""
    steps = min(_STEPS, spec.training.steps)
    few = {"cycles": min(max(_LEAST_CYCLES, _ALL_STEPS // steps), spec.training.cycles), "steps": steps, "finetune": 0}
    once = {"restarts": 1, "ensemble": 1, "fold_restarts": 1, "early_stopping": False}
    return spec.change(**few, **once, calibrate=False, noise="gaussian")
