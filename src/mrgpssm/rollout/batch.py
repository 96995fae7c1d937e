"""The one place where trajectories are batched: samples inside windows, or by the native kernel."""

import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float
from mrgpssm.model import SSM, Dynamics
from mrgpssm.rollout.base import AbstractScheme, Noise, Rollout
from mrgpssm.rollout.full_mc import FullMC
from mrgpssm.rollout.fused import has_kernel, native_states


def draw_states(
    scheme: AbstractScheme,
    dynamics: Dynamics,
    starts: Float[Array, "n s d"],
    inputs: Float[Array, "n t u"],
    steps: Float[Array, "n t"],
    noise: Noise,
) -> Float[Array, "n s t d"]:
    """The states of s trajectories on each of n windows.

    Samples are mapped inside windows, so what depends on inputs alone is computed once per window.
    """
    if isinstance(scheme, FullMC) and scheme.native and has_kernel(dynamics, *starts.shape[:2]):
        return native_states(dynamics, starts, inputs, steps, noise)

    def window(starts, inputs, steps, noise):
        return jax.vmap(lambda start, noise: scheme.path(dynamics, start, inputs, steps, noise).states)(starts, noise)

    return jax.vmap(window)(starts, inputs, steps, noise)


def draw_driven(
    scheme: AbstractScheme,
    dynamics: Dynamics,
    starts: Float[Array, "n s d"],
    inputs: Float[Array, "n t u"],
    slower: tuple[Float[Array, "n s t _"], ...],
    steps: Float[Array, "n t"],
    noise: Noise,
) -> Float[Array, "n s t d"]:
    """The same in a cascade: states of slower components follow the inputs, each sample with its own.

    A sample that is driven by something of its own is a window by itself.
    """
    if not slower:
        return draw_states(scheme, dynamics, starts, inputs, steps, noise)
    n, s = starts.shape[:2]

    def alone(samples: Float[Array, "n s ..."]) -> Float[Array, "ns 1 ..."]:
        return samples.reshape(n * s, 1, *samples.shape[2:])

    each = [jnp.repeat(inputs, s, axis=0), *(x.reshape(n * s, *x.shape[2:]) for x in slower)]
    driven, gaps = jnp.concatenate(each, axis=-1), jnp.repeat(steps, s, axis=0)
    states = draw_states(scheme, dynamics, alone(starts), driven, gaps, jax.tree.map(alone, noise))
    return states.reshape(n, s, *states.shape[2:])


def departures(starts: Float[Array, "n s d"], states: Float[Array, "n s t d"]) -> Float[Array, "n s t d"]:
    """x_0, ..., x_{T-1}: the states that steps leave from."""
    return jnp.concatenate([starts[:, :, None], states[:, :, :-1]], axis=2)


def rollout(
    scheme: AbstractScheme,
    ssm: SSM,
    dynamics: tuple[Dynamics, ...],
    starts: tuple[Float[Array, "n s _"], ...],
    inputs: Float[Array, "n t u"],
    strides: Float[Array, "n t"],
    noise: tuple[Noise, ...],
) -> Rollout:
    """Draw every component on every window; inputs[:, i] drives the state over strides[:, i] raw samples."""
    steps = jax.vmap(ssm.steps)(strides)
    drawn: dict[int, Float[Array, "n s t _"]] = {}
    for part in ssm.walk_order():
        slower = tuple(departures(starts[j], drawn[j]) for j in ssm.slower(part))
        drawn[part] = draw_driven(scheme, dynamics[part], starts[part], inputs, slower, steps[part], noise[part])
    states = tuple(drawn[part] for part in range(len(drawn)))
    outputs = jax.vmap(jax.vmap(jax.vmap(ssm.emit)))(states)
    return Rollout(states, outputs)
