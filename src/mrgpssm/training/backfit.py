"""Backfitting over a fleet (paper, Alg. 1): one compiled program per component shape trains all members."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mrgpssm._types import Array, Float, Int
from mrgpssm.data import Series
from mrgpssm.model import SSM, Component
from mrgpssm.training.devices import fleet_mesh, fleet_program, on_all, on_first
from mrgpssm.training.journal import Journal, Progress
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import Cache, FitInfo, FitState, Learner, Task, healthy
from mrgpssm.training.step import Phase, init_optimiser, step
from mrgpssm.training.sweep import series_bound, sweep

_STEP, _SWEEP, _SELECT = 20, 21, 22


@dataclass(frozen=True)
class Plan:
    """What a training run is given: settings, data, members, and the resolution of every component."""

    settings: TrainingSettings
    series: Series
    tasks: Task
    resolutions: tuple[int, ...]

    @property
    def turns(self) -> int:
        """How often a component is trained and cached: cycles x components."""
        return self.settings.cycles * len(self.resolutions)


@dataclass(frozen=True)
class Snapshot:
    """Where a run stands between two chunks of steps: all it needs to go on, bit for bit.

    `turn` counts components trained and cached so far, `step` the steps of the one under way.
    """

    state: FitState
    turn: int
    step: int
    alive: np.ndarray
    history: tuple[Progress, ...]


@dataclass(frozen=True)
class FleetFit:
    """What training returns: the final state of all members, their bounds on equal noise, and the history."""

    state: FitState
    bounds: np.ndarray
    alive: np.ndarray
    history: tuple[Progress, ...]


def init_state(settings: TrainingSettings, ssm: SSM[Component], rows: int) -> FitState:
    """A member before its first step: fresh moments, caches of zeros (no other component has spoken yet)."""
    y, dtype = ssm.raw_observation_noise.shape[0], ssm.raw_observation_noise.dtype

    def blank(component: Component) -> Cache:
        d = component.transition.raw_process_noise.shape[0]
        return Cache(jnp.zeros((rows, y), dtype), jnp.zeros((rows, d), dtype), jnp.zeros((rows, d), dtype))

    return FitState(
        ssm,
        tuple(init_optimiser(settings, c, ssm.raw_observation_noise) for c in ssm.components),
        tuple(blank(c) for c in ssm.components),
        healthy(dtype),
    )


def partial_output(caches: tuple[Cache, ...], component: int) -> Float[Array, "*f rows y"]:
    """mean(ŷ^(≠l)): the mean output of all components but one (paper, supplement E.1)."""
    others = [cache.outputs for index, cache in enumerate(caches) if index != component]
    return sum(others, start=jnp.zeros_like(caches[component].outputs))


def _steps(
    settings: TrainingSettings,
    series: Series,
    task: Task,
    phase: Phase,
    learner: Learner,
    first: Int[Array, ""],
    serial: Int[Array, ""],
) -> tuple[Learner, FitInfo]:
    """A chunk of gradient steps; `first` counts from the last reset of the learning rate, `serial` from the start."""
    root = jax.random.fold_in(task.key, _STEP)

    def one(learner, i):
        return step(settings, series, task, phase, learner, first + i, jax.random.fold_in(root, serial + i))

    return jax.lax.scan(one, learner, jnp.arange(settings.chunk, dtype=jnp.int32))


_AXES = (None, None, eqx.if_array(0), Phase(None, 0, 0, None, None), eqx.if_array(0), None, None)  # pyright: ignore
_fleet_steps = fleet_program(_steps, _AXES)


def begin(plan: Plan, ssm: SSM[Component]) -> Snapshot:
    """The snapshot before the first step; `ssm` has a leading fleet axis."""
    rows = plan.series.clock.shape[0]
    state = eqx.filter_vmap(lambda s: init_state(plan.settings, s, rows))(ssm)
    return Snapshot(state, 0, 0, np.ones(plan.tasks.columns.shape[0], bool), ())


def fit_fleet(
    plan: Plan,
    start: Snapshot,
    report: Callable[[Progress], None],
    keep: Callable[[Snapshot], None] = lambda _: None,
) -> FleetFit:
    """Train every member: cycles x components x steps, each component on the residual of the others, then cached.

    A single component trains all its steps under one learning-rate schedule; several reset it in every cycle. Where
    several devices are visible they share the members. `keep` sees a snapshot after every chunk of steps; a run
    started from any of them ends in the same numbers.
    """
    mesh = fleet_mesh(plan.tasks.columns.shape[0])
    plan = replace(plan, series=on_all(plan.series, mesh))
    settings, series, tasks = plan.settings, plan.series, plan.tasks
    longest = int(jnp.max(series.lengths))
    walks: dict[str, Any] = {"samples": settings.samples, "head": settings.head, "chunk": settings.sweep_chunk}
    walks |= {"longest": longest, "mesh": mesh}
    order = settings.turns(plan.resolutions)
    journal = Journal(settings, len(order), start.alive, start.history, report)
    here = start
    while here.turn < plan.turns:
        part = order[here.turn % len(order)]
        resolution = plan.resolutions[part]
        here = train_turn(plan, here, part, journal, keep, mesh)
        keys = _fold(_fold(tasks.key, _SWEEP), here.turn)
        component = here.state.ssm.components[part]
        cache = sweep(component, resolution, series, tasks, here.state.caches[part], keys=keys, **walks)
        journal.check_cache(cache, part, here.turn // len(order))
        state = eqx.tree_at(lambda s, part=part: s.caches[part], here.state, cache)
        here = replace(here, state=state, turn=here.turn + 1, step=0, alive=journal.alive)
    bounds = series_bound(here.state.ssm, plan.resolutions, series, tasks, keys=_equal_keys(tasks), **walks)
    alive, state = journal.alive, on_first(here.state, mesh)
    return FleetFit(state, np.where(alive, np.asarray(bounds, float), -np.inf), alive, tuple(journal.history))


def train_turn(
    plan: Plan, here: Snapshot, part: int, journal: Journal, keep: Callable[[Snapshot], None], mesh: Mesh | None = None
) -> Snapshot:
    """The steps of one component in one cycle (paper, Alg. 3), chunk by chunk, from where the snapshot stands."""
    settings, cycle = plan.settings, here.turn // len(plan.resolutions)
    phase = Phase(
        jnp.asarray(plan.resolutions[part], jnp.int32),
        partial_output(here.state.caches, part),
        here.state.caches[part],
        jnp.asarray(settings.window_start == "cache" and cycle > 0),
        jnp.asarray(settings.pace(cycle), plan.series.clock.dtype),
    )
    learner = _take(here.state, part)
    for chunk in range(here.step, settings.steps, settings.chunk):
        first = chunk + (cycle * settings.steps if len(plan.resolutions) == 1 else 0)
        serial = here.turn * settings.steps + chunk
        counters = (jnp.asarray(first, jnp.int32), jnp.asarray(serial, jnp.int32))
        learner, info = _fleet_steps(mesh, settings, plan.series, plan.tasks, phase, learner, *counters)
        done = chunk + settings.chunk
        journal.note(info, learner, part, cycle, done, here.turn * settings.steps + done)
        state = _put(here.state, part, learner)
        here = replace(here, state=state, step=done, alive=journal.alive, history=tuple(journal.history))
        keep(here)
    return here


def _take(state: FitState, part: int) -> Learner:
    """One component out of the whole, to be trained."""
    return Learner(state.ssm.components[part], state.ssm.raw_observation_noise, state.optimisers[part], state.health)


def _put(state: FitState, part: int, learner: Learner) -> FitState:
    """The trained component back into the whole."""

    def places(s: FitState):
        return s.ssm.components[part], s.ssm.raw_observation_noise, s.optimisers[part], s.health

    new = (learner.component, learner.raw_observation_noise, learner.optimiser, learner.health)
    return eqx.tree_at(places, state, new)


def _fold(keys, data: int):
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, data)


def _equal_keys(tasks: Task):
    """The same key for all members: bounds are compared on the same noise."""
    first = jax.random.fold_in(tasks.key[0], _SELECT)
    return jnp.broadcast_to(first, tasks.key.shape)
