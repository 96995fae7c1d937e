"""Emissions: how one component's latent state shows in the outputs, y = Σ_l g_l(x^(l)) + noise."""

import abc
from dataclasses import replace
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float, Key
from mrgpssm.spec import HIDDEN_UNITS

E = TypeVar("E", bound="AbstractEmission")


class AbstractEmission(eqx.Module):
    """g: R^{D_l} -> R^{D_y} (paper, section 2).

    Without values, as in `LinearEmission()`, an emission stands for its class and its own settings; `start` gives it
    its sizes and the parameters that are learned.
    """

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        """The component's contribution to the outputs, without observation noise."""

    @abc.abstractmethod
    def start(self: E, outputs: int, latent_dim: int, *, key: Key, dtype: jnp.dtype) -> E:
        """The same emission at its starting values, for so many outputs and latent dimensions."""


class IdentityEmission(AbstractEmission):
    """C = [I, 0]: the first D_y latent dimensions are the outputs (paper, supplement E.1)."""

    output_dim: int = eqx.field(static=True, default=1)

    def start(self, outputs: int, latent_dim: int, *, key: Key, dtype: jnp.dtype) -> "IdentityEmission":
        del latent_dim, key, dtype
        return replace(self, output_dim=outputs)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        if x.shape[0] < self.output_dim:
            raise ValueError(
                f"C = [I, 0] needs at least as many latent dimensions as outputs; got {x.shape[0]} for "
                f'{self.output_dim} outputs. Raise latent_dim, or learn C with emission="linear".'
            )
        return x[: self.output_dim]


class LinearEmission(AbstractEmission):
    """g(x) = C x with a learned C, which starts at [I, 0]."""

    C: Float[Array, "y d"] | None = None

    def start(self, outputs: int, latent_dim: int, *, key: Key, dtype: jnp.dtype) -> "LinearEmission":
        del key
        return replace(self, C=selector(outputs, latent_dim, dtype))

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        return _known(self.C) @ x


class NonlinearEmission(AbstractEmission):
    """g(x) = C x + V tanh(W x + w): a learned C with one hidden layer beside it; C starts at [I, 0] and V at 0."""

    C: Float[Array, "y d"] | None = None
    V: Float[Array, "y k"] | None = None
    W: Float[Array, "k d"] | None = None
    w: Float[Array, " k"] | None = None

    def start(self, outputs: int, latent_dim: int, *, key: Key, dtype: jnp.dtype) -> "NonlinearEmission":
        W = jax.random.normal(key, (HIDDEN_UNITS, latent_dim), dtype)
        V, w = jnp.zeros((outputs, HIDDEN_UNITS), dtype), jnp.zeros((HIDDEN_UNITS,), dtype)
        return replace(self, C=selector(outputs, latent_dim, dtype), V=V, W=W, w=w)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " y"]:
        C, V, W, w = map(_known, (self.C, self.V, self.W, self.w))
        return C @ x + V @ jax.nn.tanh(W @ x + w)


EMISSIONS: dict[str, AbstractEmission] = {
    "identity": IdentityEmission(),
    "linear": LinearEmission(),
    "nonlinear": NonlinearEmission(),
}


def selector(output_dim: int, latent_dim: int, dtype: jnp.dtype) -> Float[Array, "y d"]:
    """[I, 0] as an array: where a learned C starts."""
    return jnp.eye(output_dim, latent_dim, dtype=dtype)


def _known(values: Float[Array, "*s"] | None) -> Float[Array, "*s"]:
    if values is None:
        raise ValueError("This emission has no parameters yet; its method start gives it some.")
    return values
