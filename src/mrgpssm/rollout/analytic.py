"""Inducing outputs integrated out along the whole path: the paper's marginalisation theorems, exact and O(T³).

Given the path so far, increments are jointly Gaussian in v. Per latent dimension, with A the matrix of rows h_t a_tᵀ,

    x_{t+1} ~ N(μ̃_t + A_t (v - m), noise_t),    μ̃_t = x_t + h_t (drift_t + a_tᵀ m),    v ~ N(m, S),
    S̃_{t,t'} = A_t S A_t'ᵀ + δ_{t,t'} (h_t² Σ_t + h_t Q),

so that x_{t+1} | x_t, ..., x_0 is N(μ̂, Σ̂) with μ̂ and Σ̂ from S̃ by conditioning (supplement A, theorem on the
posterior marginals; supplement B gives the same with R Δt written out; m = 0, S = I is supplement C, the prior).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.linalg import solve_lower
from mrgpssm.arrays.types import Array, Float, Int, Scalar
from mrgpssm.model import Dynamics, Forcing
from mrgpssm.rollout.base import AbstractScheme, Noise, Path


class History(NamedTuple):
    """The path so far: scaled features S^{1/2}ᵀ A_tᵀ, the growing Cholesky factor of S̃, whitened innovations."""

    spreads: Float[Array, "d t m"]
    factor: Float[Array, "d t t"]
    innovations: Float[Array, "d t"]


class Analytic(AbstractScheme):
    """Draws x_{t+1} from its exact conditional given the whole path. The referee of the other two schemes.

    The factor of S̃_{0:t,0:t} grows by one row a step: the new row is ℓ = factor⁻¹ S̃_{0:t-1,t}, and then
    μ̂ = μ̃_t + ℓᵀ w and Σ̂ = S̃_{t,t} - |ℓ|² with w the whitened innovations. Rows not reached yet are rows of I.
    """

    def path(
        self,
        dynamics: Dynamics,
        start: Float[Array, " d"],
        inputs: Float[Array, "t u"],
        steps: Float[Array, " t"],
        noise: Noise,
    ) -> Path:
        return _along(dynamics, start, inputs, steps, noise.process, _draw)


def conditional_moments(
    dynamics: Dynamics,
    start: Float[Array, " d"],
    inputs: Float[Array, "t u"],
    steps: Float[Array, " t"],
    states: Float[Array, "t d"],
) -> Path:
    """μ̂_t and Σ̂_t of q(x_t | x_{t-1}, ..., x_0) along a given path (the theorem itself)."""
    return _along(dynamics, start, inputs, steps, states, lambda _mean, _variance, state: state)


def _draw(mean, variance, epsilon):
    return mean + jnp.sqrt(variance) * epsilon


def prior_dynamics(dynamics: Dynamics) -> Dynamics:
    """The same dynamics with q(f_M) = p(f_M): `Analytic` on these is the prior theorem (supplement C)."""
    return eqx.tree_at(lambda d: d.gp, dynamics, dynamics.gp.prior())


def inducing_given_path(
    dynamics: Dynamics,
    start: Float[Array, " d"],
    inputs: Float[Array, "t u"],
    steps: Float[Array, " t"],
    states: Float[Array, "t d"],
) -> tuple[Float[Array, "d m"], Float[Array, "d m m"]]:
    """Mean and covariance of q(f_M | x_t, ..., x_0), per dimension (the lemmas of supplements A and B).

    In whitened form v | path ~ N(m + S Aᵀ S̃⁻¹ (x - μ̃), S - S Aᵀ S̃⁻¹ A S), and f_M = L v.
    """
    gp = dynamics.gp
    before = jnp.concatenate([start[None], states[:-1]])
    local = jax.vmap(dynamics.at)(before, jax.vmap(dynamics.forcing)(inputs))
    gains = (steps[:, None, None] * local.weights).transpose(1, 0, 2)
    noise = jax.vmap(dynamics.noise_variance)(local, steps).T
    residual = states - before - steps[:, None] * (local.drift + jnp.sum(local.weights * gp.mean[None], axis=-1))

    def condition(A, factor, noise, residual, root, mean):
        spread = A @ factor
        S_tilde = spread @ spread.T + jnp.diag(noise)
        chol = jnp.linalg.cholesky(S_tilde)
        half = solve_lower(chol, spread)
        white = solve_lower(chol, residual[:, None])[:, 0]
        v_mean = mean + factor @ (half.T @ white)
        v_cov = factor @ (jnp.eye(half.shape[1], dtype=half.dtype) - half.T @ half) @ factor.T
        return root @ v_mean, root @ v_cov @ root.T

    return jax.vmap(condition)(gains, gp.factor, noise, residual.T, gp.root, gp.mean)


def _along(dynamics: Dynamics, start, inputs, steps, given, choose) -> Path:
    """Walk the path; `choose(μ̂, Σ̂, given_t)` says which state comes next."""
    length, d, m = inputs.shape[0], *dynamics.gp.mean.shape
    dtype = start.dtype
    history = History(
        jnp.zeros((d, length, m), dtype),
        jnp.broadcast_to(jnp.eye(length, dtype=dtype), (d, length, length)),
        jnp.zeros((d, length), dtype),
    )

    def step(carry, now):
        x, history = carry
        forcing, h, here, t = now
        row, spread, mean, variance = _condition(dynamics, history, x, forcing, h)
        x_next = choose(mean, variance, here)
        history = _extend(history, t, row, spread, (x_next - mean) / jnp.sqrt(variance), jnp.sqrt(variance))
        return (x_next, history), Path(x_next, mean, variance)

    forcing = jax.vmap(dynamics.forcing)(inputs)
    return jax.lax.scan(step, (start, history), (forcing, steps, given, jnp.arange(length)))[1]


def _condition(dynamics: Dynamics, history: History, x, forcing: Forcing, h: Scalar):
    """The new row ℓ of the factor and the conditional moments μ̂, Σ̂ of the next state."""
    local = dynamics.at(x, forcing)
    noise = dynamics.noise_variance(local, h)
    spread = h * dynamics.gp.spread(local.weights)
    covariance = jnp.einsum("dtm,dm->dt", history.spreads, spread)
    row = jax.vmap(solve_lower)(history.factor, covariance[:, :, None])[:, :, 0]
    base = x + h * (local.drift + jnp.sum(local.weights * dynamics.gp.mean, axis=-1))
    mean = base + jnp.sum(row * history.innovations, axis=-1)
    # The step's own noise is independent of the path, so Σ̂ is never below it: rounding is clipped there.
    variance = jnp.maximum(noise + jnp.sum(spread**2, axis=-1) - jnp.sum(row**2, axis=-1), noise)
    return row, spread, mean, variance


def _extend(history: History, t: Int[Array, ""], row, spread, innovation, sd) -> History:
    """Write step t: features, row [ℓ, Σ̂^{1/2}] of the factor (ℓ is zero from t on), whitened innovation."""
    full_row = row.at[:, t].set(sd)
    return History(
        history.spreads.at[:, t].set(spread),
        history.factor.at[:, t].set(full_row),
        history.innovations.at[:, t].set(innovation),
    )
