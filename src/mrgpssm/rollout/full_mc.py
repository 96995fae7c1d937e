"""Full Monte Carlo (Ialongo et al., 2019): one draw of the inducing outputs per trajectory."""

import equinox as eqx

from mrgpssm.arrays.types import Array, Float
from mrgpssm.model import Dynamics
from mrgpssm.native import ready
from mrgpssm.rollout.base import AbstractScheme, Noise, Path, walk_path


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
        return walk_path(
            dynamics, start, inputs, steps, noise.process, lambda x, forcing, h: dynamics.transition(x, forcing, h, v)
        )


def fastest() -> FullMC:
    """Full Monte Carlo by the quickest way this machine has."""
    return FullMC(native=ready())
