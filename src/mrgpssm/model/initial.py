"""The initial state of one component: p(x_0) and q(x_0)."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm._types import Array, Float, Scalar
from mrgpssm.linalg import gaussian_kl
from mrgpssm.params import lower_triangular, positive


class Gaussian(eqx.Module):
    """N(mean, factor factorᵀ)."""

    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]

    def sample(self, noise: Float[Array, " d"]) -> Float[Array, " d"]:
        """mean + factor ε for standard normal ε."""
        return self.mean + self.factor @ noise


class AbstractInitial(eqx.Module):
    """p(x_0) = N(μ_0, Q_0) and an approximate posterior q(x_0) (paper, sections 3.1 and 3.2).

    The posterior sees the *head* of a window: its first points, inputs and outputs side by side, missing outputs NaN.
    """

    prior_mean: eqx.AbstractVar[Float[Array, " d"]]
    prior_raw_factor: eqx.AbstractVar[Float[Array, "d d"]]

    @abc.abstractmethod
    def posterior(self, head: Float[Array, "n c"]) -> Gaussian:
        """q(x_0)."""

    def prior(self) -> Gaussian:
        """p(x_0)."""
        return Gaussian(self.prior_mean, lower_triangular(self.prior_raw_factor))

    def kl(self, head: Float[Array, "n c"]) -> Scalar:
        """KL(q(x_0) || p(x_0)) (paper, Eq. 14)."""
        q, p = self.posterior(head), self.prior()
        return gaussian_kl(q.mean, q.factor, p.mean, p.factor)


class FreeInitial(AbstractInitial):
    """q(x_0) = N(m_0, S_0) with free parameters, as in the paper; the head is not used and may be empty."""

    mean: Float[Array, " d"]
    raw_factor: Float[Array, "d d"]
    prior_mean: Float[Array, " d"]
    prior_raw_factor: Float[Array, "d d"]

    def posterior(self, head: Float[Array, "n c"]) -> Gaussian:
        del head
        return Gaussian(self.mean, lower_triangular(self.raw_factor))


class RecognitionInitial(AbstractInitial):
    """q(x_0 | head) = N(m, diag s²), where [m, raw s] = V tanh(W head + w) + c: a recognition network."""

    W: Float[Array, "k h"]
    w: Float[Array, " k"]
    V: Float[Array, "e k"]
    c: Float[Array, " e"]
    prior_mean: Float[Array, " d"]
    prior_raw_factor: Float[Array, "d d"]

    def posterior(self, head: Float[Array, "n c"]) -> Gaussian:
        if head.size != self.W.shape[1]:
            raise ValueError(
                f"The recognition network was built for a head of {self.W.shape[1]} numbers; got {head.shape[0]} "
                f"points of {head.shape[1]} columns."
            )
        hidden = jax.nn.tanh(self.W @ jnp.nan_to_num(head).reshape(-1) + self.w)
        mean, raw_sd = jnp.split(self.V @ hidden + self.c, 2)
        return Gaussian(mean, jnp.diag(positive(raw_sd)))
