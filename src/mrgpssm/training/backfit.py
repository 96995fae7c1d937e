"""Backfitting over a fleet (paper, Alg. 1): one compiled program per component shape trains all members.

Where settings ask for it, components then train together (fine-tuning), and the best cycle on unseen data is kept.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mrgpssm.arrays.compile import quick_jit
from mrgpssm.arrays.types import Array, Float, Int
from mrgpssm.model import SSM, Component
from mrgpssm.training.devices import fleet_mesh, fleet_program, on_all, on_first
from mrgpssm.training.journal import Journal, Progress
from mrgpssm.training.plan import FleetFit, Plan, Snapshot
from mrgpssm.training.series import Series
from mrgpssm.training.settings import Team, TrainingSettings
from mrgpssm.training.state import Cache, FitInfo, FitState, Learner, Task, healthy
from mrgpssm.training.step import Phase, init_optimiser, step
from mrgpssm.training.stopping import better_of, free_run_errors
from mrgpssm.training.sweep import series_bound, sweep, track

_STEP, _SWEEP, _SELECT = 20, 21, 22


def init_state(settings: TrainingSettings, ssm: SSM[Component], resolutions: tuple[int, ...], rows: int) -> FitState:
    """A member before its first step: fresh moments, caches of zeros (no other component has spoken yet)."""
    y, dtype = ssm.raw_observation_noise.shape[0], ssm.raw_observation_noise.dtype

    def blank(component: Component) -> Cache:
        d = component.transition.raw_process_noise.shape[0]
        return Cache(jnp.zeros((rows, y), dtype), jnp.zeros((rows, d), dtype), jnp.zeros((rows, d), dtype))

    return FitState(
        ssm,
        tuple(init_optimiser(settings, assemble(ssm, team)) for team in settings.teams(resolutions)),
        tuple(blank(c) for c in ssm.components),
        healthy(dtype),
    )


@quick_jit
def _init_states(settings: TrainingSettings, ssm: SSM[Component], resolutions: tuple[int, ...], rows: int) -> FitState:
    return eqx.filter_vmap(lambda s: init_state(settings, s, resolutions, rows))(ssm)


def partial_output(caches: tuple[Cache, ...], team: Team) -> Float[Array, "*f rows y"]:
    """mean(ŷ^(≠l)): the mean output of all components but those that train (paper, supplement E.1)."""
    others = [cache.outputs for index, cache in enumerate(caches) if index not in team]
    return sum(others, start=jnp.zeros_like(caches[0].outputs))


def assemble(ssm: SSM[Component], team: Team) -> SSM[Component]:
    """Some components as a model of their own, in units of the fastest one's stride r: time units are R_l / r."""
    stride = min(ssm.time_units[part] for part in team)
    units = tuple(ssm.time_units[part] / stride for part in team)
    components = tuple(ssm.components[part] for part in team)
    return SSM(components, ssm.raw_observation_noise, units, ssm.cascading)


def driving_states(ssm: SSM[Component], caches: tuple[Cache, ...], component: int):
    """The cached mean states, (members, rows, d), of all that drive a component in a cascade."""
    return tuple(caches[part].states for part in ssm.slower(component))


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


_AXES = (None, None, eqx.if_array(0), Phase(None, 0, 0, None, None, 0, eqx.if_array(0)), eqx.if_array(0), None, None)  # pyright: ignore
_fleet_steps = fleet_program(_steps, _AXES)


def begin(plan: Plan, ssm: SSM[Component]) -> Snapshot:
    """The snapshot before the first step; `ssm` has a leading fleet axis."""
    state = _init_states(plan.settings, ssm, plan.resolutions, plan.series.clock.shape[0])
    members = plan.tasks.columns.shape[0]
    kept, errors = (None, None) if plan.unseen is None else (ssm, np.empty((0, members)))
    return Snapshot(state, 0, 0, np.ones(members, bool), (), kept, errors)


