"""The noiseless run: v at its mean m, and no process noise, x' = x + h (A x + B u + b + a(z)ᵀ m)."""

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float
from mrgpssm.gp.sparse import einsum
from mrgpssm.model import SSM, Dynamics

States = tuple[Float[Array, " _"], ...]
Paths = tuple[Float[Array, "t _"], ...]


class MeanDynamics(eqx.Module):
    """A component's dynamics with v at its mean: a(z)ᵀ m = ρ(z)ᵀ α, M products a dimension and no matrix."""

    dynamics: Dynamics
    alpha: Float[Array, "d m"]

    def __init__(self, dynamics: Dynamics):
        self.dynamics = dynamics
        self.alpha = einsum("dij,di->dj", dynamics.gp.whitener, dynamics.gp.mean)

    def drift(self, x: Float[Array, " d"], u: Float[Array, " u"]) -> Float[Array, " d"]:
        """A x + B u + b + a(z)ᵀ m."""
        forcing, gp = self.dynamics.forcing(u), self.dynamics.gp
        near = gp.kernel.correlation(forcing.squared_distance + gp.squared_distance(x, 0))
        return self.dynamics.A @ x + forcing.drift + jnp.sum(self.alpha * near, axis=-1)

    def path(
        self, start: Float[Array, " d"], inputs: Float[Array, "t u"], steps: Float[Array, " t"]
    ) -> tuple[Float[Array, " d"], Float[Array, "t d"]]:
        """x_T, and x_0, ..., x_{T-1} before it."""

        def step(x, now):
            u, h = now
            return x + h * self.drift(x, u), x

        return jax.lax.scan(step, start, (inputs, steps))


def mean_states(
    ssm: SSM, dynamics: tuple[MeanDynamics, ...], starts: States, inputs: Float[Array, "t u"], gaps: Float[Array, " t"]
) -> tuple[States, Paths]:
    """Last states and paths of all components, where inputs[i] acts for gaps[i] raw samples."""
    steps, ends, paths = ssm.steps(gaps), {}, {}
    for part in ssm.walk_order():
        driven = jnp.concatenate([inputs, *(paths[j] for j in ssm.slower(part))], axis=-1)
        ends[part], paths[part] = dynamics[part].path(starts[part], driven, steps[part])
    order = range(len(starts))
    return tuple(ends[part] for part in order), tuple(paths[part] for part in order)
