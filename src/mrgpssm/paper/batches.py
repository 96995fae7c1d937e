"""Batch size against resolution on set S (paper, table:batchsizeVSresolution), with equal steps and with equal time."""

from dataclasses import replace
from typing import Any

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data.sequence import take_outputs
from mrgpssm.errors import DataError
from mrgpssm.paper.config import Experiment, Method
from mrgpssm.paper.costs import step_seconds, sweep_seconds, training_seconds
from mrgpssm.paper.fleet import make_problem_fleet
from mrgpssm.paper.problems import Problem
from mrgpssm.spec import Spec

TIMING = "timing"


def only_set(problem: Problem, name: str) -> Problem:
    """The problem with one of its outputs."""
    sequences = (replace(take_outputs(s, [name]), name=f"{s.name} {name}") for s in problem.sequences)
    return Problem(f"{problem.name}, set {name}", tuple(sequences), problem.folds)


def measure(experiment: Experiment, problem: Problem) -> dict[str, Any]:
    """Seconds of a step, of a sweep and of the whole fit of every method with its own number of steps."""
    costs = {}
    for method in experiment.methods:
        if method.as_long_as is None:
            with floating_point(method.spec.structure.precision):
                fleet = make_problem_fleet(method.spec, problem, method.observation_sd)
                cost = {"step_seconds": step_seconds(fleet), "sweep_seconds": sweep_seconds(fleet)}
            costs[method.name] = cost | {"seconds": training_seconds(method.spec.to_json(), cost)}
    return {"timing": costs, "seconds": {"all": sum(c["seconds"] for c in costs.values())}}


def in_equal_time(experiment: Experiment, method: Method, records: list[dict[str, Any]]) -> Method:
    """The method with as many steps as fit into its partner's time, by the record of the timing piece.

    With c cycles of n steps of s seconds each and a sweep after each turn in both, the steps that may be taken per
    turn are n s / s'; where that is less than one, there are fewer cycles of one step.
    """
    if method.as_long_as is None:
        return method
    timing = next((r["timing"] for r in records if r["experiment"] == experiment.what and r["name"] == TIMING), None)
    if timing is None:
        raise DataError(f"The times are not measured yet; run `mrgpssm reproduce {experiment.what} --only {TIMING}`.")
    same = next(m.name for m in experiment.methods if m.as_long_as is None and m.spec == method.spec)
    steps = method.spec.training.steps * timing[method.as_long_as]["step_seconds"] / timing[same]["step_seconds"]
    return replace(method, spec=affordable(method.spec, steps))


def affordable(spec: Spec, steps: float) -> Spec:
    """As many whole steps per turn as asked for; fewer cycles where that is less than one."""
    if steps >= 1:
        return spec.change(steps=round(steps))
    return spec.change(steps=1, cycles=max(round(spec.training.cycles * steps), 1))
