"""What a fit would cost: a few steps of every candidate are timed, and later stages on a few rows of untrained models.

From these rows to all of them time grows with the rows that are walked.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mrgpssm.advice.automatic import Selection
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Sequence
from mrgpssm.errors import DataError
from mrgpssm.estimator.choosing import best_restarts
from mrgpssm.estimator.fitting import Field, check_data, make_judges
from mrgpssm.estimator.horizon import WARM_ROWS, WARM_STARTS, start_anywhere
from mrgpssm.estimator.judges import SAMPLES, Judge
from mrgpssm.estimator.trials import Watch, count_cycles, list_candidates, name_trial
from mrgpssm.estimator.unseen import RUNS, WARM_RUNS, calibrate_model
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.spec import Spec
from mrgpssm.training import FleetFit, begin
from mrgpssm.training.estimate import estimate
from mrgpssm.training.outlook import Outlook, step_work
from mrgpssm.training.planning import make_plan
from mrgpssm.training.progress import AFTER, FIT, reporter
from mrgpssm.training.settings import TrainingSettings

_ROWS = 400
_FORWARD = 0.25  # of the work of a gradient step: a state of a free run, which has no reverse pass

Sequences = list[Sequence]


def estimate_fit(selection: Selection, field: Field) -> dict[str, Any]:
    """What `MRGPSSM.estimate` returns: trials of all candidates, and the rest for the one that takes longest."""
    candidates, costs = list_candidates(selection), {}
    for name, own in list(candidates.items()):
        try:
            check_data(own.spec, field.training)
            costs[name] = _estimate_one(own.spec, field)
        except DataError:
            if own is selection:
                raise
            del candidates[name]  # its trial would be lost at once
    longest = max(costs.values(), key=lambda cost: sum(cost["stages"].values()))
    tried: dict[str, float] = {}
    for name, own in candidates.items() if len(candidates) > 1 else ():
        training, cost = own.spec.training, costs[name]
        share = count_cycles(own.spec) / max(training.cycles + training.finetune + training.refit, 1)
        runs = 2 * cost["stages"].get(RUNS, 0.0)  # over stretches, and over pieces of them
        planned = cost["stages"]["training"] - cost["seconds"]
        cooled = share / max(count_cycles(own.spec), 1)  # one more cycle, which is lost
        tried[name_trial(name)] = planned + (share + cooled) * cost["seconds"] + runs
        cost["stages"]["training"] -= share * cost["seconds"]  # the winner goes on from there
    stages = tried | longest["stages"]
    if selection.linear is not None and RUNS in stages:
        linear = _time_plan(selection.linear.spec, field)
        stages["a linear model beside it"] = linear + stages[RUNS]
    rows = sum(map(len, field.training))
    return longest | {"rows": rows, "stages": stages, "seconds": sum(stages.values())}


def foresee(selection: Selection, field: Field, show: bool) -> Watch:
    """Who shows every stage of a fit, with the time that is left of all of them.

    Which candidate will win is not known before the trials: what follows takes as long as it would on average.
    """
    outputs, candidates, works = len(field.training[0].output_names), list_candidates(selection), {}
    rest: list[float] = []
    for name, (spec, *_) in candidates.items():
        each, turns = step_work(spec, outputs) * spec.training.steps, len(spec.structure.resolutions)
        tried = count_cycles(spec) * turns if len(candidates) > 1 else 0
        if tried:
            works[name_trial(name)] = (tried + turns) * each
        schedule = TrainingSettings.of(spec.training).schedule(spec.structure.resolutions)
        rest.append((len(schedule) - tried) * each)
    works |= {FIT: float(np.mean(rest)), AFTER: _run_work(selection.spec, field, outputs)}
    outlook = Outlook(works)
    return lambda spec, label: reporter(show, spec.structure.resolutions, label, outlook, step_work(spec, outputs))


def _run_work(spec: Spec, field: Field, outputs: int) -> float:
    """The work of free runs over all that was left out, and after warm-ups; then everything is quick."""
    judged = field.held_out or (field.training if spec.bands.folds else [])
    training, members = spec.training, spec.training.ensemble if field.held_out else 1
    points = spec.members * training.windows * (training.buffer + training.window) * training.samples
    state = step_work(spec, outputs) / max(points, 1)  # of all outputs, one component
    rows = sum(map(len, judged))
    warm = 2 * min(rows, WARM_STARTS * WARM_ROWS * max(spec.bands.folds, 1))  # with their warm-ups
    return _FORWARD * state * len(spec.structure.resolutions) * members * SAMPLES * (rows + warm)


def _time_plan(spec: Spec, field: Field) -> float:
    """Seconds until training would begin."""
    began = time.perf_counter()
    with floating_point(spec.structure.precision):
        make_plan(spec, field.training, field.scale(spec), field.held_out or [])
    return time.perf_counter() - began


def _estimate_one(spec: Spec, field: Field) -> dict[str, Any]:
    """The cost of training one candidate, as `training.estimate`, and its stages in seconds."""
    scaling, began = field.scale(spec), time.perf_counter()
    with floating_point(spec.structure.precision):
        plan, ssm = make_plan(spec, field.training, scaling, field.held_out or [])
        start, planned = begin(plan, ssm), time.perf_counter() - began
        cost = estimate(plan, start)
    untrained = FleetFit.of(start)
    model = best_restarts(spec, untrained, scaling, field.training[0])
    judges = lambda *given: make_judges(model, untrained, *given)  # noqa: E731
    later = time_stages(model, field.training, field.held_out, judges)
    return cost | {"stages": {"training": planned + cost["seconds"], **later}}


def time_stages(
    model: FittedModel,
    training: Sequences,
    held_out: Sequences | None,
    make_judges: Callable[[Sequences, Sequences | None], list[Judge]],
) -> dict[str, float]:
    """Seconds of every stage after training."""
    begin = [_begin(training)], [_begin(held_out)] if held_out else None
    if not (few := make_judges(*begin)):
        return {}
    all_rows, few_rows = _count_rows(make_judges(training, held_out)), _count_rows(few)
    growth = {stage: all_rows[stage] / max(few_rows[stage], 1) for stage in all_rows}
    calibrate_model(model, few, lambda *_: None)  # compiles
    stamps: list[tuple[str, float]] = []
    calibrate_model(model, make_judges(*begin), lambda stage, _: stamps.append((stage, time.perf_counter())))
    stamps.append(("", time.perf_counter()))
    seconds: dict[str, float] = {}
    for (stage, began), (_, ended) in itertools.pairwise(stamps):
        seconds[stage] = seconds.get(stage, 0.0) + (ended - began) * growth.get(stage, growth[RUNS])
    return seconds


def _begin(sequences: Sequences) -> Sequence:
    """The first rows of the longest sequence; missing outputs are put at 0, where their values do not matter."""
    longest = max(sequences, key=len)
    begin = longest.take(slice(_ROWS))
    return replace(begin, outputs=np.nan_to_num(begin.outputs))


def _count_rows(judges: list[Judge]) -> dict[str, int]:
    """That are simulated in the stages of runs."""
    warm = [judge for judge in map(start_anywhere, judges) if judge is not None]
    return {stage: sum(len(s) for j in some for s in j.unseen) for stage, some in ((RUNS, judges), (WARM_RUNS, warm))}
