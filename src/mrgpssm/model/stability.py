"""How far a free run can go: bounds that a model can print.

With ρ = |I + A|₂ < 1 and h in (0, 1], |I + h A|₂ <= (1 - h) + h ρ = 1 - h (1 - ρ). The GP part is bounded by
Cauchy-Schwarz, |a(z)ᵀ v| <= σ |v| (1 + ε)^{1/2}, since aᵀa <= k̃(z, z). Nothing here holds for the paper's identity
mean, for which all bounds are infinite. With integrators, radius and second moment are infinite, too, and growth is
bounded instead.
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


def noiseless_growth(
    dynamics: Dynamics, integrators: int, v: Float[Array, "d m"], input_norm: Scalar, start: Scalar
) -> Scalar:
    """How far the first states, `integrators` of them, move at most in one time unit of a noiseless run.

    With I + A = [[I, F], [0, ρ W]], the other states stay in a ball of radius r as in `noiseless_radius`, whatever the
    integrators do, because the GP part is bounded everywhere. In a step h an integrator then moves by at most
    h (|F| r + |B_i| U + |b_i| + σ |v_i|). `start` is the norm of the other states at first. Zero without integrators.
    """
    k, eye = integrators, jnp.eye(dynamics.A.shape[0] - integrators, dtype=dynamics.A.dtype)
    gp = jnp.sqrt(dynamics.gp.variance * jnp.sum(v**2, axis=-1))

    def push(rows: slice) -> Scalar:
        offset, bounded = jnp.linalg.norm(dynamics.b[rows]), jnp.linalg.norm(gp[rows])
        return jnp.linalg.norm(dynamics.B[rows], ord=2) * input_norm + offset + bounded

    if not k:
        return jnp.zeros_like(start)
    gap = 1 - jnp.linalg.norm(eye + dynamics.A[k:, k:], ord=2)
    radius = jnp.where(gap > 0, jnp.maximum(start, push(slice(k, None)) / gap), jnp.inf)
    return jnp.linalg.norm(dynamics.A[:k, k:], ord=2) * radius + push(slice(k))


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
