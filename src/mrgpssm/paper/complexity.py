"""The paper's run-time formula against the clock: one size grows at a time, and exponents are fitted.

    O(τ_c (M² L T + τ_o (M² L (B_0 + B) + M³ L)))     (supplement D)

says that a step grows at most as M³ and as B_0 + B, a sweep at most as M² and as T, a fit as L and as τ_c.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data.synthetic import two_scales
from mrgpssm.paper.config import Experiment
from mrgpssm.paper.fleet import make_fleet
from mrgpssm.paper.problems import Fold, Problem
from mrgpssm.paper.timing import fit_seconds, step_seconds, sweep_seconds
from mrgpssm.spec import make_spec

TIMERS = {"step": step_seconds, "sweep": sweep_seconds, "fit": fit_seconds}
BOUNDS = {
    ("step", "inducing"): 3.0,
    ("step", "window"): 1.0,
    ("sweep", "inducing"): 2.0,
    ("sweep", "rows"): 1.0,
    ("fit", "components"): 1.0,
    ("fit", "cycles"): 1.0,
}


def cost_problem(rows: int) -> Problem:
    """One synthetic recording; only its size matters."""
    return Problem("synthetic M1", (two_scales("M1", seed=0, length=rows).sequence,), (Fold((0,), (0,)),))


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
                "bound": BOUNDS[part, name],
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
        return timer(make_fleet(spec, _first_rows(whole, rows)))


def _first_rows(whole, rows: int) -> Problem:
    part = type(whole)(whole.inputs[:rows], whole.outputs[:rows], whole.dt)
    return Problem("synthetic M1", (part,), (Fold((0,), (0,)),))