def fit_fleet(
    plan: Plan,
    start: Snapshot,
    report: Callable[[Progress], None],
    keep: Callable[[Snapshot], None] = lambda _: None,
) -> FleetFit:
    """Train every member to the end, and find the bounds that rank them."""
    here, mesh = train_fleet(plan, start, report, keep), fleet_mesh(plan.tasks.columns.shape[0])
    state = here.state if here.kept is None else eqx.tree_at(lambda s: s.ssm, here.state, here.kept)
    series, tasks = on_all(plan.series, mesh), plan.at(here.turn).tasks
    walks = _walks(plan, mesh)
    bounds = series_bound(state.ssm, plan.resolutions, series, tasks, keys=_equal_keys(tasks), **walks)
    bounds = np.where(here.alive, np.asarray(bounds, float), -np.inf)
    return FleetFit(on_first(state, mesh), bounds, here.alive, here.history, here.errors, here.folds)


def train_fleet(
    plan: Plan,
    start: Snapshot,
    report: Callable[[Progress], None],
    keep: Callable[[Snapshot], None] = lambda _: None,
    turns: int | None = None,
) -> Snapshot:
    """Train every member: turns x steps, some components on the residual of the others, then cached.

    A single component trains all its steps under one learning-rate schedule; several reset it in every cycle. Where
    several devices are visible they share the members. `keep` sees a snapshot after every chunk of steps and one after
    the last turn; a run started from any of them ends in the same numbers. So does one that goes on from here after
    some `turns`.
    """
    mesh, last = fleet_mesh(plan.tasks.columns.shape[0]), len(plan.schedule) if turns is None else turns
    plan, everybody = replace(plan, series=on_all(plan.series, mesh)), tuple(range(len(plan.resolutions)))
    walks = _walks(plan, mesh)
    journal = Journal(plan.settings, len(plan.schedule), start.alive, start.history, report)
    here = start
    if plan.informed and last and (here.turn, here.step) == (0, 0):
        here = _simulate(plan, here, everybody, len(plan.schedule), 0, journal, walks)
        here = _keep_best(plan, replace(here, alive=journal.alive))
    while here.turn < last:
        (cycle, team), now = plan.schedule[here.turn], plan.at(here.turn)
        if now is not plan and (here.turn, here.step) == (plan.refit_turn, 0):
            here = replace(here, folds=here.state.ssm)
            here = _simulate(now, here, everybody, len(plan.schedule) + 1, cycle, journal, walks)
        here = train_turn(now, here, journal, keep, mesh)
        here = _simulate(now, here, team, here.turn, cycle, journal, walks)
        here = replace(here, turn=here.turn + 1, step=0, alive=journal.alive)
        if here.turn == len(plan.schedule) or plan.schedule[here.turn][0] > cycle:
            here = _keep_best(plan, here)
    if here is not start:
        keep(here)
    return here


def _walks(plan: Plan, mesh: Mesh | None) -> dict[str, Any]:
    """How whole series are simulated."""
    settings, longest = plan.settings, int(jnp.max(plan.series.lengths))
    return {"samples": settings.samples, "chunk": settings.sweep_chunk, "longest": longest, "mesh": mesh}


