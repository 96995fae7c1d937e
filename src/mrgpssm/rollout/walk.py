"""The walk of every free run: particles that are taken over some rows, and then over some more.

Full Monte Carlo: a sample draws its v and x_0 once and keeps that v. Sweeps, forecasts and scores all walk here.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float, Int, Key
from mrgpssm.model import AbstractComponent
from mrgpssm.rollout.base import Noise, draw_process
from mrgpssm.rollout.batch import departures, draw_driven
from mrgpssm.rollout.full_mc import fastest

_SHORT, _LONG, _MANY = 256, 2048, 16  # rows of a chunk; more than so many short ones are cut into long ones


class Particles(eqx.Module):
    """One component's samples: where they stand and the noise behind each sample's v."""

    states: Float[Array, "*b s d"]
    inducing: Float[Array, "*b s d m"]


def draw_particles(component: AbstractComponent, shape: tuple[int, ...], key: Key, anywhere: bool = False) -> Particles:
    """x_0 ~ q(x_0), or p(x_0) if it is `anywhere`, and the noise of v; the last axis of `shape` counts samples."""
    (d, m), dtype = component.inducing_shape, component.dtype
    key_x, key_v = jax.random.split(key)
    initial = component.initial.prior() if anywhere else component.initial.posterior()
    sample = initial.sample
    for _ in shape:
        sample = jax.vmap(sample)
    states = sample(jax.random.normal(key_x, (*shape, d), dtype))
    return Particles(states, jax.random.normal(key_v, (*shape, d, m), dtype))


def advance(
    component: AbstractComponent,
    here: Particles,
    inputs: Float[Array, "k t u"],
    steps: Float[Array, "k t"],
    first: Int[Array, ""],
    key: Key,
    slower: tuple[Float[Array, "k s t _"], ...] = (),
    alike: bool = False,
) -> tuple[Particles, Float[Array, "k s t d"]]:
    """Take the particles of k sequences over t steps, the first of which has number `first`.

    The states before every step come second. `slower` are those of the components that drive this one in a cascade.
    Noise is keyed by the number of the step: a walk can be cut anywhere. Where sequences are `alike` they all see the
    same noise, so that what comes out for one does not depend on its company.
    """
    (k, s, d), t = here.states.shape, steps.shape[1]
    process = draw_process(key, first, t, (1 if alike else k, s, d), steps.dtype)
    noise = Noise(here.states, here.inducing, jnp.broadcast_to(process, (k, s, t, d)))
    states = draw_driven(fastest(), component.dynamics(), here.states, inputs, slower, steps, noise)
    return Particles(states[:, :, -1], here.inducing), departures(here.states, states)


def emit(component: AbstractComponent, states: Float[Array, "k s t d"]) -> Float[Array, "k s t y"]:
    """The component's part of the outputs."""
    return jax.vmap(jax.vmap(jax.vmap(component.emission)))(states)


def cut_rows(rows: int, most: int) -> tuple[int, range]:
    """The length of equal chunks that cover the rows with as few idle ones as can be, and where they begin."""
    count = -(-rows // -(-rows // most))
    return count, range(0, rows, count)


def round_rows(rows: int, most: int) -> int:
    """One of a few lengths of chunks, at most `most`, so that runs of any length share compiled programs."""
    usual = _LONG if rows > _MANY * _SHORT else _SHORT
    return usual if usual <= most else 1 << (most.bit_length() - 1)
