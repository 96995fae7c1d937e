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
from mrgpssm.estimator.trials import count_cycles, list_candidates, name_trial
from mrgpssm.estimator.unseen import RUNS, Judge, calibrate_model
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.spec import Spec
from mrgpssm.training import FleetFit, begin
from mrgpssm.training.estimate import estimate
from mrgpssm.training.planning import make_plan

_ROWS = 400

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
    growth = _count_rows(make_judges(training, held_out)) / _count_rows(few)
    calibrate_model(model, few, lambda *_: None)  # compiles
    stamps: list[tuple[str, float]] = []
    calibrate_model(model, make_judges(*begin), lambda stage, _: stamps.append((stage, time.perf_counter())))
    stamps.append(("", time.perf_counter()))
    seconds: dict[str, float] = {}
    for (stage, began), (_, ended) in itertools.pairwise(stamps):
        seconds[stage] = seconds.get(stage, 0.0) + (ended - began) * growth
    return seconds


def _begin(sequences: Sequences) -> Sequence:
    """The first rows of the longest sequence; missing outputs are put at 0, where their values do not matter."""
    longest = max(sequences, key=len)
    begin = longest.take(slice(_ROWS))
    return replace(begin, outputs=np.nan_to_num(begin.outputs))


def _count_rows(judges: list[Judge]) -> int:
    return sum(len(s) for j in judges for s in j.unseen)
