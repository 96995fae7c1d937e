"""Sparse Gaussian processes in whitened form: factor once, query many.

With f_M = L v, L Lᵀ = K_MM, the prior of v is N(0, I) and the conditional of f at z (paper, Eqs. 1 and 2) reads

    f(z) | v ~ N(a(z)ᵀ v, Σ(z)),    a(z) = L⁻¹ k(Z, z),    Σ(z) = k(z, z) - a(z)ᵀ a(z).

The jitter ε that the factor needs is a nugget of the prior itself: every evaluation of f carries an independent part
of variance σ² ε. It stands in K_MM *and* in k(z, z), so that every path uses one kernel and Σ(z) >= σ² ε before any
clipping (up to rounding, which in float32 is smaller than ε). It costs a deviation of σ √ε per evaluation: 0.3 % of σ
in float32, 0.01 % in float64.
"""

import abc
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.linalg import factors, whitened_kl
from mrgpssm.arrays.params import lower_triangular
from mrgpssm.arrays.types import Array, Float, Scalar
from mrgpssm.gp.kernels import AbstractKernel

# Σ(z) is a small difference of large numbers: TF32, a GPU's default for float32 products, would leave nothing of it.
einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


class AbstractInducingPosterior(eqx.Module):
    """q(f_M), one Gaussian per latent dimension (paper, section 3.2)."""

    mean: eqx.AbstractVar[Float[Array, "d m"]]
    raw_factor: eqx.AbstractVar[Float[Array, "d m m"]]

    @abc.abstractmethod
    def whiten_moments(self, inverse: Float[Array, "d m m"]) -> tuple[Float[Array, "d m"], Float[Array, "d m m"]]:
        """Mean and lower factor of q(v), v = L⁻¹ f_M, where `inverse` is L⁻¹."""


class WhitenedPosterior(AbstractInducingPosterior):
    """q(v) = N(m, S), parameterised in whitened coordinates. Our default."""

    mean: Float[Array, "d m"]
    raw_factor: Float[Array, "d m m"]

    def whiten_moments(self, inverse: Float[Array, "d m m"]) -> tuple[Float[Array, "d m"], Float[Array, "d m m"]]:
        del inverse
        return self.mean, lower_triangular(self.raw_factor)


class CentredPosterior(AbstractInducingPosterior):
    """q(f_M) = N(m_M, S_M), parameterised as the paper does; kept for `preset="paper"`."""

    mean: Float[Array, "d m"]
    raw_factor: Float[Array, "d m m"]

    def whiten_moments(self, inverse: Float[Array, "d m m"]) -> tuple[Float[Array, "d m"], Float[Array, "d m m"]]:
        factor = einsum("dij,djk->dik", inverse, lower_triangular(self.raw_factor))
        return einsum("dij,dj->di", inverse, self.mean), factor


class Features(NamedTuple):
    """What the GP says at one point: f(z) | v ~ N(weights · v, variance), per latent dimension."""

    weights: Float[Array, "d m"]
    variance: Float[Array, " d"]


