"""An ensemble Kalman filter: measured outputs move the states of all components, row by row (Evensen, 1994).

Warm-ups take what it ends in. Training can start its windows in what it finds on the way.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays import ensemble
from mrgpssm.arrays.types import Array, Float, Key, Keys, Scalar
from mrgpssm.model import SSM, Component, Dynamics
from mrgpssm.rollout.mean import MeanDynamics
from mrgpssm.rollout.walk import Particles

States = tuple[Float[Array, "s _"], ...]
# A component's samples (s, d), what drives each of them (s, u) and the step size: mean and variance of the next states.
Step = Callable[[Float[Array, "s d"], Float[Array, "s u"], Scalar], tuple[Float[Array, "s d"], Float[Array, "s d"]]]


class Filtered(NamedTuple):
    """Means and deviations of every component's states, and means of its outputs, as their own row has moved them."""

    means: tuple[Float[Array, "t _"], ...]
    spreads: tuple[Float[Array, "t _"], ...]
    outputs: tuple[Float[Array, "t y"], ...]


def filter_states(
    ssm: SSM[Component],
    steps: tuple[Step, ...],
    states: States,
    inputs: Float[Array, "t u"],
    outputs: Float[Array, "t y"],
    gaps: Float[Array, " t"],
    keys: Keys,
    loose: Scalar | float = 0.0,
) -> tuple[States, Filtered]:
    """Samples of the states at the end of the last row, and what was found at every row, with a key for each.

    Each row corrects the states (`mrgpssm.arrays.ensemble`, with noise); then every component takes its step. Rows
    without outputs, or outputs that are NaN, only step. `gaps` are the samples from each row to the next, at most one.
    `loose` is a variance that is added to that of a step after measured outputs, for a model that is not right yet.
    """
    variance = ssm.observation_variance()

    def row(states, now):
        u, y, gap, key = now
        key_y, key_x = jax.random.split(key)
        states = _analyse(ssm, states, y, variance, key_y)
        found = Filtered(
            tuple(jnp.mean(x, axis=0) for x in states),
            tuple(jnp.std(x, axis=0) for x in states),
            tuple(jnp.mean(jax.vmap(c.emission)(x), axis=0) for c, x in zip(ssm.components, states, strict=True)),
        )
        wider, moved = jnp.where(jnp.isnan(y).all(), 0.0, loose), []
        for index, step in enumerate(steps):
            drivers = [states[j] for j in ssm.slower(index)]
            driven = jnp.concatenate([jnp.broadcast_to(u, (states[index].shape[0], *u.shape)), *drivers], axis=1)
            mean, spread = step(states[index], driven, gap / ssm.time_units[index])
            noise = jax.random.normal(jax.random.fold_in(key_x, index), mean.shape, mean.dtype)
            moved.append(mean + jnp.sqrt(spread + wider) * noise)
        return tuple(moved), found

    return jax.lax.scan(row, states, (inputs, outputs, gaps, keys))


def sampled_steps(ssm: SSM[Component], particles: tuple[Particles, ...]) -> tuple[Step, ...]:
    """Steps in which every sample has a v of its own."""

    def make(d: Dynamics, draws: Float[Array, "s d m"]) -> Step:
        return lambda x, u, h: jax.vmap(lambda x, u, v: d.transition(x, d.forcing(u), h, v))(x, u, draws)

    pairs = zip(ssm.dynamics(), particles, strict=True)
    return tuple(make(d, jax.vmap(d.gp.inducing_outputs)(p.inducing)) for d, p in pairs)


def mean_steps(ssm: SSM[Component]) -> tuple[Step, ...]:
    """Steps in which v is at its mean, with the process noise alone: they take no matrix."""

    def make(d: MeanDynamics) -> Step:
        return lambda x, u, h: (x + h * jax.vmap(d.drift)(x, u), h * jnp.broadcast_to(d.dynamics.Q, x.shape))

    return tuple(make(MeanDynamics(d)) for d in ssm.dynamics())


def _analyse(ssm: SSM, states, y: Float[Array, " y"], variance: Float[Array, " y"], key: Key):
    """The ensemble Kalman update of one row, of all components together."""
    predicted = jax.vmap(ssm.emit)(states)
    noise = jax.random.normal(key, predicted.shape, predicted.dtype)
    moved = ensemble.correct(jnp, jnp.concatenate(states, axis=1), predicted, y, variance, noise)
    return tuple(jnp.split(moved, np.cumsum([x.shape[1] for x in states])[:-1].tolist(), axis=1))
