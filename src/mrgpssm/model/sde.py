"""The SDE view of a component (paper, sections 2 and 3.3, supplement B).

A component with time unit τ = R Δt seconds is the Euler-Maruyama discretisation, step by step of τ, of

    dx = (A^Δ x + B^Δ u + b^Δ + f^Δ(z)) dt + (Q^Δ)^{1/2} dW.

The maps between the two sets of parameters are the paper's two corollaries. Their settings
m_0^Δ = m_0, S_0^Δ = S_0, m_M^Δ = m_M, S_M^Δ = S_M, Q^Δ = Q / τ, k^Δ(x_m, x_m') = k(x_m, x_m'),
k^Δ(x_j, x_m) = k(x_j, x_m) / τ and k^Δ(x_j, x_j') = k(x_j, x_j') / τ² make the marginals equal at R = 1 (first
corollary); with μ_0, Q_0, C and Ω unchanged the lower bounds are equal too (second corollary). Our linear mean, which
the paper does not have, follows the drift: A^Δ = A / τ, and so on.
"""

import equinox as eqx
import jax.numpy as jnp

from mrgpssm.arrays.params import lower_triangular, lower_triangular_inverse, positive_inverse
from mrgpssm.arrays.types import Array, Float, Scalar
from mrgpssm.gp import AbstractKernel, CentredPosterior, SparseGP, WhitenedPosterior
from mrgpssm.model.emission import AbstractEmission
from mrgpssm.model.initial import InitialState
from mrgpssm.model.ssm import AbstractComponent, Component
from mrgpssm.model.transition import Dynamics, IdentityMean, StableMean, Transition


class SDEComponent(AbstractComponent):
    """A component by its continuous-time parameters, per second, with unwhitened q^Δ(f_M) = N(m_M, S_M).

    `rate` is 1 / (R Δt), the interdomain scale between the drift f^Δ(x_j) and the inducing outputs f_M. `rho` remembers
    the bound on |I + A|₂ of the stable mean; None is the paper's identity mean. `integrators` is that of the mean, too.
    """

    kernel: AbstractKernel
    inducing: Float[Array, "d m z"]
    posterior: CentredPosterior
    rate: Scalar
    A: Float[Array, "d d"]
    B: Float[Array, "d u"]
    b: Float[Array, " d"]
    Q: Float[Array, " d"]
    initial: InitialState
    emission: AbstractEmission
    rho: float | None = eqx.field(static=True)
    integrators: int = eqx.field(static=True, default=0)

    @property
    def inducing_shape(self) -> tuple[int, int]:
        return self.posterior.mean.shape[0], self.posterior.mean.shape[1]

    @property
    def dtype(self) -> jnp.dtype:
        return self.Q.dtype

    @property
    def m_M(self) -> Float[Array, "d m"]:
        """Mean of q^Δ(f_M)."""
        return self.posterior.mean

    @property
    def S_M(self) -> Float[Array, "d m m"]:
        """Covariance of q^Δ(f_M)."""
        factor = lower_triangular(self.posterior.raw_factor)
        return factor @ factor.transpose(0, 2, 1)

    def dynamics(self) -> Dynamics:
        """p^Δ(x_{j+1} | x_j, f_M) of the paper's Eq. (15); step sizes are R Δt, in seconds."""
        gp = SparseGP(self.kernel, self.inducing, self.posterior).condition(self.rate)
        return Dynamics(gp, self.A, self.B, self.b, self.Q)


def to_sde(component: Component, time_unit: float) -> SDEComponent:
    """The corollaries' settings, from a component whose unit step lasts `time_unit` = R Δt seconds."""
    dynamics = component.dynamics()
    mean, sparse, gp = component.transition.mean, component.transition.gp, dynamics.gp
    return SDEComponent(
        kernel=sparse.kernel,
        inducing=sparse.inducing,
        posterior=CentredPosterior(
            jnp.einsum("dij,dj->di", gp.root, gp.mean), lower_triangular_inverse(gp.root @ gp.factor)
        ),
        rate=jnp.asarray(1 / time_unit, gp.mean.dtype),
        A=dynamics.A / time_unit,
        B=dynamics.B / time_unit,
        b=dynamics.b / time_unit,
        Q=dynamics.Q / time_unit,
        initial=component.initial,
        emission=component.emission,
        rho=mean.rho if isinstance(mean, StableMean) else None,
        integrators=mean.integrators if isinstance(mean, StableMean) else 0,
    )


def from_sde(sde: SDEComponent) -> Component:
    """The inverse map, with q(f_M) in whitened coordinates.

    The time unit is 1 / rate, where the two formulations share their inducing outputs.
    """
    time_unit = 1 / sde.rate
    d, u = sde.B.shape
    if sde.rho is None:
        mean = IdentityMean(d, u, str(sde.B.dtype))
    else:
        whole = jnp.eye(d, dtype=sde.A.dtype) + time_unit * sde.A
        mean = StableMean.of(whole, time_unit * sde.B, time_unit * sde.b, sde.rho, sde.integrators)
    gp = sde.dynamics().gp
    posterior = WhitenedPosterior(gp.mean, lower_triangular_inverse(gp.factor))
    noise = positive_inverse(jnp.sqrt(time_unit * sde.Q))
    transition = Transition(mean, SparseGP(sde.kernel, sde.inducing, posterior), noise)
    return Component(transition=transition, initial=sde.initial, emission=sde.emission)
