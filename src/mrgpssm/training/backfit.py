"""Backfitting over a fleet (paper, Alg. 1): one compiled program per component shape trains all members."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm._types import Array, Float, Int
from mrgpssm.data import Series
from mrgpssm.errors import FitError
from mrgpssm.model import SSM, Component
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import Cache, FitInfo, FitState, Learner, Task, healthy
from mrgpssm.training.step import Phase, init_optimiser, step
from mrgpssm.training.sweep import series_bound, sweep

_STEP, _SWEEP, _SELECT = 20, 21, 22


@dataclass(frozen=True)
class Progress:
    """One report to people: where training stands and how the last chunk of steps went, per member."""

    component: int
    cycle: int
    step: int
    bound: np.ndarray
    rmse: np.ndarray
    skipped: np.ndarray
    done: int
    total: int


@dataclass(frozen=True)
class FleetFit:
    """What training returns: the final state of all members, their bounds on equal noise, and the history."""

    state: FitState
    bounds: np.ndarray
    alive: np.ndarray
    history: list[Progress]


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
_fleet_steps = eqx.filter_jit(eqx.filter_vmap(_steps, in_axes=_AXES))


def fit_fleet(
    settings: TrainingSettings,
    series: Series,
    tasks: Task,
    ssm: SSM[Component],
    resolutions: tuple[int, ...],
    report: Callable[[Progress], None],
) -> FleetFit:
    """Train every member: cycles x components x steps, each component on the residual of the others, then cached.

    `tasks` and `ssm` have a leading fleet axis. A single component trains all its steps under one learning-rate
    schedule; several reset it in every cycle.
    """
    rows, longest, parts = series.clock.shape[0], int(jnp.max(series.lengths)), len(resolutions)
    walks = {"samples": settings.samples, "head": settings.head, "chunk": settings.sweep_chunk, "longest": longest}
    state = eqx.filter_vmap(lambda s: init_state(settings, s, rows))(ssm)
    journal = _Journal(settings, parts, tasks.columns.shape[0], report)
    for cycle in range(settings.cycles):
        for part, resolution in enumerate(resolutions):
            learner = _train(settings, series, tasks, state, part, resolution, cycle, journal)
            keys = _fold(_fold(tasks.key, _SWEEP), cycle * parts + part)
            cache = sweep(learner.component, resolution, series, tasks, state.caches[part], keys=keys, **walks)
            state = _replace(state, part, learner, cache)
            journal.check_cache(cache, part, cycle)
    bounds = series_bound(state.ssm, resolutions, series, tasks, keys=_equal_keys(tasks), **walks)
    alive = journal.alive
    return FleetFit(state, np.where(alive, np.asarray(bounds, float), -np.inf), alive, journal.history)


def _train(
    settings: TrainingSettings,
    series: Series,
    tasks: Task,
    state: FitState,
    part: int,
    resolution: int,
    cycle: int,
    journal: "_Journal",
) -> Learner:
    """The steps of one component in one cycle (paper, Alg. 3), chunk by chunk."""
    learner = Learner(state.ssm.components[part], state.ssm.raw_observation_noise, state.optimisers[part], state.health)
    phase = Phase(
        jnp.asarray(resolution, jnp.int32),
        partial_output(state.caches, part),
        state.caches[part],
        jnp.asarray(settings.window_start == "cache" and cycle > 0),
        jnp.asarray(settings.pace(cycle), series.clock.dtype),
    )
    for chunk in range(0, settings.steps, settings.chunk):
        first = chunk + (cycle * settings.steps if journal.parts == 1 else 0)
        serial = (cycle * journal.parts + part) * settings.steps + chunk
        counters = (jnp.asarray(first, jnp.int32), jnp.asarray(serial, jnp.int32))
        learner, info = _fleet_steps(settings, series, tasks, phase, learner, *counters)
        journal.note(info, learner, part, cycle, chunk + settings.chunk, serial + settings.chunk)
    return learner


class _Journal:
    """What the host knows of a run: its history, and which members are still alive."""

    def __init__(self, settings: TrainingSettings, parts: int, members: int, report: Callable[[Progress], None]):
        self.settings, self.parts, self.report = settings, parts, report
        self.history: list[Progress] = []
        self.alive = np.ones(members, bool)

    def note(self, info: FitInfo, learner: Learner, part: int, cycle: int, at: int, done: int) -> None:
        """Keep and report a chunk of steps; members whose steps keep failing are given up."""
        total = self.settings.cycles * self.parts * self.settings.steps
        progress = _summarise(info, learner, part, cycle, at, done, total)
        self.history.append(progress)
        self.report(progress)
        self.alive &= np.asarray(learner.health.streak) < self.settings.patience
        if not self.alive.any():
            raise FitError(
                f"Training stopped: {self.settings.patience} steps in a row were not finite for every restart, in "
                f"component {part + 1}, cycle {cycle + 1}, step {at}. "
                'Lower learning_rate, or use preset="stable" and precision="float64".'
            )

    def check_cache(self, cache: Cache, part: int, cycle: int) -> None:
        """Members whose simulation over the training data is not finite are given up, too."""
        self.alive &= np.asarray(jnp.all(jnp.isfinite(cache.outputs), axis=(1, 2)))
        if not self.alive.any():
            raise FitError(
                f"Training stopped: simulating component {part + 1} over the training data after cycle {cycle + 1} "
                'gave values that are not finite. Lower learning_rate, or use preset="stable".'
            )


def _replace(state: FitState, part: int, learner: Learner, cache: Cache) -> FitState:
    """Put a trained component and its cache back into the whole."""

    def places(s: FitState):
        return s.ssm.components[part], s.ssm.raw_observation_noise, s.optimisers[part], s.caches[part], s.health

    new = (learner.component, learner.raw_observation_noise, learner.optimiser, cache, learner.health)
    return eqx.tree_at(places, state, new)


def _fold(keys, data: int):
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, data)


def _equal_keys(tasks: Task):
    """The same key for all members: bounds are compared on the same noise."""
    first = jax.random.fold_in(tasks.key[0], _SELECT)
    return jnp.broadcast_to(first, tasks.key.shape)


def _summarise(info: FitInfo, learner: Learner, part: int, cycle: int, at: int, done: int, total: int) -> Progress:
    def mean(values):
        taken, values = np.asarray(info.taken), np.asarray(values, float)
        count = np.maximum(taken.sum(1), 1)
        return np.where(taken.any(1), np.where(taken, values, 0).sum(1) / count, np.nan)

    skipped = np.asarray(learner.health.skipped)
    return Progress(part, cycle, at, mean(info.bound), mean(info.rmse), skipped, done, total)
