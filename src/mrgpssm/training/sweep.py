"""Simulating over whole series, chunk by chunk: caches for backfitting, and the bound that ranks restarts.

Every sequence is simulated at stride 1 from its first row with one draw of v per sample (paper, Alg. 1 and 2).
A chunk is one compiled program; sequences that have ended run on idly and write nothing.

A free run over a whole recording can lose the state: the phase of a cycle, what an integrator has added up. `track`
finds the states again by a filter over the rows that a member trains on.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mrgpssm.arrays.types import Array, Bool, Float, Int, Key, Keys, Scalar
from mrgpssm.elbo import log_likelihood
from mrgpssm.model import SSM, Component
from mrgpssm.rollout import Particles, advance, cut_rows, draw_particles, emit, filter_states, mean_steps
from mrgpssm.training.devices import fleet_program
from mrgpssm.training.series import Series
from mrgpssm.training.state import Cache, Task
from mrgpssm.training.step import member_inputs, member_outputs

_TRACKED = 16  # samples of the filter
_LOOSE = 0.01  # its steps have at least this share of the observation noise, so that it follows a model still wrong
_FILTER = 23


def rows_of(series: Series, first: Int[Array, ""], count: int) -> Int[Array, "k c"]:
    """Flat indices of rows first, ..., first + count - 1 of every sequence; one past the end where it has ended."""
    local = first + jnp.arange(count, dtype=first.dtype)[None, :]
    rows = series.offsets[:, None] + local
    return jnp.where(local < series.lengths[:, None], rows, series.clock.shape[0])


def walk(
    component: Component,
    unit: Float[Array, ""],
    series: Series,
    task: Task,
    here: Particles,
    first: Int[Array, ""],
    count: int,
    key: Key,
    cached: tuple[Float[Array, "rows _"], ...] = (),
    drawn: tuple[Float[Array, "k s c _"], ...] = (),
) -> tuple[Particles, Float[Array, "k s c d"]]:
    """Take every sequence `count` rows further; returns the states *of* those rows, x_first first.

    In a cascade, slower components drive this one: by states `cached` for every row of the series, or by the samples
    `drawn` for the rows of this walk.
    """
    rows = jnp.minimum(rows_of(series, first, count), series.clock.shape[0] - 1)
    following = jnp.minimum(rows + 1, series.clock.shape[0] - 1)
    gaps = series.clock.between(rows, following)
    steps = jnp.where(gaps > 0, gaps, 1.0) / unit  # after a sequence's last row anything will do
    inputs = jnp.concatenate([member_inputs(series, task, rows), *(x[rows] for x in cached)], axis=-1)
    return advance(component, here, inputs, steps, first, key, drawn)


def _write(component: Component, unit, series: Series, task: Task, here, cache: Cache, slower, first, count: int, key):
    """One chunk of a cache: means over samples of outputs and states, and the states' deviations."""
    here, states = walk(component, unit, series, task, here, first, count, key, cached=slower)
    outputs, rows = emit(component, states), rows_of(series, first, count)

    def put(store, values):
        return store.at[rows].set(values, mode="drop")

    cache = Cache(
        put(cache.outputs, jnp.mean(outputs, axis=1)),
        put(cache.states, jnp.mean(states, axis=1)),
        put(cache.spreads, jnp.std(states, axis=1)),
    )
    return here, cache


def walk_all(
    ssm: SSM[Component], units, series: Series, task: Task, here: tuple[Particles, ...], first, count: int, key: Key
) -> tuple[tuple[Particles, ...], Float[Array, "k s c y"]]:
    """The same with all components together; returns samples of the outputs of those rows."""
    moved, states = list(here), {}
    for index in ssm.walk_order():
        drawn, own = tuple(states[j] for j in ssm.slower(index)), jax.random.fold_in(key, index)
        moved[index], states[index] = walk(
            ssm.components[index], units[index], series, task, here[index], first, count, own, drawn=drawn
        )
    parts = [emit(component, states[index]) for index, component in enumerate(ssm.components)]
    return tuple(moved), sum(parts[1:], start=parts[0])


def _score(ssm: SSM[Component], units, series: Series, task: Task, here: tuple[Particles, ...], first, count: int, key):
    """One chunk of E log p(y | x) with all components together."""
    moved, predictions = walk_all(ssm, units, series, task, here, first, count, key)
    rows = rows_of(series, first, count)
    known = (rows < series.clock.shape[0]) & task.training[:, None]
    measured = member_outputs(series, task, jnp.minimum(rows, series.clock.shape[0] - 1))
    measured = jnp.where(known[:, :, None], measured, jnp.nan)
    return moved, jnp.sum(log_likelihood(measured, predictions, ssm.observation_variance()))


