"""What a fit costs, taken apart: a gradient step, a sweep over the data, a whole fit. Compilation does not count."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.paper.fleet import Fleet
from mrgpssm.training import begin, fit_fleet
from mrgpssm.training.backfit import train_turn
from mrgpssm.training.journal import Journal
from mrgpssm.training.sweep import sweep

_CHUNK, _LAPS = 2, 5


def step_seconds(fleet: Fleet) -> float:
    """The median over chunks of two gradient steps of the component that trains first."""
    settings = replace(fleet.plan.settings, steps=(_LAPS + 1) * _CHUNK, chunk=_CHUNK)
    plan, stamps = replace(fleet.plan, settings=settings), []
    start = begin(plan, fleet.ssm)
    journal = Journal(settings, len(plan.schedule), start.alive, (), lambda _: None)
    train_turn(plan, start, journal, lambda _: stamps.append(time.perf_counter()))
    return float(np.median(np.diff(stamps))) / _CHUNK


def sweep_seconds(fleet: Fleet) -> float:
    """One component over all data at stride 1."""
    plan, settings = fleet.plan, fleet.plan.settings
    start = begin(plan, fleet.ssm)
    component, cache = start.state.ssm.components[0], start.state.caches[0]
    longest = int(jnp.max(plan.series.lengths))
    walks: dict[str, Any] = {
        "samples": settings.samples,
        "chunk": settings.sweep_chunk,
        "longest": longest,
    }
    return median_seconds(
        lambda: sweep(component, plan.resolutions[0], plan.series, plan.tasks, cache, keys=plan.tasks.key, **walks)
    )


def fit_seconds(fleet: Fleet) -> float:
    """A whole fit."""
    return median_seconds(lambda: fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), lambda _: None).state.ssm)


def median_seconds(run: Callable[[], Any]) -> float:
    """The median of three runs after one that compiles."""
    jax.block_until_ready(run())
    laps = []
    for _ in range(3):
        began = time.perf_counter()
        jax.block_until_ready(run())
        laps.append(time.perf_counter() - began)
    return float(np.median(laps))
