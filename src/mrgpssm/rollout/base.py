"""What a sampling scheme takes and gives, and the noise it is given.

A scheme draws one trajectory of one component from q(x_1, ..., x_T | x_0) (paper, supplement A). All randomness comes
in as standard normal noise, so that a rollout is a pure function and two formulations can be compared on equal noise.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float, Int, Key, Scalar
from mrgpssm.model import SSM, AbstractComponent, Dynamics, Forcing

_INITIAL, _INDUCING, _PROCESS = 10, 11, 12


class Noise(eqx.Module):
    """Standard normal draws behind one trajectory of one component; a batch has leading axes windows, samples."""

    initial: Float[Array, "*b d"]
    inducing: Float[Array, "*b d m"]
    process: Float[Array, "*b t d"]


class Path(eqx.Module):
    """States x_1, ..., x_T with the mean and variance that each was drawn from."""

    states: Float[Array, "*t d"]
    means: Float[Array, "*t d"]
    variances: Float[Array, "*t d"]


class AbstractScheme(eqx.Module):
    """A way to draw from q(x_1, ..., x_T | x_0)."""

    @abc.abstractmethod
    def path(
        self,
        dynamics: Dynamics,
        start: Float[Array, " d"],
        inputs: Float[Array, "t u"],
        steps: Float[Array, " t"],
        noise: Noise,
    ) -> Path:
        """One trajectory from x_0 = start; inputs[i] and steps[i] take x_i to x_{i+1}."""


def walk_path(
    dynamics: Dynamics,
    start: Float[Array, " d"],
    inputs: Float[Array, "t u"],
    steps: Float[Array, " t"],
    noise: Float[Array, "t d"],
    moments: Callable[[Float[Array, " d"], Forcing, Scalar], tuple[Float[Array, " d"], Float[Array, " d"]]],
) -> Path:
    """Draw state after state; `moments(x, forcing, h)` are mean and variance of the next one."""

    def step(x, now):
        forcing, h, epsilon = now
        mean, variance = moments(x, forcing, h)
        x_next = mean + jnp.sqrt(variance) * epsilon
        return x_next, Path(x_next, mean, variance)

    # Recomputing a step in the reverse pass is twice as fast on a CPU as storing its (d, m) intermediates.
    step = jax.checkpoint(step, prevent_cse=False)
    forcing = jax.vmap(dynamics.forcing)(inputs)
    return jax.lax.scan(step, start, (forcing, steps, noise))[1]


class Rollout(eqx.Module):
    """Trajectories of all components and the outputs they add up to, for n windows and s samples each."""

    states: tuple[Float[Array, "n s t _"], ...]
    outputs: Float[Array, "n s t y"]


def draw_noise(ssm: SSM, windows: int, samples: int, length: int, *, key: Key) -> tuple[Noise, ...]:
    """Noise for every component, independent over components, windows, samples, steps and dimensions."""

    def draw(component: AbstractComponent, key: Key) -> Noise:
        (d, m), dtype = component.inducing_shape, component.dtype
        initial, inducing, process = (jax.random.fold_in(key, stream) for stream in (_INITIAL, _INDUCING, _PROCESS))
        return Noise(
            jax.random.normal(initial, (windows, samples, d), dtype),
            jax.random.normal(inducing, (windows, samples, d, m), dtype),
            jax.random.normal(process, (windows, samples, length, d), dtype),
        )

    return tuple(draw(c, jax.random.fold_in(key, index)) for index, c in enumerate(ssm.components))


def draw_process(
    key: Key, first: Int[Array, ""], length: int, shape: tuple[int, ...], dtype: jnp.dtype
) -> Float[Array, "*s t d"]:
    """Process noise of steps first, ..., first + length - 1 for `shape` = (..., samples, d), keyed by the step.

    A run cut into chunks anywhere therefore sees the same noise.
    """
    root = jax.random.fold_in(key, _PROCESS)
    draws = jax.vmap(lambda t: jax.random.normal(jax.random.fold_in(root, t), shape, dtype))(
        first + jnp.arange(length, dtype=first.dtype)
    )
    return jnp.moveaxis(draws, 0, -2)


def draw_starts(ssm: SSM, noise: tuple[Noise, ...]) -> tuple[Float[Array, "n s _"], ...]:
    """x_0 ~ q(x_0) of every component, window and sample."""
    pairs = zip(ssm.components, noise, strict=True)
    return tuple(jax.vmap(jax.vmap(c.initial.posterior().sample))(e.initial) for c, e in pairs)