def _simulate(
    plan: Plan, here: Snapshot, team: Team, turn: int, cycle: int, journal: Journal, walks: dict[str, Any]
) -> Snapshot:
    """New caches of some components, slow ones first: they may drive others. `turn` says which random numbers."""
    turn_keys = _fold(_fold(plan.tasks.key, _SWEEP), turn)
    for part in sorted(team, key=lambda part: -plan.resolutions[part]):
        keys = turn_keys if len(team) == 1 else _fold(turn_keys, part)
        component, old = here.state.ssm.components[part], here.state.caches[part]
        slower = driving_states(here.state.ssm, here.state.caches, part)
        cache = sweep(component, plan.resolutions[part], plan.series, plan.tasks, old, slower, keys=keys, **walks)
        journal.check_cache(cache, part, cycle)
        here = replace(here, state=eqx.tree_at(lambda s, part=part: s.caches[part], here.state, cache))
    if plan.settings.window_start == "filter":
        ssm, caches = here.state.ssm, here.state.caches
        how: dict[str, Any] = {"longest": walks["longest"], "mesh": walks["mesh"]}
        caches = track(ssm, plan.series, plan.tasks, *plan.visible(), caches, keys=turn_keys, **how)
        for part, cache in enumerate(caches):
            journal.check_cache(cache, part, cycle)
        here = replace(here, state=eqx.tree_at(lambda s: s.caches, here.state, caches))
    return here


def train_turn(
    plan: Plan, here: Snapshot, journal: Journal, keep: Callable[[Snapshot], None], mesh: Mesh | None = None
) -> Snapshot:
    """The steps of one turn (paper, Alg. 3), chunk by chunk, from where the snapshot stands."""
    settings, (cycle, team) = plan.settings, plan.schedule[here.turn]
    fastest = min(team, key=lambda part: plan.resolutions[part])
    phase = Phase(
        jnp.asarray(plan.resolutions[fastest], jnp.int32),
        partial_output(here.state.caches, team),
        tuple(here.state.caches[part] for part in team),
        jnp.asarray(settings.window_start != "initial" and (cycle > 0 or plan.informed)),
        jnp.asarray(settings.pace(cycle), plan.series.clock.dtype),
        driving_states(here.state.ssm, here.state.caches, fastest) if len(team) == 1 else (),  # else they are there
        plan.known if settings.window_start == "filter" else None,
    )
    place = settings.teams(plan.resolutions).index(team)
    together = eqx.filter_vmap(lambda ssm: assemble(ssm, team))(here.state.ssm)
    learner = Learner(together, here.state.optimisers[place], here.state.health)
    for chunk in range(here.step, settings.steps, settings.chunk):
        first = chunk + (settings.steps_before(cycle) if len(plan.resolutions) == 1 else 0)
        serial = here.turn * settings.steps + chunk
        counters = (jnp.asarray(first, jnp.int32), jnp.asarray(serial, jnp.int32))
        learner, info = _fleet_steps(mesh, settings.of_step, plan.series, plan.tasks, phase, learner, *counters)
        done = chunk + settings.chunk
        journal.note(info, learner, fastest, cycle, done, here.turn * settings.steps + done)
        state = _put(here.state, team, place, learner)
        here = replace(here, state=state, step=done, alive=journal.alive, history=tuple(journal.history))
        keep(here)
    return here


def _put(state: FitState, team: Team, place: int, learner: Learner) -> FitState:
    """The trained components and their optimiser back into the whole."""

    def places(s: FitState):
        components = [s.ssm.components[part] for part in team]
        return [*components, s.ssm.raw_observation_noise, s.optimisers[place], s.health]

    new = [*learner.ssm.components, learner.ssm.raw_observation_noise, learner.optimiser, learner.health]
    return eqx.tree_at(places, state, new)


def _keep_best(plan: Plan, here: Snapshot) -> Snapshot:
    """After a cycle, where there is unseen data: the best so far, and the errors up to now."""
    if plan.unseen is None or here.kept is None or here.errors is None:
        return here
    errors = free_run_errors(here.state.caches, plan.series, plan.tasks, plan.unseen, here.alive)
    kept = better_of(here.state.ssm, here.kept, errors, here.errors)
    return replace(here, kept=kept, errors=np.vstack([here.errors, errors]))


def _fold(keys, data: int):
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, data)


def _equal_keys(tasks: Task):
    """The same key for all members: bounds are compared on the same noise."""
    first = jax.random.fold_in(tasks.key[0], _SELECT)
    return jnp.broadcast_to(first, tasks.key.shape)
