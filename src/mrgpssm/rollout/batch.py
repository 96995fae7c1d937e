"""The one place where trajectories are batched: samples inside windows, or by the native kernel."""

import jax

from mrgpssm._types import Array, Float
from mrgpssm.model import SSM, Dynamics
from mrgpssm.rollout.base import AbstractScheme, Noise, Rollout
from mrgpssm.rollout.full_mc import FullMC
from mrgpssm.rollout.fused import native_states, supported


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
    if isinstance(scheme, FullMC) and scheme.native and supported(dynamics, *starts.shape[:2]):
        return native_states(dynamics, starts, inputs, steps, noise)

    def window(starts, inputs, steps, noise):
        return jax.vmap(lambda start, noise: scheme.path(dynamics, start, inputs, steps, noise).states)(starts, noise)

    return jax.vmap(window)(starts, inputs, steps, noise)


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
    states = tuple(
        draw_states(scheme, d, x, inputs, h, e) for d, x, h, e in zip(dynamics, starts, steps, noise, strict=True)
    )
    outputs = jax.vmap(jax.vmap(jax.vmap(ssm.emit)))(states)
    return Rollout(states, outputs)
