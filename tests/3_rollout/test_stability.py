"""What the model promises about free runs holds, for any parameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from configurations import Family, random_component
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mrgpssm.arrays.params import contraction, contraction_inverse, positive_inverse
from mrgpssm.gp import RBF
from mrgpssm.model import (
    PAPER,
    STABLE,
    StableMean,
    from_sde,
    init_ssm,
    noiseless_growth,
    noiseless_radius,
    second_moment_bound,
    spectral_norm,
    to_sde,
)

DTYPE = jnp.zeros(()).dtype
SLACK = 1 + (1e-9 if DTYPE == jnp.float64 else 1e-4)
FAMILY = Family(RBF, d=2, u=2, y=1, m=5, units=(1.0,))

finite = st.floats(min_value=float(np.float32(-1e30)), max_value=float(np.float32(1e30)), width=32)
squares = st.integers(1, 5).flatmap(lambda d: arrays(np.float32, (d, d), elements=finite))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(raw=squares, h=st.floats(0.001, 1.0), rho=st.sampled_from([0.5, 0.98, 0.99, 0.995]))
def test_spectral_norm_is_bounded_for_any_raw_values(raw, h, rho):
    d = raw.shape[0]
    mean = StableMean(jnp.asarray(raw, DTYPE), jnp.zeros((d, 1), DTYPE), jnp.zeros((d,), DTYPE), rho)
    A = np.asarray(mean.matrices()[0], float)
    assert np.all(np.isfinite(A))
    eye = np.eye(d)
    assert np.linalg.norm(eye + A, 2) <= rho * SLACK
    assert np.linalg.norm(eye + h * A, 2) <= (1 - h * (1 - rho)) * SLACK


@settings(max_examples=100, deadline=None, derandomize=True)
@given(raw=st.integers(1, 4).flatmap(lambda d: arrays(np.float64, (d, d), elements=st.floats(-3, 3))))
def test_contraction_reaches_every_matrix_below_norm_one(raw):
    W = raw / (1e-9 + np.linalg.norm(raw, 2)) * 0.97
    again = contraction(contraction_inverse(jnp.asarray(W, DTYPE)))
    np.testing.assert_allclose(again, W, atol=1e-9 if DTYPE == jnp.float64 else 1e-3)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    raw=st.integers(2, 5).flatmap(lambda d: arrays(np.float32, (d, d), elements=st.floats(-50, 50, width=32))),
    k=st.integers(1, 4),
)
def test_integrators_have_eigenvalue_1_and_what_they_add_up_fades(raw, k):
    d = raw.shape[0]
    k = min(k, d - 1)
    B, b = jnp.zeros((d, 1), DTYPE), jnp.zeros((d,), DTYPE)
    A = np.asarray(StableMean(jnp.asarray(raw, DTYPE), B, b, 0.99, k).matrices()[0], float)
    np.testing.assert_array_equal(A[:, :k], 0)
    np.testing.assert_allclose(A[:k, k:], raw[:k, k:], rtol=1e-6)
    assert np.linalg.norm(np.eye(d - k) + A[k:, k:], 2) <= 0.99 * SLACK
    again = StableMean.of(jnp.asarray(np.eye(d) + A, DTYPE), B, b, 0.999, k).matrices()[0]
    np.testing.assert_allclose(again, A, atol=1e-6 if DTYPE == jnp.float64 else 2e-2)


def test_an_integrating_component_survives_the_way_to_its_sde_and_back():
    component = init_ssm(
        STABLE, (5,), latent_dim=3, input_dim=1, output_dim=1, inducing=4, key=jax.random.key(0), dtype=DTYPE,
        integrators=1,
    ).components[0]  # fmt: skip
    there, back = component.dynamics(), from_sde(to_sde(component, 0.5)).dynamics()
    np.testing.assert_allclose(back.A, there.A, atol=1e-5)
    np.testing.assert_allclose(there.A[0], [0, 0.1, 0], atol=1e-6)


def wild_fleet(count, integrators=0):
    """Models with parameters far outside what training would visit."""

    def one(seed):
        rng = np.random.default_rng(seed)
        component = random_component(rng, FAMILY, DTYPE)
        mean = component.transition.mean
        assert isinstance(mean, StableMean)
        mean = StableMean(mean.raw_contraction, mean.B, mean.b, mean.rho, integrators)
        component = eqx.tree_at(lambda c: c.transition.mean, component, mean)
        return eqx.tree_at(
            lambda c: (
                c.transition.mean.raw_contraction,
                c.transition.mean.B,
                c.transition.gp.kernel.raw_amplitude,
                c.transition.gp.posterior.mean,
                c.transition.raw_process_noise,
            ),
            component,
            (
                jnp.asarray(10 ** rng.uniform(-1, 3) * rng.standard_normal((2, 2)), DTYPE),
                jnp.asarray(10 ** rng.uniform(-2, 1) * rng.standard_normal((2, 2)), DTYPE),
                positive_inverse(jnp.asarray(10 ** rng.uniform(-2, 1), DTYPE)),
                jnp.asarray(3 * rng.standard_normal((2, 5)), DTYPE),
                positive_inverse(jnp.asarray(10 ** rng.uniform(-3, 0.5, 2), DTYPE)),
            ),
        )

    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(one, range(count)))


def bounded_input(t):
    """Inputs of norm at most one that never repeat."""
    t = t.astype(DTYPE)
    return jnp.stack([jnp.sin(0.37 * t), jnp.cos(0.0113 * t)]) / jnp.sqrt(jnp.asarray(2.0, DTYPE))


def test_noiseless_runs_of_1e5_steps_stay_in_the_reported_ball():
    """100 random models, mixed step sizes in (0, 1], 0 violations; the ball is not absurdly large either."""

    def run(component):
        dynamics = component.dynamics()
        v = dynamics.gp.mean
        start = 2 * jnp.ones((2,), DTYPE)
        radius = noiseless_radius(dynamics, v, jnp.ones((), DTYPE), jnp.linalg.norm(start))

        def step(x, t):
            h = (1 + t % 10).astype(DTYPE) / 10
            x, _ = dynamics.transition(x, dynamics.forcing(bounded_input(t)), h, v)
            return x, jnp.linalg.norm(x)

        _, norms = jax.lax.scan(step, start, jnp.arange(100_000))
        return radius, jnp.max(norms), jnp.all(jnp.isfinite(norms))

    radius, furthest, finite = (np.asarray(x) for x in jax.jit(jax.vmap(run))(wild_fleet(100)))
    assert finite.all()
    assert np.sum(furthest > radius * SLACK) == 0
    assert np.median(furthest / radius) > 0.02


def test_noiseless_runs_of_integrators_grow_no_faster_than_reported():
    """100 random models with one integrator, mixed step sizes: at every time |x_t - x_0| <= growth t, 0 violations."""

    def run(component):
        dynamics, v, start = component.dynamics(), component.dynamics().gp.mean, 2 * jnp.ones((2,), DTYPE)
        one = jnp.ones((), DTYPE)
        growth = noiseless_growth(dynamics, 1, v, one, jnp.abs(start[1]))
        assert growth.shape == ()

        def step(carry, t):
            x, time = carry
            h = (1 + t % 10).astype(DTYPE) / 10
            x, _ = dynamics.transition(x, dynamics.forcing(bounded_input(t)), h, v)
            return (x, time + h), jnp.abs(x[0] - start[0]) / (growth * (time + h))

        _, shares = jax.lax.scan(step, (start, jnp.zeros((), DTYPE)), jnp.arange(20_000))
        return noiseless_radius(dynamics, v, one, one), jnp.max(shares)

    radius, share = (np.asarray(x) for x in jax.jit(jax.vmap(run))(wild_fleet(100, integrators=1)))
    assert np.isinf(radius).all()
    assert np.all(share <= SLACK)
    assert np.median(share) > 0.02


def test_second_moment_stays_below_the_reported_bound():
    """20 models x 400 particles x 2,000 steps, each particle with its own v ~ q(v)."""
    particles, steps, h = 400, 2_000, 0.5

    def run(component, key):
        dynamics = component.dynamics()
        key_v, key_x = jax.random.split(key)
        v = jax.vmap(dynamics.gp.inducing_outputs)(jax.random.normal(key_v, (particles, 2, 5), DTYPE))
        size = jnp.asarray(h, DTYPE)
        bound = second_moment_bound(dynamics, size, jnp.ones((), DTYPE), jnp.zeros((), DTYPE))

        def step(x, t):
            forcing = dynamics.forcing(bounded_input(t))
            mean, variance = jax.vmap(lambda x, v: dynamics.transition(x, forcing, size, v))(x, v)
            x = mean + jnp.sqrt(variance) * jax.random.normal(jax.random.fold_in(key_x, t), x.shape, DTYPE)
            return x, jnp.mean(jnp.sum(x**2, axis=1))

        _, moments = jax.lax.scan(step, jnp.zeros((particles, 2), DTYPE), jnp.arange(steps))
        return bound, jnp.max(moments)

    keys = jax.random.split(jax.random.key(0), 20)
    bound, largest = (np.asarray(x) for x in jax.jit(jax.vmap(run))(wild_fleet(20), keys))
    assert np.all(np.isfinite(bound))
    assert np.all(largest <= bound)
    assert np.max(largest / bound) > 0.05


def test_second_moment_bound_is_exact_for_a_scalar_linear_system():
    """Without GP, input and offset the bound is the stationary variance h Q / (1 - γ²) itself."""
    family = Family(RBF, d=1, u=1, y=1, m=3, units=(1.0,))
    component = random_component(np.random.default_rng(0), family, DTYPE)
    component = eqx.tree_at(
        lambda c: (c.transition.gp.kernel.raw_amplitude, c.transition.mean.B, c.transition.mean.b),
        component,
        (positive_inverse(jnp.asarray(1.01e-6, DTYPE)), jnp.zeros((1, 1), DTYPE), jnp.zeros((1,), DTYPE)),
    )
    # |1 + A| <= 1 bounds |1 + h A| by 1 - h (1 - |1 + A|) with equality where 1 + A >= 0.
    component = eqx.tree_at(lambda c: c.transition.mean.raw_contraction, component, jnp.full((1, 1), 1.5, DTYPE))
    dynamics = component.dynamics()
    h = 0.4
    gamma = 1 + h * float(dynamics.A[0, 0])
    expected = h * float(dynamics.Q[0]) / (1 - gamma**2)
    bound = second_moment_bound(dynamics, jnp.asarray(h, DTYPE), jnp.zeros((), DTYPE), jnp.zeros((), DTYPE))
    np.testing.assert_allclose(bound, expected, rtol=1e-3)


def test_the_identity_mean_promises_nothing():
    dynamics = init_ssm(
        PAPER, (1,), latent_dim=2, input_dim=1, output_dim=1, inducing=4, key=jax.random.key(0), dtype=DTYPE
    ).dynamics()[0]
    one = jnp.ones((), DTYPE)
    assert float(spectral_norm(dynamics)) == 1.0
    assert np.isinf(noiseless_radius(dynamics, dynamics.gp.mean, one, one))
    assert np.isinf(second_moment_bound(dynamics, one, one, one))