def _track(
    ssm: SSM[Component],
    series: Series,
    task: Task,
    visible: Bool[Array, " rows"],
    numbers: Int[Array, " n"],
    caches: tuple[Cache, ...],
    longest: int,
    key: Key,
) -> tuple[Cache, ...]:
    """Caches with filtered states over some sequences, and outputs of the run from there on where none are visible."""
    rows, last = rows_of(series, jnp.zeros((), jnp.int32), longest), series.clock.shape[0] - 1
    rows = rows.at[numbers].get(mode="fill", fill_value=last + 1)
    here, following = jnp.minimum(rows, last), jnp.minimum(rows + 1, last)
    gaps = series.clock.between(here, following)
    gaps = jnp.where(gaps > 0, gaps, 1.0)  # after a sequence's last row anything will do
    known = (rows <= last) & visible[here]
    measured = jnp.where(known[:, :, None], member_outputs(series, task, here), jnp.nan)
    root, steps = jax.random.fold_in(key, _FILTER), mean_steps(ssm)
    starts = enumerate(ssm.components)
    states = tuple(draw_particles(c, (_TRACKED,), jax.random.fold_in(root, i)).states for i, c in starts)
    loose = _LOOSE * jnp.mean(ssm.observation_variance())

    def one(inputs, outputs, gaps, number):
        keys = jax.random.split(jax.random.fold_in(root, len(states) + number), longest)
        return filter_states(ssm, steps, states, inputs, outputs, gaps, keys, loose)[1]

    found = jax.vmap(one)(member_inputs(series, task, here), measured, gaps, numbers)

    def put(cache: Cache, mean, spread, outputs) -> Cache:
        states, spreads = (
            store.at[rows].set(values, mode="drop") for store, values in ((cache.states, mean), (cache.spreads, spread))
        )
        unseen = jnp.where(jnp.isnan(measured), outputs, cache.outputs[here])
        return Cache(cache.outputs.at[rows].set(unseen, mode="drop"), states, spreads)

    return tuple(put(*each) for each in zip(caches, *found, strict=True))


_EACH = eqx.if_array(0)
_begin = fleet_program(draw_particles, (_EACH, None, 0))
_write_fleet = fleet_program(_write, (_EACH, None, None, _EACH, 0, 0, 0, None, None, 0))
_track_fleet = fleet_program(_track, (_EACH, None, _EACH, 0, 0, 0, None, 0))
_score_fleet = fleet_program(_score, (_EACH, None, None, _EACH, 0, None, None, 0))


def sweep(
    component: Component,
    resolution: int,
    series: Series,
    tasks: Task,
    cache: Cache,
    slower: tuple[Float[Array, "f rows _"], ...] = (),
    *,
    samples: int,
    chunk: int,
    longest: int,
    keys: Keys,
    mesh: Mesh | None = None,
) -> Cache:
    """Simulate one component of every member over all data at stride 1 and cache what backfitting needs.

    `slower` are the cached states of the components that drive it in a cascade.
    """
    unit = jnp.asarray(resolution, series.clock.dtype)
    count, firsts = cut_rows(longest, chunk)
    here = _begin(mesh, component, (series.lengths.shape[0], samples), keys)
    for number in firsts:
        first = jnp.asarray(number, jnp.int32)
        here, cache = _write_fleet(mesh, component, unit, series, tasks, here, cache, slower, first, count, keys)
    return cache


def track(
    ssm: SSM[Component],
    series: Series,
    tasks: Task,
    visible: Bool[Array, "f rows"],
    numbers: Int[Array, "f n"],
    caches: tuple[Cache, ...],
    *,
    longest: int,
    keys: Keys,
    mesh: Mesh | None = None,
) -> tuple[Cache, ...]:
    """Caches with filtered states of all components of every member, over the sequences of these `numbers`.

    The filter sees outputs of `visible` rows alone; v is at its mean. A number past the last sequence stands for none.
    Outputs stay those of free runs from the first row on, but for rows without visible outputs: there they are of runs
    from where the filter left off.
    """
    return _track_fleet(mesh, ssm, series, tasks, visible, numbers, caches, longest, keys)


def series_bound(
    ssm: SSM[Component],
    resolutions: tuple[int, ...],
    series: Series,
    tasks: Task,
    *,
    samples: int,
    chunk: int,
    longest: int,
    keys: Keys,
    mesh: Mesh | None = None,
) -> Float[Array, " f"]:
    """The lower bound of every member on its whole training series at stride 1 (paper, Eq. 14), on equal noise.

    Restarts of one task get equal keys, hence equal noise: their bounds differ by what they learned, not by luck. In
    a cascade every sample has inputs of its own, so that chunks of one size in memory have fewer rows.
    """
    units = tuple(jnp.asarray(r, series.clock.dtype) for r in resolutions)
    count, firsts = cut_rows(longest, max(1, chunk // samples) if ssm.cascading else chunk)
    fold, shape = jax.vmap(jax.random.fold_in, in_axes=(0, None)), (series.lengths.shape[0], samples)
    here = tuple(_begin(mesh, c, shape, fold(keys, index)) for index, c in enumerate(ssm.components))
    total = _divergences(mesh, ssm, tasks)
    for number in firsts:
        first = jnp.asarray(number, jnp.int32)
        here, likelihood = _score_fleet(mesh, ssm, units, series, tasks, here, first, count, keys)
        total = total + likelihood
    return total


def _minus_divergences(ssm: SSM[Component], task: Task) -> Scalar:
    """- K KL(q(x_0) || p(x_0)) - KL(q(f_M) || p(f_M)) for the K sequences that the member trains on."""
    initial = jnp.stack([c.initial.kl() for c in ssm.components])
    inducing = jnp.stack([d.gp.kl() for d in ssm.dynamics()])
    return -jnp.sum(task.training, dtype=initial.dtype) * jnp.sum(initial) - jnp.sum(inducing)


_divergences = fleet_program(_minus_divergences, (_EACH, _EACH))
