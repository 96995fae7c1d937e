"""The marginalisation theorems (paper, supplements A and C) and what they say about the three schemes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from budget import SIGMAS
from configurations import Family, as_oracle, random_component, random_ssm

from mrgpssm.arrays.params import lower_triangular_inverse, positive_inverse
from mrgpssm.gp import RBF, Matern52
from mrgpssm.model import Component, Dynamics
from mrgpssm.rollout import (
    Analytic,
    FullMC,
    Marginal,
    Noise,
    conditional_moments,
    draw_noise,
    inducing_given_path,
    prior_dynamics,
)

STEPS = 5


def random_path(rng, family, length):
    return (
        rng.standard_normal(family.d),
        rng.standard_normal((length, family.u)),
        rng.uniform(0.2, 1.0, length),
        rng.standard_normal((length, family.d)),
    )


@pytest.mark.float64
@pytest.mark.parametrize("prior", [False, True], ids=["posterior", "prior"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_conditionals_along_a_path_equal_recursive_bayes(d, prior):
    family = Family(Matern52, d=d, u=2, y=1, m=6, units=(1.0,))

    @eqx.filter_jit
    def ours(component: Component, *path):
        dynamics = component.dynamics()
        dynamics = prior_dynamics(dynamics) if prior else dynamics
        return conditional_moments(dynamics, *path), inducing_given_path(dynamics, *path)

    for seed in range(5):
        rng = np.random.default_rng([seed, d])
        component = random_component(rng, family)
        x0, inputs, steps, states = random_path(rng, family, 12)
        moments, (f_mean, f_cov) = ours(component, *map(jnp.asarray, (x0, inputs, steps, states)))
        c = as_oracle(component)
        if prior:
            c |= {"mean": np.zeros_like(c["mean"]), "factor": np.broadcast_to(np.eye(6), c["factor"].shape)}
        means, variances, posterior = oracle.recursive_posterior(c, x0, inputs, steps, states)
        np.testing.assert_allclose(moments.means, means, atol=1e-9)
        np.testing.assert_allclose(moments.variances, variances, atol=1e-9)
        np.testing.assert_array_equal(moments.states, states)
        for k in range(d):
            np.testing.assert_allclose(f_mean[k], posterior[k][0], atol=1e-9)
            np.testing.assert_allclose(f_cov[k], posterior[k][1], atol=1e-9)


@pytest.mark.float64
def test_analytic_draws_from_the_moments_it_reports():
    family = Family(RBF, d=2, u=1, y=1, m=5, units=(1.0,))
    rng = np.random.default_rng(3)
    dynamics = random_component(rng, family).dynamics()
    x0, inputs, steps, epsilon = map(jnp.asarray, random_path(rng, family, 9))
    path = Analytic().path(dynamics, x0, inputs, steps, Noise(jnp.zeros(2), jnp.zeros((2, 5)), epsilon))
    again = conditional_moments(dynamics, x0, inputs, steps, path.states)
    np.testing.assert_allclose(path.means, again.means, atol=1e-12)
    np.testing.assert_allclose(path.states, path.means + jnp.sqrt(path.variances) * epsilon, atol=1e-12)


def draw(scheme, dynamics: Dynamics, inputs, count, seed):
    """(count, STEPS, d) states from x_0 ~ N(0, 0.3²) at h = 1."""
    d, m = dynamics.gp.mean.shape
    keys = jax.random.split(jax.random.key(seed), 3)
    dtype = dynamics.A.dtype
    noise = Noise(
        jax.random.normal(keys[0], (count, d), dtype),
        jax.random.normal(keys[1], (count, d, m), dtype),
        jax.random.normal(keys[2], (count, STEPS, d), dtype),
    )

    def one(noise):
        return scheme.path(dynamics, 0.3 * noise.initial, inputs, jnp.ones((STEPS,), dtype), noise).states

    return jax.vmap(one)(noise)


def statistics(states):
    """Mean, variance and covariance over all steps and dimensions, each with its standard error."""
    flat = np.asarray(states, float).reshape(len(states), -1)
    centred = flat - flat.mean(0)
    products = centred[:, :, None] * centred[:, None, :]
    count = np.sqrt(len(flat))
    return (flat.mean(0), flat.std(0) / count), (products.mean(0), products.std(0) / count)


def largest_deviation(a, b):
    """The largest difference of two sets of statistics, in standard errors of the difference."""
    return max(
        np.max(np.abs(x - y) / np.sqrt(sx**2 + sy**2 + 1e-30))
        for (x, sx), (y, sy) in zip(statistics(a), statistics(b), strict=True)
    )


@pytest.mark.parametrize("prior", [False, True], ids=["posterior", "prior"])
def test_full_mc_and_analytic_agree_in_distribution(prior):
    """Mean, variance and 5-step covariance on 10 configurations, one fleet."""
    family = Family(RBF, d=2, u=1, y=1, m=5, units=(1.0,))
    dtype = jnp.zeros(()).dtype
    configurations = [random_component(np.random.default_rng(seed), family, dtype) for seed in range(10)]
    fleet = jax.tree.map(lambda *leaves: jnp.stack(leaves), *configurations)
    inputs = jnp.asarray(np.random.default_rng(99).standard_normal((STEPS, 1)), dtype)

    @eqx.filter_jit
    def sample(fleet, scheme, seed):
        def member(component):
            dynamics = component.dynamics()
            return draw(scheme, prior_dynamics(dynamics) if prior else dynamics, inputs, 20_000, seed)

        return jax.vmap(member)(fleet)

    ours, exact = sample(fleet, FullMC(), 1), sample(fleet, Analytic(), 2)
    for index in range(10):
        assert largest_deviation(ours[index], exact[index]) < SIGMAS, f"configuration {index}"


@pytest.mark.float64
def test_marginal_is_exact_for_one_step():
    """For one step its reported moments are the theorem's."""
    family = Family(Matern52, d=2, u=1, y=1, m=5, units=(1.0,))
    rng = np.random.default_rng(5)
    dynamics = random_component(rng, family).dynamics()
    x0, inputs, steps, epsilon = map(jnp.asarray, random_path(rng, family, 1))
    noise = Noise(jnp.zeros(2), jnp.zeros((2, 5)), epsilon)
    ours, exact = (scheme.path(dynamics, x0, inputs, steps, noise) for scheme in (Marginal(), Analytic()))
    np.testing.assert_allclose(ours.means, exact.means, atol=1e-12)
    np.testing.assert_allclose(ours.variances, exact.variances, atol=1e-12)


