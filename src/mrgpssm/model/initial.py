"""The initial state of one component: p(x_0) and q(x_0)."""

import equinox as eqx

from mrgpssm.arrays.linalg import gaussian_kl
from mrgpssm.arrays.params import lower_triangular
from mrgpssm.arrays.types import Array, Float, Scalar


class Gaussian(eqx.Module):
    """N(mean, factor factorᵀ)."""

    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]

    def sample(self, noise: Float[Array, " d"]) -> Float[Array, " d"]:
        """mean + factor ε for standard normal ε."""
        return self.mean + self.factor @ noise


class InitialState(eqx.Module):
    """p(x_0) = N(μ_0, Q_0) and q(x_0) = N(m_0, S_0), whose parameters are free (paper, sections 3.1 and 3.2)."""

    mean: Float[Array, " d"]
    raw_factor: Float[Array, "d d"]
    prior_mean: Float[Array, " d"]
    prior_raw_factor: Float[Array, "d d"]

    def posterior(self) -> Gaussian:
        """q(x_0)."""
        return Gaussian(self.mean, lower_triangular(self.raw_factor))

    def prior(self) -> Gaussian:
        """p(x_0)."""
        return Gaussian(self.prior_mean, lower_triangular(self.prior_raw_factor))

    def kl(self) -> Scalar:
        """KL(q(x_0) || p(x_0)) of one initial state (paper, Eq. 14)."""
        q, p = self.posterior(), self.prior()
        return gaussian_kl(q.mean, q.factor, p.mean, p.factor)
