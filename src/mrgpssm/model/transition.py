"""The transition of one component, in the component's own time unit.

A step of size h (in time units; h = 1 at the resolution the component is trained at) is, with z = [x, u],

    x' = x + h (A x + B u + b + f(z)) + e,    e ~ N(0, h² Σ(z) + h Q),

the Euler-Maruyama step of the paper's Eqs. (8) and (15) with exogenous inputs and a linear mean. The paper's own
model is A = 0, B = 0, b = 0.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.params import contraction, contraction_inverse, positive
from mrgpssm.arrays.types import Array, Float, Scalar
from mrgpssm.gp import Conditional, SparseGP


class Forcing(NamedTuple):
    """What the input u alone contributes: B u + b, and its part of the distance to the inducing inputs."""

    drift: Float[Array, " d"]
    squared_distance: Float[Array, "d m"]


class Local(NamedTuple):
    """The dynamics at one point, before any step size: linear drift, GP weights a(z) and GP variance Σ(z)."""

    drift: Float[Array, " d"]
    weights: Float[Array, "d m"]
    variance: Float[Array, " d"]


class Dynamics(eqx.Module):
    """A factored transition: all that a rollout sees of a component."""

    gp: Conditional
    A: Float[Array, "d d"]
    B: Float[Array, "d u"]
    b: Float[Array, " d"]
    Q: Float[Array, " d"]

    def forcing(self, u: Float[Array, " u"]) -> Forcing:
        """Everything that is known before the state is; a rollout computes it once for all its steps."""
        return Forcing(self.B @ u + self.b, self.gp.squared_distance(u, self.A.shape[0]))

    def at(self, x: Float[Array, " d"], forcing: Forcing) -> Local:
        """Drift A x + B u + b, weights a(z) and variance Σ(z) at z = [x, u]."""
        weights, variance = self.gp.features_at(forcing.squared_distance + self.gp.squared_distance(x, 0))
        return Local(self.A @ x + forcing.drift, weights, variance)

    def noise_variance(self, local: Local, h: Scalar) -> Float[Array, " d"]:
        """h² Σ(z) + h Q: what is left when x, u and v are known."""
        return h**2 * jnp.maximum(local.variance, 0.0) + h * self.Q

    def transition(
        self, x: Float[Array, " d"], forcing: Forcing, h: Scalar, v: Float[Array, "d m"]
    ) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Mean and variance of p(x' | x, v) (paper, Eq. 15, and Eq. 11 at h = 1)."""
        local = self.at(x, forcing)
        mean = x + h * (local.drift + jnp.sum(local.weights * v, axis=-1))
        return mean, self.noise_variance(local, h)


class AbstractMean(eqx.Module):
    """The linear part A x + B u + b of the drift."""

    @abc.abstractmethod
    def matrices(self) -> tuple[Float[Array, "d d"], Float[Array, "d u"], Float[Array, " d"]]:
        """A, B and b."""


class StableMean(AbstractMean):
    """I + A = ρ W with |W|₂ < 1, whatever the raw parameters are.

    Then |I + h A|₂ <= 1 - h (1 - ρ) < 1 for every step size h in (0, 1], so free runs stay bounded
    (`mrgpssm.model.stability` gives the bounds). The first k = `integrators` states have eigenvalue 1 instead and add
    up what the others do:

        I + A = [[I, F], [0, ρ W]].

    They grow at most linearly in time. F stands in the first k rows of the raw matrix, W in its last rows and columns.
    """

    raw_contraction: Float[Array, "d d"]
    B: Float[Array, "d u"]
    b: Float[Array, " d"]
    rho: float = eqx.field(static=True)
    integrators: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        if not 0 < self.rho < 1:
            raise ValueError(f"rho bounds the spectral norm of I + A and must lie in (0, 1); got {self.rho}.")
        if not 0 <= self.integrators < self.b.shape[-1]:
            raise ValueError(f"Integrators are fewer than all {self.b.shape[-1]} states; got {self.integrators}.")

    @classmethod
    def of(
        cls,
        whole: Float[Array, "d d"] | np.ndarray,
        B: Float[Array, "d u"],
        b: Float[Array, " d"],
        rho: float,
        integrators: int = 0,
    ) -> "StableMean":
        """The mean with this I + A."""
        k, fading, adding = integrators, whole[integrators:, integrators:], whole[:integrators, integrators:]
        raw = jnp.zeros(whole.shape, b.dtype).at[:k, k:].set(jnp.asarray(adding, b.dtype))
        return cls(raw.at[k:, k:].set(contraction_inverse(jnp.asarray(fading / rho, b.dtype))), B, b, rho, k)

    def matrices(self) -> tuple[Float[Array, "d d"], Float[Array, "d u"], Float[Array, " d"]]:
        k, raw = self.integrators, self.raw_contraction
        fading = self.rho * contraction(raw[k:, k:]) - jnp.eye(self.b.shape[0] - k, dtype=self.b.dtype)
        return jnp.pad(jnp.concatenate([raw[:k, k:], fading]), ((0, 0), (k, 0))), self.B, self.b


class IdentityMean(AbstractMean):
    """A = 0, B = 0, b = 0: the paper's x' = x + f(x) (Eq. 5). It has nothing to train and promises no stability."""

    latent_dim: int = eqx.field(static=True)
    input_dim: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def matrices(self) -> tuple[Float[Array, "d d"], Float[Array, "d u"], Float[Array, " d"]]:
        d, u = self.latent_dim, self.input_dim
        return jnp.zeros((d, d), self.dtype), jnp.zeros((d, u), self.dtype), jnp.zeros((d,), self.dtype)


class Transition(eqx.Module):
    """Linear mean, sparse GP and process noise Q = diag(σ_x²) of one component (paper, Eqs. 9 and 10)."""

    mean: AbstractMean
    gp: SparseGP
    raw_process_noise: Float[Array, " d"]

    def condition(self) -> Dynamics:
        """Factor the GP and evaluate the constrained parameters, once per training step."""
        A, B, b = self.mean.matrices()
        return Dynamics(self.gp.condition(), A, B, b, positive(self.raw_process_noise) ** 2)