@pytest.mark.float64
def test_marginal_with_given_noise_is_its_recursion():
    """Several steps, three dimensions, uneven h: states against NumPy loops with S_M and `inv`."""
    family = Family(RBF, d=3, u=1, y=1, m=5, units=(1.0,))
    rng = np.random.default_rng(8)
    component = random_component(rng, family)
    x0, inputs, steps, epsilon = random_path(rng, family, 6)
    noise = Noise(jnp.zeros(3), jnp.zeros((3, 5)), jnp.asarray(epsilon))
    ours = Marginal().path(component.dynamics(), jnp.asarray(x0), jnp.asarray(inputs), jnp.asarray(steps), noise)
    c, x = as_oracle(component), x0
    for t in range(6):
        z = np.concatenate([x, inputs[t]])
        posterior = [oracle.unwhiten(c, d) for d in range(3)]
        mean, variance = oracle.step(c, x, inputs[t], steps[t], [m for m, _ in posterior])
        for d, (_, S_M) in enumerate(posterior):
            gain = steps[t] * oracle.gram(c, [z], c["inducing"][d])[0] @ np.linalg.inv(oracle.k_mm(c, d))
            variance[d] += gain @ S_M @ gain
        x = mean + np.sqrt(variance) * epsilon[t]
        np.testing.assert_allclose(ours.states[t], x, atol=1e-9)


def nearly_constant_drift(dtype) -> Dynamics:
    """One very smooth, very uncertain function: every step of a trajectory moves the same unknown way."""
    family = Family(RBF, d=1, u=1, y=1, m=5, units=(1.0,))
    component = random_component(np.random.default_rng(0), family, dtype)
    component = eqx.tree_at(
        lambda c: (
            c.transition.gp.kernel.raw_lengthscales,
            c.transition.gp.posterior.mean,
            c.transition.gp.posterior.raw_factor,
            c.transition.mean.raw_contraction,
        ),
        component,
        (
            positive_inverse(jnp.full((2,), 20.0, dtype)),
            jnp.zeros((1, 5), dtype),
            lower_triangular_inverse(jnp.eye(5, dtype=dtype)[None]),
            jnp.full((1, 1), 10.0, dtype),
        ),
    )
    return component.dynamics()


def test_marginal_is_biased_where_steps_share_a_function():
    """It treats the steps' errors as independent: the variance after five steps is far too small."""
    dtype = jnp.zeros(()).dtype
    dynamics = nearly_constant_drift(dtype)
    inputs = jnp.zeros((STEPS, 1), dtype)
    sample = jax.jit(draw, static_argnums=(0, 3, 4))
    ours, exact, full = (
        sample(scheme, dynamics, inputs, 20_000, seed)
        for scheme, seed in ((Marginal(), 1), (Analytic(), 2), (FullMC(), 3))
    )
    assert largest_deviation(full, exact) < SIGMAS
    assert largest_deviation(ours, exact) > 10 * SIGMAS
    assert np.var(np.asarray(ours)[:, -1]) < 0.6 * np.var(np.asarray(exact)[:, -1])


def test_noise_is_independent_over_everything():
    """Keys are not reused: components, windows, samples, steps and dimensions all draw their own."""
    family = Family(RBF, d=2, u=1, y=1, m=5, units=(1.0, 1.0))
    ssm = random_ssm(np.random.default_rng(0), family, jnp.float32)
    noise = draw_noise(ssm, 3, 4, 6, key=jax.random.key(0))
    values = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(noise)])
    assert len(np.unique(values)) > 0.999 * len(values)
    assert abs(values.mean()) < SIGMAS / np.sqrt(len(values))
    assert abs(values.var() - 1) < SIGMAS * np.sqrt(2 / len(values))
