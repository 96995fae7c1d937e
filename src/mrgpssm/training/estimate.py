"""What a run would cost, before it is begun: a few real steps are timed, arrays are counted."""

import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from mrgpssm.training.backfit import Plan, Snapshot, driving_states, train_turn
from mrgpssm.training.journal import Journal
from mrgpssm.training.sweep import sweep

_STEPS, _ROWS = 2, 200
_RUNTIME = 800e6  # bytes: the interpreter, JAX and compiled programs, on a CPU


def estimate(plan: Plan, start: Snapshot) -> dict[str, Any]:
    """Seconds and megabytes of `fit_fleet` on this machine."""
    settings, parts = plan.settings, len(plan.resolutions)
    turns = sum(len(team) for _, team in plan.schedule)  # as if each component of a turn trained alone
    longest = int(jnp.max(plan.series.lengths))
    step_seconds = _step_seconds(plan, start)
    steps, sweep_seconds = turns * settings.steps, _row_seconds(plan, start, longest) * longest * (turns + parts)
    return {
        "members": int(plan.tasks.columns.shape[0]),
        "steps": steps,
        "step_seconds": step_seconds,
        "sweep_seconds": sweep_seconds,
        "seconds": steps * step_seconds + sweep_seconds,
        "megabytes": (_RUNTIME + _bytes(plan.series) + 2 * _bytes(start.state)) / 1e6,
    }


def _step_seconds(plan: Plan, start: Snapshot) -> float:
    """The second and third of three chunks of two steps: the first one compiles."""
    short = replace(plan, settings=replace(plan.settings, steps=3 * _STEPS, chunk=_STEPS))
    journal = Journal(short.settings, len(plan.schedule), start.alive, (), lambda _: None)
    stamps: list[float] = []
    train_turn(short, start, journal, lambda _: stamps.append(time.perf_counter()))
    return (stamps[2] - stamps[0]) / (2 * _STEPS)


def _row_seconds(plan: Plan, start: Snapshot, longest: int) -> float:
    """One row of all sequences in a sweep; the first of two sweeps compiles."""
    settings, rows = plan.settings, min(_ROWS, longest)
    component, cache = start.state.ssm.components[0], start.state.caches[0]
    slower = driving_states(start.state.ssm, start.state.caches, 0)
    walks = {"samples": settings.samples, "chunk": rows, "longest": rows, "keys": plan.tasks.key}

    def once() -> float:
        began = time.perf_counter()
        jax.block_until_ready(sweep(component, plan.resolutions[0], plan.series, plan.tasks, cache, slower, **walks))
        return time.perf_counter() - began

    once()
    return once() / rows


def _bytes(tree: object) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
