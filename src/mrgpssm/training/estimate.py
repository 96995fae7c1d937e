"""What a run would cost, before it is begun: a few real steps are timed, arrays are counted."""

import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.training.backfit import driving_states, train_turn
from mrgpssm.training.journal import Journal
from mrgpssm.training.plan import Plan, Snapshot
from mrgpssm.training.sweep import sweep

_STEPS, _ROWS = 2, 200
_RUNTIME = 800e6  # bytes: the interpreter, JAX and compiled programs, on a CPU


def estimate(plan: Plan, start: Snapshot) -> dict[str, Any]:
    """Seconds and megabytes of `fit_fleet` on this machine."""
    settings, parts = plan.settings, len(plan.resolutions)
    turns = sum(len(team) for _, team in plan.schedule)  # as if each component of a turn trained alone
    longest = int(jnp.max(plan.series.lengths))
    step_seconds, rows = float(np.mean(time_steps(plan, start, 2))) if turns else 0.0, min(_ROWS, longest)
    time_sweep(plan, start, rows, rows)  # compiles
    row_seconds = time_sweep(plan, start, rows, rows) / rows
    steps, sweep_seconds = turns * settings.steps, row_seconds * longest * (turns + parts)
    return {
        "members": int(plan.tasks.columns.shape[0]),
        "steps": steps,
        "step_seconds": step_seconds,
        "sweep_seconds": sweep_seconds,
        "seconds": steps * step_seconds + sweep_seconds,
        "megabytes": (_RUNTIME + _bytes(plan.series) + 2 * _bytes(start.state)) / 1e6,
    }


def time_steps(plan: Plan, start: Snapshot, chunks: int) -> np.ndarray:
    """(chunks,) seconds of a step of the component that trains first, by chunks of two; one more before compiles."""
    short = replace(plan, settings=replace(plan.settings, steps=(chunks + 1) * _STEPS, chunk=_STEPS))
    journal = Journal(short.settings, len(plan.schedule), start.alive, (), lambda _: None)
    stamps: list[float] = []
    train_turn(short, start, journal, lambda _: stamps.append(time.perf_counter()))
    return np.diff(stamps) / _STEPS


def time_sweep(plan: Plan, start: Snapshot, rows: int, chunk: int) -> float:
    """Seconds of a sweep of the first component over the first rows of all sequences."""
    component, cache = start.state.ssm.components[0], start.state.caches[0]
    slower = driving_states(start.state.ssm, start.state.caches, 0)
    walks = {"samples": plan.settings.samples, "chunk": chunk, "longest": rows, "keys": plan.tasks.key}
    began = time.perf_counter()
    jax.block_until_ready(sweep(component, plan.resolutions[0], plan.series, plan.tasks, cache, slower, **walks))
    return time.perf_counter() - began


def _bytes(tree: object) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
