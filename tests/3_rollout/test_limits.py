"""Where the model must fall back to something known in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from budget import SIGMAS
from configurations import FAMILIES, Family, as_oracle, factor, random_noise, random_ssm, random_windows
from scipy.linalg import cho_factor, cho_solve

from mrgpssm.arrays.linalg import solve_lower
from mrgpssm.arrays.params import lower_triangular_inverse, positive_inverse
from mrgpssm.elbo import elbo
from mrgpssm.gp import RBF, CentredPosterior, SparseGP, WhitenedPosterior
from mrgpssm.gp.kernels import make_kernel
from mrgpssm.model import SSM, IdentityEmission, LinearEmission, NonlinearEmission
from mrgpssm.rollout import FullMC, Noise, prior_dynamics

pytestmark = pytest.mark.float64


def test_inducing_inputs_on_the_data_give_exact_gp_regression():
    """With Z = X the optimal q(v) is Gaussian, and its predictions are those of GP regression (Titsias, 2009)."""
    rng = np.random.default_rng(0)
    X, noise = np.sort(rng.uniform(-3, 3, (12, 1)), axis=0), 0.1
    y = np.sin(X[:, 0]) + noise * rng.standard_normal(12)
    kernel = make_kernel(RBF, 1.3, jnp.array([0.9]))
    blank = WhitenedPosterior(jnp.zeros((1, 12)), lower_triangular_inverse(jnp.eye(12)[None]))
    root = SparseGP(kernel, jnp.asarray(X)[None], blank).condition().root[0]
    # v ~ N(0, I), y = L v + noise: the exact posterior of v.
    precision = np.eye(12) + np.asarray(root.T @ root) / noise**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ np.asarray(root).T @ y / noise**2
    posterior = WhitenedPosterior(
        jnp.asarray(mean)[None], lower_triangular_inverse(jnp.asarray(np.linalg.cholesky(covariance))[None])
    )
    gp = SparseGP(kernel, jnp.asarray(X)[None], posterior).condition()
    tests = rng.uniform(-3, 3, (40, 1))
    ours_mean, ours_variance = jax.vmap(gp.predict)(jnp.asarray(tests))

    def k(a, b):
        return 1.3**2 * np.exp(-0.5 * (a - b.T) ** 2 / 0.9**2)

    nugget = 1e-8 * 1.3**2
    factor = cho_factor(k(X, X) + (noise**2 + nugget) * np.eye(12))
    exact_mean = k(tests, X) @ cho_solve(factor, y)
    exact_variance = 1.3**2 + nugget - np.sum(k(tests, X).T * cho_solve(factor, k(X, tests)), axis=0)
    np.testing.assert_allclose(ours_mean[:, 0], exact_mean, atol=1e-6)
    np.testing.assert_allclose(ours_variance[:, 0], exact_variance, atol=1e-6)


def test_zero_gp_with_linear_mean_gives_the_kalman_prediction():
    """f = 0: x_{t+1} = (I + h A) x_t + h (B u + b) + e is linear, so its moments are exact."""
    rng = np.random.default_rng(1)
    family = Family(RBF, d=2, u=1, y=1, m=3, units=(1.0,))
    dynamics = silence_gp(random_ssm(rng, family)).dynamics()[0]
    T, n, h = 6, 200_000, 0.7
    inputs = jnp.asarray(rng.standard_normal((T, 1)))
    steps = jnp.full((T,), h)
    start_mean, start_factor = jnp.array([1.0, -0.5]), jnp.array([[0.4, 0.0], [0.1, 0.3]])
    keys = jax.random.split(jax.random.key(0), 2)
    starts = start_mean[None] + jax.random.normal(keys[0], (n, 2)) @ start_factor.T
    process = jax.random.normal(keys[1], (n, T, 2))

    def one(start, process):
        noise = Noise(jnp.zeros(2), jnp.zeros((2, 3)), process)
        return FullMC().path(dynamics, start, inputs, steps, noise).states

    states = np.asarray(jax.jit(jax.vmap(one))(starts, process))
    A, B, b, Q = (np.asarray(x) for x in (dynamics.A, dynamics.B, dynamics.b, dynamics.Q))
    F = np.eye(2) + h * A
    mean, cov = np.asarray(start_mean), np.asarray(start_factor @ start_factor.T)
    for t in range(T):
        mean = F @ mean + h * (B @ np.asarray(inputs[t]) + b)
        cov = F @ cov @ F.T + h * np.diag(Q)
        se_mean = np.sqrt(np.diag(cov) / n)
        assert np.all(np.abs(states[:, t].mean(0) - mean) < SIGMAS * se_mean)
        se_cov = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / n)
        assert np.all(np.abs(np.cov(states[:, t].T) - cov) < SIGMAS * se_cov)


def test_one_trajectory_of_a_linear_system_is_the_recursion_itself():
    """With f = 0 and the noise given, each state is the linear recursion, to rounding."""
    rng = np.random.default_rng(2)
    family = Family(RBF, d=2, u=1, y=1, m=3, units=(4.0,))
    ssm = silence_gp(random_ssm(rng, family))
    dynamics = ssm.dynamics()[0]
    noise = random_noise(rng, family, n=1, s=1, t=8)[0]
    inputs, h = jnp.asarray(rng.standard_normal((8, 1))), np.linspace(0.1, 1, 8)
    one = jax.tree.map(lambda x: x[0, 0], noise)
    path = FullMC().path(dynamics, jnp.zeros(2), inputs, jnp.asarray(h), one)
    x = np.zeros(2)
    for t in range(8):
        drift = np.asarray(dynamics.A) @ x + np.asarray(dynamics.B) @ np.asarray(inputs[t]) + np.asarray(dynamics.b)
        x = x + h[t] * drift + np.sqrt(h[t] * np.asarray(dynamics.Q)) * np.asarray(one.process[t])
        np.testing.assert_allclose(path.states[t], x, atol=1e-5)  # the floor of σ is 1e-6


def test_a_silent_component_leaves_the_single_model():
    """C = 0 and q = p in all components but one: outputs and bound are those of the one."""
    rng = np.random.default_rng(3)
    family = FAMILIES[2]
    ssm = random_ssm(rng, family)
    heard, silent = ssm.components
    silent = eqx.tree_at(lambda c: c.emission, silent, LinearEmission(jnp.zeros((family.y, family.d))))
    posterior = WhitenedPosterior(
        jnp.zeros((family.d, family.m)),
        lower_triangular_inverse(jnp.broadcast_to(jnp.eye(family.m), (family.d, family.m, family.m))),
    )
    silent = eqx.tree_at(lambda c: c.transition.gp.posterior, silent, posterior)
    silent = eqx.tree_at(
        lambda c: (c.initial.mean, c.initial.raw_factor),
        silent,
        (silent.initial.prior_mean, silent.initial.prior_raw_factor),
    )
    pair = SSM((heard, silent), ssm.raw_observation_noise, ssm.time_units)
    alone = SSM((heard,), ssm.raw_observation_noise, ssm.time_units[:1])
    windows, noise = random_windows(rng, family), random_noise(rng, family)
    both = elbo(pair, windows, noise, FullMC(), buffer=1, total=50.0, sequences=1)
    one = elbo(alone, windows, noise[:1], FullMC(), buffer=1, total=50.0, sequences=1)
    np.testing.assert_allclose(both.likelihood, one.likelihood, rtol=1e-12)
    np.testing.assert_allclose(both.bound, one.bound, rtol=1e-12)


def test_components_are_exchangeable_and_add_up():
    """Swapping components with their noise and time units changes nothing (the model is a sum)."""
    rng = np.random.default_rng(4)
    family = FAMILIES[3]
    ssm, windows, noise = random_ssm(rng, family), random_windows(rng, family), random_noise(rng, family)
    swapped = SSM(ssm.components[::-1], ssm.raw_observation_noise, ssm.time_units[::-1])
    a = elbo(ssm, windows, noise, FullMC(), buffer=0, total=9.0, sequences=1).bound
    b = elbo(swapped, windows, noise[::-1], FullMC(), buffer=0, total=9.0, sequences=1).bound
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_prior_conditional_is_the_kernel():
    """With q = p the predictive variance at any point is k̃(z, z), and the KL is zero."""
    ssm = random_ssm(np.random.default_rng(5), FAMILIES[3])
    gp = prior_dynamics(ssm.dynamics()[0]).gp
    zs = jnp.asarray(np.random.default_rng(6).uniform(-3, 3, (20, 5)))
    mean, variance = jax.vmap(gp.predict)(zs)
    np.testing.assert_allclose(mean, 0.0, atol=1e-14)
    expected = jax.vmap(lambda z: gp.kernel.pair(z, z))(zs)[:, None] * (1 + gp.jitter)[None, :]
    np.testing.assert_allclose(variance, expected, rtol=1e-9)
    np.testing.assert_allclose(gp.kl(), 0.0, atol=1e-12)


def test_whitening_is_a_change_of_coordinates():
    """q(f_M) given unwhitened, as the paper does, has the same conditional and the same KL."""
    ssm = random_ssm(np.random.default_rng(7), FAMILIES[1])
    sparse = ssm.components[0].transition.gp
    white = sparse.condition()
    centred = CentredPosterior(
        jnp.einsum("dij,dj->di", white.root, white.mean), lower_triangular_inverse(white.root @ white.factor)
    )
    other = SparseGP(sparse.kernel, sparse.inducing, centred).condition()
    np.testing.assert_allclose(other.kl(), white.kl(), rtol=1e-9)
    z = jnp.array([0.3, -0.2, 0.8])
    np.testing.assert_allclose(other.predict(z), white.predict(z), rtol=1e-9)
    assert np.all(np.triu(np.asarray(other.factor[0]), 1) == 0)
    np.testing.assert_allclose(solve_lower(white.root[0], white.root[0] @ white.factor[0]), white.factor[0], atol=1e-10)


def test_unwhitened_q_against_the_oracle():
    """CentredPosterior from given m_M and S_M: KL and predictions by `inv`."""
    rng = np.random.default_rng(9)
    component = random_ssm(rng, FAMILIES[1]).components[0]
    c = as_oracle(component)
    m_M, factors = rng.standard_normal((2, 6)), np.stack([factor(rng, 6, 0.4) for _ in range(2)])
    posterior = CentredPosterior(jnp.asarray(m_M), lower_triangular_inverse(jnp.asarray(factors)))
    gp = SparseGP(component.transition.gp.kernel, component.transition.gp.inducing, posterior).condition()
    z = np.array([0.3, -0.2, 0.8])
    mean, variance = gp.predict(jnp.asarray(z))
    divergence = 0.0
    for d in range(2):
        S_M, K = factors[d] @ factors[d].T, oracle.k_mm(c, d)
        gain = oracle.gram(c, [z], c["inducing"][d])[0] @ np.linalg.inv(K)
        np.testing.assert_allclose(mean[d], gain @ m_M[d], atol=1e-10)
        expected = oracle.conditional(c, d, z, m_M[d])[1] + gain @ S_M @ gain
        np.testing.assert_allclose(variance[d], expected, atol=1e-10)
        divergence += oracle.kl(m_M[d], S_M, np.zeros(6), K)
    np.testing.assert_allclose(gp.kl(), divergence, rtol=1e-10)


def test_escalated_jitter_stands_on_every_path():
    """A correlation matrix that needs more than the base jitter: the oracle is given the jitter that was returned."""
    from mrgpssm.arrays import linalg

    rng = np.random.default_rng(10)
    component = random_ssm(rng, FAMILIES[0]).components[0]
    original = linalg.base_jitter
    try:
        linalg.base_jitter = lambda dtype: 3e-3  # type: ignore[assignment]
        gp = component.transition.gp.condition()
    finally:
        linalg.base_jitter = original
    c = as_oracle(component) | {"jitter": float(gp.jitter[0])}
    assert c["jitter"] == pytest.approx(3e-3)
    z = np.array([0.4])
    v = rng.standard_normal(5)
    features = gp.features(jnp.asarray(z))
    mean, variance = oracle.conditional(c, 0, z, np.linalg.cholesky(oracle.k_mm(c, 0)) @ v)
    np.testing.assert_allclose(features.weights[0] @ v, mean, atol=1e-10)
    np.testing.assert_allclose(features.variance[0], variance, atol=1e-10)
    np.testing.assert_allclose(gp.kl(), oracle.kl_inducing(c), rtol=1e-10)


def test_emissions_by_hand():
    x = jnp.array([0.5, -1.0, 2.0])
    np.testing.assert_array_equal(IdentityEmission(2)(x), [0.5, -1.0])
    C, V, W, w = (np.random.default_rng(i).standard_normal(s) for i, s in enumerate(((2, 3), (2, 4), (4, 3), (4,))))
    by_hand = C @ np.asarray(x) + V @ np.tanh(W @ np.asarray(x) + w)
    ours = NonlinearEmission(*map(jnp.asarray, (C, V, W, w)))(x)
    np.testing.assert_allclose(ours, by_hand, rtol=1e-12)


def silence_gp(ssm: SSM) -> SSM:
    """σ at its floor of 1e-6: no GP to speak of."""
    kernel = lambda s: s.components[0].transition.gp.kernel.raw_amplitude  # noqa: E731
    return eqx.tree_at(kernel, ssm, positive_inverse(jnp.asarray(1.0000001e-6)))
