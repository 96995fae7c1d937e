"""What a fit costs, and the paper's run-time formula against the clock: one size grows at a time.

    O(τ_c (M² L T + τ_o (M² L (B_0 + B) + M³ L)))     (supplement D)

says that a step grows at most as M³ and as B_0 + B, a sweep at most as M² and as T, a fit as L and as τ_c. A fit is
taken apart into gradient steps and sweeps over the data; compilation does not count.
"""

from collections.abc import Callable
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
from mrgpssm.training.bench import time_calls
from mrgpssm.training.estimate import time_steps, time_sweep

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
    return float(np.median(time_steps(fleet.plan, begin(fleet.plan, fleet.ssm), 5)))


def sweep_seconds(fleet: ProblemFleet) -> float:
    """One component over all data at stride 1: the median of three after one that compiles."""
    plan, start = fleet.plan, begin(fleet.plan, fleet.ssm)
    longest = int(jnp.max(plan.series.lengths))
    _, *laps = (time_sweep(plan, start, longest, plan.settings.sweep_chunk) for _ in range(4))
    return float(np.median(laps))


def fit_seconds(fleet: ProblemFleet) -> float:
    """A whole fit: the median of three after one that compiles."""

    def run() -> None:
        start = begin(fleet.plan, fleet.ssm)
        jax.block_until_ready(fit_fleet(fleet.plan, start, lambda _: None).state.ssm)

    return time_calls(run, seconds=0.0)["ms"] / 1e3


TIMERS = {"step": step_seconds, "sweep": sweep_seconds, "fit": fit_seconds}


def cost_problem(rows: int) -> Problem:
    """One synthetic recording; only its size matters."""
    return Problem("synthetic M1", (two_scales("M1", seed=0, length=rows).sequence,), (ProblemFold((0,), (0,)),))


def measure(experiment: Experiment, tell: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of step, sweep and fit while one size grows, and the exponents."""
    growth, total = {}, 0.0
    for part, timer in TIMERS.items():
        for name, values in experiment.more[part].items():
            tell(f"complexity: {part} against {name}")
            seconds = [_measure_one(timer, experiment, name, value) for value in values]
            buffer = experiment.more["sizes"].get("buffer", 10) if name == "window" else 0
            sizes = [value + buffer for value in values]
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


def _measure_one(timer: Callable[[ProblemFleet], float], experiment: Experiment, name: str, value: int) -> float:
    sizes, rows = dict(experiment.more["sizes"]), experiment.more["rows"]
    if name == "components":
        sizes["resolutions"] = list(sizes["resolutions"]) * value
    elif name == "rows":
        rows = value
    else:
        sizes[name] = value
    spec = make_spec(sizes).complete()
    with floating_point(spec.structure.precision):
        return timer(make_problem_fleet(spec, cost_problem(rows)))
