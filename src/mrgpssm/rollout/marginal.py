"""The PR-SSM scheme (Doerr et al., 2018): inducing outputs integrated out at every step on their own."""

import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float
from mrgpssm.model import Dynamics
from mrgpssm.rollout.base import AbstractScheme, Noise, Path, walk_path


class Marginal(AbstractScheme):
    """x_{t+1} ~ N(x_t + h (drift + aᵀm), h² (Σ + aᵀSa) + h Q): O(T), exact for one step, biased for more.

    Paper, supplement A, "PR-SSM Sampling Scheme". It forgets that all steps share one function; kept for comparison.
    """

    def path(
        self,
        dynamics: Dynamics,
        start: Float[Array, " d"],
        inputs: Float[Array, "t u"],
        steps: Float[Array, " t"],
        noise: Noise,
    ) -> Path:
        gp = dynamics.gp

        def moments(x, forcing, h):
            local = dynamics.at(x, forcing)
            mean = x + h * (local.drift + jnp.sum(local.weights * gp.mean, axis=-1))
            return mean, dynamics.noise_variance(local, h) + h**2 * jnp.sum(gp.spread(local.weights) ** 2, axis=-1)

        return walk_path(dynamics, start, inputs, steps, noise.process, moments)
