"""Natural gradients: against their definition in (mean, covariance), on a conjugate problem, and under abuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mrgpssm.arrays.linalg import whitened_kl
from mrgpssm.arrays.params import lower_triangular, lower_triangular_inverse
from mrgpssm.training import natural
from mrgpssm.training.natural import natural_gaussian

M = 4


def gaussian(seed):
    rng = np.random.default_rng(seed)
    L = np.tril(0.3 * rng.standard_normal((M, M)), -1) + np.diag(rng.uniform(0.3, 1.2, M))
    return jnp.asarray(rng.standard_normal(M)), lower_triangular_inverse(jnp.asarray(L))


@pytest.mark.float64
def test_a_small_step_is_the_natural_gradient():
    """For a loss with gradients g in m and G in S, dm = -γ S g and dS = -2 γ S G S to first order in γ."""
    rng = np.random.default_rng(0)
    g, G = rng.standard_normal(M), rng.standard_normal((M, M))
    G = G + G.T

    def loss(mean, raw):
        L = lower_triangular(raw)
        return g @ mean + jnp.sum(jnp.asarray(G) * (L @ L.T))

    mean, raw = gaussian(1)
    size = 1e-6
    slope, slopes = jax.grad(loss, (0, 1))(mean, raw)
    new_mean, new_raw = natural_gaussian(mean, raw, slope, slopes, jnp.asarray(size))
    S, T = (np.asarray(lower_triangular(r) @ lower_triangular(r).T) for r in (raw, new_raw))
    np.testing.assert_allclose((new_mean - mean) / size, -S @ g, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose((T - S) / size, -2 * S @ G @ S, rtol=1e-3, atol=1e-4)


@pytest.mark.float64
def test_it_finds_the_posterior_of_a_linear_regression():
    """y = X v + e with prior v ~ N(0, I): S⁻¹ = I + XᵀX / s², m = S Xᵀy / s²; a few steps of one half are enough."""
    rng = np.random.default_rng(2)
    X, s2 = rng.standard_normal((30, M)), 0.2
    y = X @ rng.standard_normal(M) + np.sqrt(s2) * rng.standard_normal(30)

    def loss(mean, raw):
        L = lower_triangular(raw)
        misfit = jnp.sum((y - X @ mean) ** 2) + jnp.sum((X @ L) ** 2)
        return 0.5 * misfit / s2 + whitened_kl(mean, L)

    mean, raw = gaussian(3)
    for _ in range(60):
        slope, slopes = jax.grad(loss, (0, 1))(mean, raw)
        mean, raw = natural_gaussian(mean, raw, slope, slopes, jnp.asarray(0.5))
    S = np.linalg.inv(np.eye(M) + X.T @ X / s2)
    np.testing.assert_allclose(mean, S @ X.T @ y / s2, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(lower_triangular(raw) @ lower_triangular(raw).T, S, rtol=1e-6, atol=1e-9)


def test_no_gradient_however_large_moves_further_than_a_trust_region():
    mean, raw = gaussian(4)
    huge = 1e6 * jnp.ones((M, M)), 1e6 * jnp.ones(M)
    for sign in (-1.0, 1.0):
        new_mean, new_raw = natural_gaussian(mean, raw, sign * huge[1], sign * huge[0], jnp.asarray(10.0))
        L, N = lower_triangular(raw), lower_triangular(new_raw)
        assert np.isfinite(np.asarray(N)).all()
        step = np.linalg.solve(L, np.asarray(new_mean - mean))
        turn = np.linalg.solve(L, np.asarray(N))
        assert np.linalg.norm(step) <= natural._LONGEST * 1.001
        assert np.abs(turn - np.eye(M)).max() <= np.expm1(natural._LONGEST) * 1.001
        assert (np.diag(np.asarray(N)) > 0).all()


def test_without_a_gradient_nothing_moves():
    mean, raw = gaussian(5)
    new = natural_gaussian(mean, raw, jnp.zeros(M), jnp.zeros((M, M)), jnp.asarray(1.0))
    np.testing.assert_allclose(new[0], mean, rtol=1e-6)
    np.testing.assert_allclose(lower_triangular(new[1]), lower_triangular(raw), rtol=1e-5, atol=1e-6)
