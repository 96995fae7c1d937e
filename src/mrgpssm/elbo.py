"""The evidence lower bound and its mini-batch estimate (paper, Eqs. 14 and 16).

L = Σ_k Σ_t E_{q(x_t)} log p(y_t | x_t) - K KL(q(x_0) || p(x_0)) - KL(q(f_M) || p(f_M))

for K sequences: each has an initial state of its own, all with the same q(x_0), while f_M is common to them.
"""

import equinox as eqx
import jax.numpy as jnp

from mrgpssm.arrays.types import Array, Float, Scalar
from mrgpssm.model import SSM, Dynamics
from mrgpssm.rollout import AbstractScheme, Noise, Rollout, draw_starts, rollout


class ElboTerms(eqx.Module):
    """The three terms of the bound; the likelihood carries its weights, KL(x_0) is that of all sequences."""

    likelihood: Scalar
    kl_initial: Scalar
    kl_inducing: Scalar

    @property
    def bound(self) -> Scalar:
        """L = likelihood - K KL(x_0) - KL(f_M)."""
        return self.likelihood - self.kl_initial - self.kl_inducing


class Windows(eqx.Module):
    """n windows of t steps: inputs[:, i] takes the state over strides[:, i] raw samples to where outputs[:, i] are.

    Outputs may be NaN where nothing was measured.
    """

    inputs: Float[Array, "n t u"]
    outputs: Float[Array, "n t y"]
    strides: Float[Array, "n t"]


def log_likelihood(
    outputs: Float[Array, "n t y"], predictions: Float[Array, "n s t y"], variance: Float[Array, " y"]
) -> Float[Array, "n t"]:
    """Σ over outputs of the *mean over samples* of log N(y | prediction, Ω) at every point; NaN outputs count zero."""
    observed = ~jnp.isnan(outputs)
    error = jnp.where(observed, outputs, 0.0)[:, None] - predictions
    spread = variance[None, None, None, :]
    density = -0.5 * (error**2 / spread + jnp.log(2 * jnp.pi * spread))
    return jnp.sum(jnp.where(observed, jnp.mean(density, axis=1), 0.0), axis=-1)


def even_weights(strides: Float[Array, "n t"], buffer: int, total: float | Scalar) -> Float[Array, "n t"]:
    """Weights of n windows of t steps that stand for `total` times of a series, the first `buffer` steps for none.

    The rest has total / (n B), the paper's T / B for one window of B points (section 3.2, mini-batching).
    """
    n, t = strides.shape
    if not 0 <= buffer < t:
        raise ValueError(f"The buffer must leave at least one scored step: got buffer {buffer} of {t} steps.")
    scored = jnp.broadcast_to(jnp.arange(t) >= buffer, strides.shape)
    return jnp.where(scored, total / (n * (t - buffer)), jnp.zeros_like(strides))


def elbo_terms(
    ssm: SSM,
    dynamics: tuple[Dynamics, ...],
    windows: Windows,
    drawn: Rollout,
    *,
    weights: Float[Array, "n t"],
    sequences: int | Scalar,
) -> ElboTerms:
    """The bound from trajectories already drawn: `weights` say how much each point counts.

    K = `sequences` is how many sequences the weighted points stand for.
    """
    scored = weights * log_likelihood(windows.outputs, drawn.outputs, ssm.observation_variance())
    kl_initial = sequences * sum(c.initial.kl() for c in ssm.components)
    kl_inducing = sum(d.gp.kl() for d in dynamics)
    return ElboTerms(jnp.sum(scored), jnp.asarray(kl_initial), jnp.asarray(kl_inducing))


def elbo(
    ssm: SSM,
    windows: Windows,
    noise: tuple[Noise, ...],
    scheme: AbstractScheme,
    *,
    buffer: int,
    total: float | Scalar,
    sequences: int | Scalar,
) -> ElboTerms:
    """One estimate of the bound: factor, start every window from q(x_0), roll out, score with even weights."""
    dynamics = ssm.dynamics()
    drawn = rollout(scheme, ssm, dynamics, draw_starts(ssm, noise), windows.inputs, windows.strides, noise)
    weights = even_weights(windows.strides, buffer, total)
    return elbo_terms(ssm, dynamics, windows, drawn, weights=weights, sequences=sequences)
