"""The GPSSM and the discretised SDE are one model at R = 1, and close beyond (paper, supplement B)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from configurations import (
    FAMILIES,
    Family,
    as_oracle,
    random_component,
    random_noise,
    random_ssm,
    random_windows,
)
from scipy.linalg import expm

from mrgpssm.arrays.params import positive_inverse
from mrgpssm.elbo import Windows, elbo
from mrgpssm.gp import RBF
from mrgpssm.model import PAPER, SSM, Component, from_sde, init_ssm, to_sde
from mrgpssm.rollout import FullMC, Noise, conditional_moments, inducing_given_path

DELTA_T = [0.01, 0.1, 1.0, 7.0]
pytestmark = pytest.mark.float64


def unit_strides(windows: Windows) -> Windows:
    return Windows(windows.inputs, windows.outputs, jnp.ones_like(windows.strides))


@pytest.mark.parametrize("delta_t", DELTA_T)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.kernel.__name__}-{f.d}")
def test_bounds_are_equal_at_resolution_one(family, delta_t):
    """Second corollary: L = L_Δ for every Δt, with the same noise, term by term."""
    rng = np.random.default_rng(family.m)
    gpssm = random_ssm(rng, family)
    gpssm = SSM(gpssm.components, gpssm.raw_observation_noise, (1.0,) * len(family.units))
    sde = SSM(
        tuple(to_sde(c, delta_t) for c in gpssm.components if isinstance(c, Component)),
        gpssm.raw_observation_noise,
        (1 / delta_t,) * len(family.units),  # raw samples a second, so that a step lasts Δt seconds
    )
    windows, noise = unit_strides(random_windows(rng, family)), random_noise(rng, family)
    ours = elbo(gpssm, windows, noise, FullMC(), buffer=1, total=77.0, sequences=1)
    theirs = elbo(sde, windows, noise, FullMC(), buffer=1, total=77.0, sequences=1)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    np.testing.assert_allclose(ours.bound, theirs.bound, rtol=1e-10)


@pytest.mark.parametrize("delta_t", DELTA_T)
def test_marginals_are_equal_at_resolution_one(delta_t):
    """First corollary: q^Δ(x_j | x_{j-1}, ..., x_0) = q(x_t | x_{t-1}, ..., x_0); so are the lemmas' q(f_M | path)."""
    rng = np.random.default_rng(1)
    component = random_component(rng, FAMILIES[2])
    x0, inputs, states = (jnp.asarray(rng.standard_normal(s)) for s in ((2,), (8, 2), (8, 2)))
    one, second = jnp.ones(8), jnp.full((8,), delta_t)
    dynamics, sde = component.dynamics(), to_sde(component, delta_t).dynamics()
    ours = conditional_moments(dynamics, x0, inputs, one, states)
    theirs = conditional_moments(sde, x0, inputs, second, states)
    np.testing.assert_allclose(ours.means, theirs.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ours.variances, theirs.variances, rtol=1e-9)
    for a, b in zip(
        inducing_given_path(dynamics, x0, inputs, one, states),
        inducing_given_path(sde, x0, inputs, second, states),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize(("resolution", "delta_t"), [(1, 0.1), (5, 0.1), (30, 0.01)])
def test_sde_theorem_and_lemma_as_the_paper_writes_them(resolution, delta_t):
    """μ̃, S̃ and q^Δ(f_M | path) with K^Δ and R Δt written out, against our SDE component."""
    rng = np.random.default_rng(2)
    component = random_component(rng, Family(RBF, d=2, u=1, y=1, m=5, units=(1.0,)))
    tau, length = resolution * delta_t, 7
    sde = to_sde(component, tau)
    x0, inputs, states = (rng.standard_normal(s) for s in ((2,), (length, 1), (length, 2)))
    arrays = tuple(map(jnp.asarray, (x0, inputs, np.full(length, tau), states)))
    moments = conditional_moments(sde.dynamics(), *arrays)
    f_mean, f_cov = inducing_given_path(sde.dynamics(), *arrays)

    c = as_oracle(component)
    before = np.vstack([x0, states[:-1]])
    z = np.hstack([before, inputs])
    for d in range(2):
        inverse = np.linalg.inv(oracle.k_mm(c, d))
        K_jM = oracle.gram(c, z, c["inducing"][d]) / tau
        K_jj = (c["sd"] ** 2 * (1 + c["jitter"])) / tau**2
        m_M, S_M = np.asarray(sde.m_M[d]), np.asarray(sde.S_M[d])
        linear = before @ np.asarray(sde.A[d]) + inputs @ np.asarray(sde.B[d]) + float(sde.b[d])
        mu = before[:, d] + tau * (linear + K_jM @ inverse @ m_M)
        gp = K_jj - np.sum((K_jM @ inverse) * K_jM, axis=1)
        S = tau**2 * K_jM @ inverse @ S_M @ inverse @ K_jM.T
        S = S + np.diag(tau * float(sde.Q[d]) + tau**2 * gp)
        for j in range(1, length + 1):
            gain = S[j - 1, : j - 1] @ np.linalg.inv(S[: j - 1, : j - 1])
            mean = mu[j - 1] + gain @ (states[: j - 1, d] - mu[: j - 1])
            variance = S[j - 1, j - 1] - gain @ S[: j - 1, j - 1]
            np.testing.assert_allclose(moments.means[j - 1, d], mean, atol=1e-9)
            np.testing.assert_allclose(moments.variances[j - 1, d], variance, atol=1e-9)
        cross = tau * S_M @ inverse @ K_jM.T @ np.linalg.inv(S)
        np.testing.assert_allclose(f_mean[d], m_M + cross @ (states[:, d] - mu), atol=1e-9)
        np.testing.assert_allclose(f_cov[d], S_M - tau * cross @ K_jM @ inverse @ S_M, atol=1e-9)


@pytest.mark.parametrize("delta_t", DELTA_T)
def test_maps_invert_each_other(delta_t):
    component = random_component(np.random.default_rng(3), FAMILIES[3])
    back = from_sde(to_sde(component, delta_t))
    for a, b in zip(jax.tree.leaves(component.dynamics()), jax.tree.leaves(back.dynamics()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    again = to_sde(back, delta_t)
    for a, b in zip(jax.tree.leaves(to_sde(component, delta_t)), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_the_identity_mean_maps_too():
    ssm = init_ssm(
        PAPER,
        (30,),
        latent_dim=2,
        input_dim=1,
        output_dim=1,
        inducing=5,
        key=jax.random.key(0),
        dtype=jnp.dtype("float64"),
    )
    component = ssm.components[0]
    assert isinstance(component, Component)
    back = from_sde(to_sde(component, 3.0))
    x, v = jnp.array([0.2, -0.1]), jnp.ones((2, 5))
    for c in (component, back):
        dynamics = c.dynamics()
        np.testing.assert_array_equal(dynamics.A, jnp.zeros((2, 2)))
    a, b = (
        c.dynamics().transition(x, c.dynamics().forcing(jnp.ones(1)), jnp.asarray(0.5), v) for c in (component, back)
    )
    np.testing.assert_allclose(a, b, rtol=1e-7)


def test_error_in_the_mean_is_of_first_order_in_the_stride():
    """An Ornstein-Uhlenbeck process has a known mean, e^{At} x_0; coarser strides miss it proportionally."""
    family = Family(RBF, d=2, u=1, y=1, m=3, units=(1.0,))
    component = random_component(np.random.default_rng(4), family)
    component = eqx.tree_at(
        lambda c: (
            c.transition.gp.kernel.raw_amplitude,
            c.transition.mean.raw_contraction,
            c.transition.mean.B,
            c.transition.mean.b,
        ),
        component,
        (
            positive_inverse(jnp.asarray(1.0000001e-6)),
            jnp.array([[0.6, 0.3], [-0.3, 0.2]]),
            jnp.zeros((2, 1)),
            jnp.zeros(2),
        ),
    )
    delta_t, samples = 0.01, 128
    sde = to_sde(component, 1.0).dynamics()
    x0 = jnp.array([1.0, -2.0])
    exact = expm(np.asarray(sde.A) * delta_t * samples) @ np.asarray(x0)
    strides = np.array([1, 2, 4, 8, 16])
    errors = []
    for stride in strides:
        steps = samples // stride
        silent = Noise(jnp.zeros(2), jnp.zeros((2, 3)), jnp.zeros((steps, 2)))
        h = jnp.full((steps,), stride * delta_t)
        path = FullMC().path(sde, x0, jnp.zeros((steps, 1)), h, silent)
        errors.append(np.linalg.norm(np.asarray(path.states[-1]) - exact))
    order = np.polyfit(np.log(strides), np.log(errors), 1)[0]
    assert order > 0.9
    assert errors[0] < 1e-2 * np.linalg.norm(x0)
