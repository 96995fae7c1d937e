"""What a fit costs, and the paper's run-time formula against the clock: one size grows at a time.

    O(τ_c (M² L T + τ_o (M² L (B_0 + B) + M³ L)))     (supplement D)

says that a step grows at most as M³ and as B_0 + B, a sweep at most as M² and as T, a fit as L and as τ_c. A fit is
taken apart into gradient steps and sweeps over the data; compilation does not count.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data.synthetic import two_scales
from mrgpssm.paper.config import Experiment
from mrgpssm.paper.fleet import ProblemFleet, make_problem_fleet
from mrgpssm.paper.problems import Problem, ProblemFold
from mrgpssm.spec import make_spec
from mrgpssm.training import begin, fit_fleet
from mrgpssm.training.backfit import train_turn
from mrgpssm.training.bench import time_calls
from mrgpssm.training.journal import Journal
from mrgpssm.training.sweep import sweep

_CHUNK, _LAPS = 2, 5
BOUNDS = {
    "step inducing": 3.0,
    "step window": 1.0,
    "sweep inducing": 2.0,
    "sweep rows": 1.0,
    "fit components": 1.0,
    "fit cycles": 1.0,
}


def training_seconds(options: dict[str, Any], cost: dict[str, float]) -> float:
    """Turns x (steps x seconds of a step + seconds of a sweep), compilation not counted."""
    turns = options["cycles"] * len(options["resolutions"])
    return turns * (options["steps"] * cost["step_seconds"] + cost["sweep_seconds"])


def step_seconds(fleet: ProblemFleet) -> float:
    """The median over chunks of two gradient steps of the component that trains first."""
    settings = replace(fleet.plan.settings, steps=(_LAPS + 1) * _CHUNK, chunk=_CHUNK)
    plan, stamps = replace(fleet.plan, settings=settings), []
    start = begin(plan, fleet.ssm)
    journal = Journal(settings, len(plan.schedule), start.alive, (), lambda _: None)
    train_turn(plan, start, journal, lambda _: stamps.append(time.perf_counter()))
    return float(np.median(np.diff(stamps))) / _CHUNK


def sweep_seconds(fleet: ProblemFleet) -> float:
    """One component over all data at stride 1."""
    plan, settings = fleet.plan, fleet.plan.settings
    start = begin(plan, fleet.ssm)
    component, cache = start.state.ssm.components[0], start.state.caches[0]
    longest = int(jnp.max(plan.series.lengths))
    walks: dict[str, Any] = {"samples": settings.samples, "chunk": settings.sweep_chunk, "longest": longest}
    return median_seconds(
        lambda: sweep(component, plan.resolutions[0], plan.series, plan.tasks, cache, keys=plan.tasks.key, **walks)
    )


def fit_seconds(fleet: ProblemFleet) -> float:
    """A whole fit."""
    return median_seconds(lambda: fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), lambda _: None).state.ssm)


def median_seconds(run: Callable[[], Any]) -> float:
    """The median of three runs after one that compiles."""
    return time_calls(lambda: jax.block_until_ready(run()), seconds=0.0)["ms"] / 1e3


TIMERS = {"step": step_seconds, "sweep": sweep_seconds, "fit": fit_seconds}


def cost_problem(rows: int) -> Problem:
    """One synthetic recording; only its size matters."""
    return Problem("synthetic M1", (two_scales("M1", seed=0, length=rows).sequence,), (ProblemFold((0,), (0,)),))


def measure(experiment: Experiment, tell: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of step, sweep and fit while one size grows, and the exponents."""
    rows = experiment.more["rows"]
    whole = cost_problem(max(rows, *experiment.more["sweep"]["rows"])).sequences[0]
    growth, total = {}, 0.0
    for part, timer in TIMERS.items():
        for name, values in experiment.more[part].items():
            tell(f"complexity: {part} against {name}")
            seconds = [_cost(timer, experiment, whole, rows, name, value) for value in values]
            sizes = [
                value + experiment.more["sizes"].get("buffer", 10) if name == "window" else value for value in values
            ]
            growth[f"{part} {name}"] = {
                "sizes": sizes,
                "seconds": [float(f"{s:.4g}") for s in seconds],
                "exponent": round(exponent(sizes, seconds), 3),
                "last_exponent": round(exponent(sizes[-2:], seconds[-2:]), 3),
                "bound": BOUNDS[f"{part} {name}"],
            }
            total += sum(seconds)
    return {"growth": growth, "seconds": {"all": round(total, 1)}}


def exponent(sizes: list[float], costs: list[float]) -> float:
    """The slope a of log cost = a log size + b, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def _cost(timer, experiment: Experiment, whole, rows: int, name: str, value: int) -> float:
    sizes = dict(experiment.more["sizes"])
    if name == "components":
        sizes["resolutions"] = list(sizes["resolutions"]) * value
    elif name == "rows":
        rows = value
    else:
        sizes[name] = value
    spec = make_spec(sizes).fixed()
    with floating_point(spec.structure.precision):
        return timer(make_problem_fleet(spec, _first_rows(whole, rows)))


def _first_rows(whole, rows: int) -> Problem:
    part = type(whole)(whole.inputs[:rows], whole.outputs[:rows], whole.dt)
    return Problem("synthetic M1", (part,), (ProblemFold((0,), (0,)),))
