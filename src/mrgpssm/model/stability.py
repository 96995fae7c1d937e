"""How far a free run can go: bounds that a model can print.

With ρ = |I + A|₂ < 1 and h in (0, 1], |I + h A|₂ <= (1 - h) + h ρ = 1 - h (1 - ρ). The GP part is bounded by
Cauchy-Schwarz, |a(z)ᵀ v| <= σ |v| (1 + ε)^{1/2}, since aᵀa <= k̃(z, z). Nothing here holds for the paper's identity
mean, for which all bounds are infinite.
"""

import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float, Scalar
from mrgpssm.model.transition import Dynamics


def spectral_norm(dynamics: Dynamics) -> Scalar:
    """ρ = |I + A|₂."""
    eye = jnp.eye(dynamics.A.shape[0], dtype=dynamics.A.dtype)
    return jnp.linalg.norm(eye + dynamics.A, ord=2)


def noiseless_radius(dynamics: Dynamics, v: Float[Array, "d m"], input_norm: Scalar, start: Scalar) -> Scalar:
    """Radius of a ball that a noiseless run with inducing outputs v never leaves, for any steps h in (0, 1].

    |x'| <= (1 - h (1 - ρ)) |x| + h c with c = |B| U + |b| + σ |v|, so |x| <= max(|x_0|, c / (1 - ρ)), where U bounds
    the norm of the inputs and `start` is |x_0|.
    """
    gp = jnp.sqrt(jnp.sum(dynamics.gp.variance[:, None] * v**2))
    return _limit(jnp.maximum(start, _forcing(dynamics, input_norm, gp) / _gap(dynamics)), dynamics)


def second_moment_bound(dynamics: Dynamics, h: Scalar, input_norm: Scalar, start: Scalar) -> Scalar:
    """Bound on E |x_t|² for all t, with process noise and v ~ q(v), at step size h in (0, 1].

    In the norm s = (E |x|²)^{1/2}: s'² <= (γ s + h c)² + w with γ = 1 - h (1 - ρ),
    c = |B| U + |b| + σ (E |v|²)^{1/2} and w = h² Σ_d σ² (1 + ε) + h tr Q, because the noise is independent of the past.
    The fixed point of the right-hand side bounds every later s once it bounds the first; `start` is E |x_0|².
    """
    variance = dynamics.gp.variance
    moments = jnp.sum(dynamics.gp.mean**2, axis=-1) + jnp.sum(dynamics.gp.factor**2, axis=(-2, -1))
    c = _forcing(dynamics, input_norm, jnp.sqrt(jnp.sum(variance * moments)))
    w = h**2 * jnp.sum(variance) + h * jnp.sum(dynamics.Q)
    gap = _gap(dynamics)
    gamma, one_minus = 1 - h * gap, h * gap * (2 - h * gap)
    drive = gamma * h * c
    fixed_point = (drive + jnp.sqrt(drive**2 + one_minus * (h**2 * c**2 + w))) / one_minus
    return _limit(jnp.maximum(start, fixed_point**2), dynamics)


def _forcing(dynamics: Dynamics, input_norm: Scalar, gp: Scalar) -> Scalar:
    return jnp.linalg.norm(dynamics.B, ord=2) * input_norm + jnp.linalg.norm(dynamics.b) + gp


def _gap(dynamics: Dynamics) -> Scalar:
    return 1 - spectral_norm(dynamics)


def _limit(bound: Scalar, dynamics: Dynamics) -> Scalar:
    return jnp.where(_gap(dynamics) > 0, bound, jnp.inf)