class Conditional(eqx.Module):
    """q(v) and everything about the kernel that does not depend on the query point, computed once.

    `rate` scales the process against its inducing outputs: f = rate · (the GP that f_M belongs to). It is 1 for a
    GPSSM and 1 / (R Δt) in the SDE formulation, where it makes the blocks of k^Δ in supplement B of the paper
    (k_MM unscaled, k_jM scaled once, k_jj twice). `relevance` is 1 / ℓ², `root` is L, `whitener` is rate σ² L⁻¹ and
    `variance` is rate² k̃(z, z).
    """

    kernel: AbstractKernel
    inducing: Float[Array, "d m z"]
    relevance: Float[Array, " z"]
    root: Float[Array, "d m m"]
    whitener: Float[Array, "d m m"]
    variance: Float[Array, " d"]
    mean: Float[Array, "d m"]
    factor: Float[Array, "d m m"]
    jitter: Float[Array, " d"]

    def squared_distance(self, part: Float[Array, " k"], first: int) -> Float[Array, "d m"]:
        """Σ_i (Z_i - z_i)² / ℓ_i² over the coordinates first, ..., first + k - 1 of z that `part` holds.

        Distances add over coordinates, so the part that comes from known inputs is computed before a rollout starts.
        """
        indices = range(first, first + part.shape[0])
        terms = [self.relevance[i] * (self.inducing[:, :, i] - part[i - first]) ** 2 for i in indices]
        return sum(terms, start=jnp.zeros(self.mean.shape, self.mean.dtype))

    def features_at(self, squared_distance: Float[Array, "d m"]) -> Features:
        """rate · a(z) and rate² · Σ(z), not clipped, from r² between z and every inducing input."""
        weights = einsum("dij,dj->di", self.whitener, self.kernel.correlation(squared_distance))
        return Features(weights, self.variance - jnp.sum(weights**2, axis=-1))

    def features(self, z: Float[Array, " z"]) -> Features:
        """a(z) and Σ(z) at a single point."""
        return self.features_at(self.squared_distance(z, 0))

    def inducing_outputs(self, noise: Float[Array, "d m"]) -> Float[Array, "d m"]:
        """One draw v = m + S^{1/2} ε from q(v) for standard normal ε."""
        return self.mean + einsum("dij,dj->di", self.factor, noise)

    def spread(self, weights: Float[Array, "d m"]) -> Float[Array, "d m"]:
        """S^{1/2}ᵀ a, whose squared length aᵀSa is what uncertainty about v adds to the variance of f."""
        return einsum("dij,di->dj", self.factor, weights)

    def predict(self, z: Float[Array, " z"]) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Mean and variance of f(z) with v integrated out: aᵀm and Σ + aᵀSa."""
        weights, variance = self.features(z)
        return jnp.sum(weights * self.mean, axis=-1), variance + jnp.sum(self.spread(weights) ** 2, axis=-1)

    def prior(self) -> "Conditional":
        """The same process with q(v) replaced by its prior N(0, I) (paper, supplement C)."""
        eye = jnp.broadcast_to(jnp.eye(self.mean.shape[1], dtype=self.mean.dtype), self.factor.shape)
        return eqx.tree_at(lambda c: (c.mean, c.factor), self, (jnp.zeros_like(self.mean), eye))

    def kl(self) -> Scalar:
        """KL(q(f_M) || p(f_M)), summed over latent dimensions; it is KL(q(v) || N(0, I)) (paper, Eq. 14)."""
        return jnp.sum(jax.vmap(whitened_kl)(self.mean, self.factor))


class SparseGP(eqx.Module):
    """D independent GPs with one kernel, inducing inputs of their own, and q(f_M) (paper, Eqs. 3 and 4)."""

    kernel: AbstractKernel
    inducing: Float[Array, "d m z"]
    posterior: AbstractInducingPosterior

    def condition(self, rate: float | Scalar = 1.0) -> Conditional:
        """Factor K_MM of every latent dimension, once for all queries of a training step.

        Differences are taken before scaling, here and in `squared_distance`: points that coincide have r² = 0
        exactly, and in float32 short lengthscales do not turn rounding of coordinates into negative variances.
        """
        relevance = 1 / self.kernel.lengthscales**2

        def factorise(inducing: Float[Array, "m z"]):
            difference = inducing[:, None, :] - inducing[None, :, :]
            squared_distance = jnp.sum(relevance[None, None, :] * difference**2, axis=-1)
            return factors(self.kernel.correlation(squared_distance))

        unit_root, unit_whitener, jitter = jax.vmap(factorise)(self.inducing)
        amplitude = self.kernel.amplitude
        root = amplitude * unit_root
        mean, factor = self.posterior.whiten_moments(unit_whitener / amplitude)
        return Conditional(
            kernel=self.kernel,
            inducing=self.inducing,
            relevance=relevance,
            root=root,
            whitener=rate * amplitude * unit_whitener,
            variance=(rate * amplitude) ** 2 * (1 + jitter),
            mean=mean,
            factor=factor,
            jitter=jitter,
        )
