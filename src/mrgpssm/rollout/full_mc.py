"""Full Monte Carlo (Ialongo et al., 2019): one draw of the inducing outputs per trajectory."""

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float
from mrgpssm.model import Dynamics
from mrgpssm.native import ready
from mrgpssm.rollout.base import AbstractScheme, Noise, Path


class FullMC(AbstractScheme):
    """v ~ q(v) once, then x_{t+1} ~ p(x_{t+1} | x_t, v) at every step. Unbiased, O(T); the default.

    Paper, supplement A, "Full Monte Carlo Treatment", and algorithm 2 (sampleSeq). With `native`, batches go through
    the native kernel where it knows the covariance.
    """

    native: bool = eqx.field(static=True, default=False)

    def path(
        self,
        dynamics: Dynamics,
        start: Float[Array, " d"],
        inputs: Float[Array, "t u"],
        steps: Float[Array, " t"],
        noise: Noise,
    ) -> Path:
        v = dynamics.gp.inducing_outputs(noise.inducing)

        def step(x, now):
            forcing, h, epsilon = now
            mean, variance = dynamics.transition(x, forcing, h, v)
            x_next = mean + jnp.sqrt(variance) * epsilon
            return x_next, Path(x_next, mean, variance)

        # Recomputing a step in the reverse pass is twice as fast on a CPU as storing its (d, m) intermediates.
        step = jax.checkpoint(step, prevent_cse=False)
        forcing = jax.vmap(dynamics.forcing)(inputs)
        return jax.lax.scan(step, start, (forcing, steps, noise.process))[1]


def fastest() -> FullMC:
    """Full Monte Carlo by the quickest way this machine has."""
    return FullMC(native=ready())
