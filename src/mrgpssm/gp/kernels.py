"""Stationary kernels k(x, z) = σ² ρ(r²) with r² = Σ_i (x_i - z_i)² / ℓ_i² (automatic relevance determination)."""

import abc
import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.params import positive, positive_inverse
from mrgpssm.arrays.types import Array, Float, Scalar

_TINY = 1e-30


class AbstractKernel(eqx.Module):
    """Covariance k(x, x') of the GP prior f ~ GP(0, k) (paper, section 2).

    A subclass defines `correlation`. Without values, as in `Matern32()`, a kernel stands for its class and its own
    settings; `make_kernel` gives it the two parameters that are learned.
    """

    raw_amplitude: Scalar | None = None
    raw_lengthscales: Float[Array, " z"] | None = None

    @abc.abstractmethod
    def correlation(self, squared_distance: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """ρ(r²), with ρ(0) = 1."""

    @property
    def amplitude(self) -> Scalar:
        """σ, the standard deviation of f at any point."""
        return positive(_known(self.raw_amplitude))

    @property
    def lengthscales(self) -> Float[Array, " z"]:
        """ℓ, one per input dimension."""
        return positive(_known(self.raw_lengthscales))

    def pair(self, x: Float[Array, " z"], z: Float[Array, " z"]) -> Scalar:
        """k(x, z), covariance of two single points."""
        return self.amplitude**2 * self.correlation(jnp.sum(((x - z) / self.lengthscales) ** 2))

    def matrix(self, xs: Float[Array, "n z"], zs: Float[Array, "m z"]) -> Float[Array, "n m"]:
        """K_NM = {k(x_n, z_m)} (paper, Eqs. 1 and 2)."""
        return jax.vmap(lambda x: jax.vmap(lambda z: self.pair(x, z))(zs))(xs)


class RBF(AbstractKernel):
    """k = σ² exp(-r² / 2)."""

    def correlation(self, squared_distance: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return jnp.exp(-0.5 * squared_distance)


class Matern32(AbstractKernel):
    """k = σ² (1 + √3 r) exp(-√3 r)."""

    def correlation(self, squared_distance: Float[Array, "*s"]) -> Float[Array, "*s"]:
        s = math.sqrt(3.0) * _safe_sqrt(squared_distance)
        return (1 + s) * jnp.exp(-s)


class Matern52(AbstractKernel):
    """k = σ² (1 + √5 r + 5 r² / 3) exp(-√5 r)."""

    def correlation(self, squared_distance: Float[Array, "*s"]) -> Float[Array, "*s"]:
        s = math.sqrt(5.0) * _safe_sqrt(squared_distance)
        return (1 + s + s**2 / 3) * jnp.exp(-s)


KERNELS: dict[str, AbstractKernel] = {"rbf": RBF(), "matern32": Matern32(), "matern52": Matern52()}


def make_kernel(
    kind: AbstractKernel | type[AbstractKernel], amplitude: float, lengthscales: Float[Array, " z"]
) -> AbstractKernel:
    """A kernel of the given class, or with the given one's settings, from σ and ℓ in natural units."""
    blank = kind() if isinstance(kind, type) else kind
    raw_amplitude = positive_inverse(jnp.asarray(amplitude, lengthscales.dtype))
    return replace(blank, raw_amplitude=raw_amplitude, raw_lengthscales=positive_inverse(lengthscales))


def _known(raw: Float[Array, "*s"] | None) -> Float[Array, "*s"]:
    if raw is None:
        raise ValueError(
            "This kernel has no parameters yet; make_kernel(kernel, amplitude, lengthscales) gives it some."
        )
    return raw


def _safe_sqrt(squared: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """√ with a zero gradient at zero, where r² itself has a zero gradient."""
    return jnp.sqrt(jax.lax.max(squared, jnp.full_like(squared, _TINY)))
