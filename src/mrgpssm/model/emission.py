"""Emissions: how one component's latent state shows in the outputs, y = Σ_l g_l(x^(l)) + noise."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float


class AbstractEmission(eqx.Module):
    """g: R^{D_l} -> R^{D_y} (paper, section 2)."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        """The component's contribution to the outputs, without observation noise."""


class IdentityEmission(AbstractEmission):
    """C = [I, 0]: the first D_y latent dimensions are the outputs (paper, supplement E.1)."""

    output_dim: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        if x.shape[0] < self.output_dim:
            raise ValueError(
                f"C = [I, 0] needs at least as many latent dimensions as outputs; got {x.shape[0]} for "
                f"{self.output_dim} outputs. Raise latent_dim, or learn C (LinearEmission)."
            )
        return x[: self.output_dim]


class LinearEmission(AbstractEmission):
    """g(x) = C x with a learned C."""

    C: Float[Array, "y d"]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        return self.C @ x


class NonlinearEmission(AbstractEmission):
    """g(x) = C x + V tanh(W x + w): a learned C with one hidden layer beside it."""

    C: Float[Array, "y d"]
    V: Float[Array, "y k"]
    W: Float[Array, "k d"]
    w: Float[Array, " k"]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        return self.C @ x + self.V @ jax.nn.tanh(self.W @ x + self.w)


def selector(output_dim: int, latent_dim: int, dtype: jnp.dtype) -> Float[Array, "y d"]:
    """[I, 0] as an array: where a learned C starts."""
    return jnp.eye(output_dim, latent_dim, dtype=dtype)
