"""The evidence lower bound and its mini-batch estimate (paper, Eqs. 14 and 16).

L = Σ_t E_{q(x_t)} log p(y_t | x_t) - KL(q(x_0) || p(x_0)) - KL(q(f_M) || p(f_M))
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm._types import Array, Float, Scalar
from mrgpssm.model import SSM, Dynamics
from mrgpssm.rollout import AbstractScheme, Noise, Rollout, draw_starts, rollout


class ElboTerms(eqx.Module):
    """The three terms of the bound; the likelihood already carries its mini-batch scale."""

    likelihood: Scalar
    kl_initial: Scalar
    kl_inducing: Scalar

    @property
    def bound(self) -> Scalar:
        """L = likelihood - KL(x_0) - KL(f_M)."""
        return self.likelihood - self.kl_initial - self.kl_inducing


class Windows(eqx.Module):
    """n windows of t steps: inputs[:, i] takes the state over strides[:, i] raw samples to where outputs[:, i] are.

    Outputs may be NaN where nothing was measured. Heads are the first points of each window, for a recognition
    network; they may be empty (h = 0).
    """

    inputs: Float[Array, "n t u"]
    outputs: Float[Array, "n t y"]
    strides: Float[Array, "n t"]
    heads: Float[Array, "n h c"]


def log_likelihood(
    outputs: Float[Array, "n t y"], predictions: Float[Array, "n s t y"], variance: Float[Array, " y"]
) -> Scalar:
    """Σ over windows, times, outputs of the *mean over samples* of log N(y | prediction, Ω); NaN outputs count zero."""
    observed = ~jnp.isnan(outputs)
    error = jnp.where(observed, outputs, 0.0)[:, None] - predictions
    spread = variance[None, None, None, :]
    density = -0.5 * (error**2 / spread + jnp.log(2 * jnp.pi * spread))
    return jnp.sum(jnp.where(observed, jnp.mean(density, axis=1), 0.0))


def elbo_terms(
    ssm: SSM,
    dynamics: tuple[Dynamics, ...],
    windows: Windows,
    drawn: Rollout,
    *,
    buffer: int,
    total: float | Scalar,
) -> ElboTerms:
    """The bound from trajectories already drawn.

    The first `buffer` steps of each window score nothing (B_0). The rest stands for `total` times of the series: its
    log-likelihood is scaled by total / (n B), the paper's T / B for one window of B points.
    """
    n, t = windows.strides.shape
    if not 0 <= buffer < t:
        raise ValueError(f"The buffer must leave at least one scored step: got buffer {buffer} of {t} steps.")
    scored = log_likelihood(windows.outputs[:, buffer:], drawn.outputs[:, :, buffer:], ssm.observation_variance())
    kl_initial = sum(jnp.mean(jax.vmap(c.initial.kl)(windows.heads)) for c in ssm.components)
    kl_inducing = sum(d.gp.kl() for d in dynamics)
    return ElboTerms(scored * (total / (n * (t - buffer))), jnp.asarray(kl_initial), jnp.asarray(kl_inducing))


def elbo(
    ssm: SSM,
    windows: Windows,
    noise: tuple[Noise, ...],
    scheme: AbstractScheme,
    *,
    buffer: int,
    total: float | Scalar,
) -> ElboTerms:
    """One estimate of the bound: factor, start every window from q(x_0), roll out, score."""
    dynamics = ssm.dynamics()
    starts = draw_starts(ssm, windows.heads, noise)
    drawn = rollout(scheme, ssm, dynamics, starts, windows.inputs, windows.strides, noise)
    return elbo_terms(ssm, dynamics, windows, drawn, buffer=buffer, total=total)
