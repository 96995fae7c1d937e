"""Natural gradients for q(v): steepest descent of the bound where distance is KL, not the parameters'.

At q = N(m, L Lᵀ), write nearby Gaussians as N(m + L δ, L (I + B)(I + B)ᵀ Lᵀ) with B lower triangular. In (δ, B) the
Fisher information at zero is 1 for δ and for B below the diagonal, and 2 on it; with g the gradient of the loss in m
and G that in L, a step of size γ is

    δ = -γ Lᵀ g,    B = -γ D ∘ tril(Lᵀ G),    D = 1 below the diagonal and 1/2 on it,

(Lin, Nielsen, Khan and Schmidt, 2021: local parameterisations). No covariance is inverted, and none can lose its sign:
the diagonal is multiplied by exp(B_ii). The length of (δ, B), about √(2 KL), is clipped for every latent dimension.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.params import lower_triangular, lower_triangular_inverse
from mrgpssm.arrays.types import Array, Float, Scalar
from mrgpssm.gp.sparse import einsum
from mrgpssm.model import SSM, Component

_LONGEST = 0.3


def natural_step(
    moved: SSM[Component], before: SSM[Component], gradient: SSM[Component], size: Scalar
) -> SSM[Component]:
    """The moved model with every q(v) stepped naturally from where it was; `size` is γ."""

    def places(ssm: SSM[Component]):
        posteriors = [c.transition.gp.posterior for c in ssm.components]
        return [p.mean for p in posteriors] + [p.raw_factor for p in posteriors]

    count, each = len(moved.components), jax.vmap(natural_gaussian, (0, 0, 0, 0, None))
    old, slope = places(before), places(gradient)
    new = [each(old[i], old[count + i], slope[i], slope[count + i], size) for i in range(count)]
    return eqx.tree_at(places, moved, [mean for mean, _ in new] + [factor for _, factor in new])


def natural_gaussian(
    mean: Float[Array, " m"],
    raw_factor: Float[Array, "m m"],
    mean_gradient: Float[Array, " m"],
    raw_gradient: Float[Array, "m m"],
    size: Scalar,
) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
    """One Gaussian after a step, from the gradients in mean and raw factor."""
    L, halves = lower_triangular(raw_factor), 1 - 0.5 * jnp.eye(len(mean), dtype=mean.dtype)
    (by_factor,) = jax.vjp(lower_triangular_inverse, L)[1](raw_gradient)
    delta = -size * einsum("ji,j->i", L, mean_gradient)
    B = -size * halves * jnp.tril(einsum("ki,kj->ij", L, by_factor))
    length = jnp.sqrt(jnp.sum(delta**2) + jnp.sum(B**2))
    shrink = jnp.minimum(1.0, _LONGEST / jnp.maximum(length, _LONGEST))
    delta, B = shrink * delta, shrink * B
    turn = jnp.tril(B, -1) + jnp.diag(jnp.exp(jnp.diagonal(B)))
    return mean + einsum("ij,j->i", L, delta), lower_triangular_inverse(einsum("ij,jk->ik", L, turn))
