"""The bound: gradients, unbiasedness, windows, masks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from budget import SIGMAS
from configurations import FAMILIES, Family, random_noise, random_ssm, random_windows

from mrgpssm.elbo import Windows, elbo, elbo_terms, even_weights, log_likelihood
from mrgpssm.gp import RBF, Matern32
from mrgpssm.model import PAPER, SSM, STABLE, LinearEmission, NonlinearEmission, init_ssm
from mrgpssm.model.emission import selector
from mrgpssm.rollout import Analytic, FullMC, Marginal, Noise, draw_noise, draw_starts, rollout

N, S, T = 2, 3, 6


def window_arrays(rng, u, y, dtype):
    outputs = rng.standard_normal((N, T, y))
    outputs[0, 3, 0] = np.nan
    arrays = (
        rng.standard_normal((N, T, u)),
        outputs,
        np.full((N, T), 2.0),
    )
    return Windows(*(jnp.asarray(a, dtype) for a in arrays))


def models() -> dict[str, SSM]:
    """One model for each part that has parameters: both presets, all emissions."""
    rng = np.random.default_rng(0)
    dtype = jnp.dtype("float64")
    sizes = {"latent_dim": 2, "input_dim": 2, "output_dim": 2, "inducing": 5, "dtype": dtype}
    stable = init_ssm(STABLE, (2, 4), **sizes, key=jax.random.key(0), kernel=Matern32)
    paper = init_ssm(PAPER, (2, 4), **sizes, key=jax.random.key(1))

    def array(*shape):
        return jnp.asarray(0.5 * rng.standard_normal(shape), dtype)

    emissions = (
        LinearEmission(array(2, 2)),
        NonlinearEmission(selector(2, 2, dtype), array(2, 3), array(3, 2), array(3)),
    )
    rich = eqx.tree_at(lambda s: tuple(c.emission for c in s.components), stable, emissions)
    return {"stable": stable, "paper": paper, "emissions": rich}


@eqx.filter_jit
def bound_terms(ssm, windows, noise):
    return elbo(ssm, windows, noise, FullMC(), buffer=1, total=30.0, sequences=1)


@eqx.filter_jit
def slope(ssm, windows, noise):
    return eqx.filter_grad(lambda s: elbo(s, windows, noise, FullMC(), buffer=1, total=10.0, sequences=1).bound)(ssm)


@pytest.mark.float64
@pytest.mark.parametrize("scheme", [FullMC(), Marginal(), Analytic()], ids=["full_mc", "marginal", "analytic"])
@pytest.mark.parametrize("name", ["stable", "paper", "emissions"])
def test_gradients_match_central_differences(name, scheme):
    """Every parameter group, along two random directions each."""
    model = models()[name]
    rng = np.random.default_rng(1)
    windows = window_arrays(rng, 2, 2, jnp.float64)
    noise = draw_noise(model, N, S, T, key=jax.random.key(3))

    def bound(model):
        return elbo(model, windows, noise, scheme, buffer=2, total=40.0, sequences=1).bound

    value = eqx.filter_jit(bound)
    gradient = eqx.filter_jit(eqx.filter_grad(bound))(model)
    leaves, structure = jax.tree.flatten(model)
    checked = 0
    for index, (leaf, slope) in enumerate(zip(leaves, jax.tree.leaves(gradient), strict=True)):
        for _ in range(2):
            direction = rng.standard_normal(leaf.shape)
            direction = jnp.asarray(direction / np.linalg.norm(direction))
            eps = 1e-5

            def moved(sign, index=index, leaf=leaf, direction=direction, eps=eps):
                changed = [*leaves[:index], leaf + sign * eps * direction, *leaves[index + 1 :]]
                return float(value(jax.tree.unflatten(structure, changed)))

            numeric = (moved(1) - moved(-1)) / (2 * eps)
            analytic = float(jnp.sum(slope * direction))
            assert abs(numeric - analytic) <= 1e-6 * max(1.0, abs(numeric)), jax.tree_util.tree_leaves_with_path(model)[
                index
            ][0]
            checked += 1
    assert checked == 2 * len(leaves)


def test_every_parameter_has_a_gradient():
    """Nothing in the model is dead weight: every leaf moves the bound."""
    dtype = jnp.zeros(()).dtype
    rng = np.random.default_rng(0)
    family = FAMILIES[1]
    ssm, windows = random_ssm(rng, family, dtype), random_windows(rng, family, dtype=dtype)
    noise = random_noise(rng, family, dtype=dtype)
    gradient = slope(ssm, windows, noise)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        assert np.any(np.asarray(leaf) != 0), path
    raw = np.asarray(gradient.components[0].transition.gp.posterior.raw_factor)
    np.testing.assert_array_equal(np.triu(raw, 1), 0.0)


@pytest.mark.parametrize("scheme", [FullMC(), Marginal(), Analytic()], ids=["full_mc", "marginal", "analytic"])
def test_expected_bound_does_not_depend_on_the_number_of_samples(scheme):
    """The mean over samples stands inside the bound, so 1, 10 and 100 samples estimate one number."""
    dtype = jnp.zeros(()).dtype
    rng = np.random.default_rng(2)
    ssm = random_ssm(rng, FAMILIES[1], dtype)
    windows = random_windows(rng, FAMILIES[1], dtype=dtype)

    def estimate(samples, key):
        noise = draw_noise(ssm, 2, samples, 5, key=key)
        return elbo(ssm, windows, noise, scheme, buffer=1, total=8.0, sequences=1).bound

    means, errors = [], []
    for samples, repeats in ((1, 6000), (10, 600), (100, 60)):
        keys = jax.random.split(jax.random.key(samples), repeats)
        values = np.asarray(jax.jit(lambda ks, n=samples: jax.lax.map(lambda k: estimate(n, k), ks))(keys), float)
        means.append(values.mean())
        errors.append(values.std(ddof=1) / np.sqrt(repeats))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(means[a] - means[b]) < SIGMAS * np.hypot(errors[a], errors[b])


@pytest.mark.float64
def test_windows_that_tile_the_series_average_to_the_full_bound():
    """Each tile starts where the full trajectory stands, with its slice of the noise; T / B makes it unbiased."""
    family = Family(RBF, d=2, u=1, y=2, m=5, units=(1.0, 3.0))
    rng = np.random.default_rng(3)
    ssm = random_ssm(rng, family)
    whole, tiles, B = 24, 4, 6
    windows = random_windows(rng, family, n=1, t=whole)
    noise = random_noise(rng, family, n=1, s=3, t=whole)
    dynamics = ssm.dynamics()

    def even(windows):
        return {"weights": even_weights(windows.strides, 0, float(whole)), "sequences": 1}

    starts = draw_starts(ssm, noise)
    full = rollout(FullMC(), ssm, dynamics, starts, windows.inputs, windows.strides, noise)
    reference = elbo_terms(ssm, dynamics, windows, full, **even(windows))

    estimates = []
    for tile in range(tiles):
        span = slice(tile * B, (tile + 1) * B)
        part = Windows(windows.inputs[:, span], windows.outputs[:, span], windows.strides[:, span])
        cut = tuple(Noise(e.initial, e.inducing, e.process[:, :, span]) for e in noise)
        here = starts if tile == 0 else tuple(x[:, :, tile * B - 1] for x in full.states)
        drawn = rollout(FullMC(), ssm, dynamics, here, part.inputs, part.strides, cut)
        estimates.append(elbo_terms(ssm, dynamics, part, drawn, **even(part)))
    np.testing.assert_allclose(np.mean([e.likelihood for e in estimates]), reference.likelihood, rtol=1e-12)
    np.testing.assert_allclose(np.mean([e.bound for e in estimates]), reference.bound, rtol=1e-12)
    assert np.std([e.likelihood for e in estimates]) > 0.1


@pytest.mark.float64
def test_windows_average_inside_one_batch():
    """A batch of n windows is the mean of n batches of one."""
    rng = np.random.default_rng(4)
    family = FAMILIES[3]
    ssm, windows, noise = random_ssm(rng, family), random_windows(rng, family), random_noise(rng, family)
    both = bound_terms(ssm, windows, noise).bound
    single = []
    for i in range(2):
        one, e = jax.tree.map(lambda x, i=i: x[i : i + 1], (windows, noise))
        single.append(bound_terms(ssm, one, e).bound)
    np.testing.assert_allclose(both, np.mean(single), rtol=1e-12)


def test_missing_outputs_score_nothing():
    predictions = jnp.zeros((1, 2, 3, 1))
    variance = jnp.ones((1,))
    seen = log_likelihood(jnp.array([[[1.0], [jnp.nan], [2.0]]]), predictions, variance)
    expected = -0.5 * (1 + 4) - np.log(2 * np.pi)
    np.testing.assert_allclose(jnp.sum(seen), expected, rtol=1e-6)
    assert not np.any(log_likelihood(jnp.full((1, 3, 1), jnp.nan), predictions, variance))


def test_buffers_score_nothing():
    rng = np.random.default_rng(11)
    dtype = jnp.zeros(()).dtype
    family = FAMILIES[1]
    ssm, noise = random_ssm(rng, family, dtype), random_noise(rng, family, dtype=dtype)
    windows = random_windows(rng, family, dtype=dtype)
    where = lambda w: w.outputs  # noqa: E731
    inside = eqx.tree_at(where, windows, windows.outputs.at[:, 0].set(99.0))
    outside = eqx.tree_at(where, windows, windows.outputs.at[:, 1].set(99.0))
    a, b, c = (bound_terms(ssm, w, noise).likelihood for w in (windows, inside, outside))
    assert a == b
    assert a != c


def test_gradient_is_finite_where_outputs_are_missing():
    rng = np.random.default_rng(5)
    dtype = jnp.zeros(()).dtype
    family = FAMILIES[1]
    ssm, noise = random_ssm(rng, family, dtype), random_noise(rng, family, dtype=dtype)
    windows = random_windows(rng, family, dtype=dtype)
    windows = eqx.tree_at(lambda w: w.outputs, windows, jnp.full_like(windows.outputs, jnp.nan))
    gradient = slope(ssm, windows, noise)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


def test_a_buffer_must_leave_something_to_score():
    rng = np.random.default_rng(6)
    dtype = jnp.zeros(()).dtype
    ssm = random_ssm(rng, FAMILIES[1], dtype)
    windows, noise = (
        random_windows(rng, FAMILIES[1], dtype=dtype),
        random_noise(rng, FAMILIES[1], dtype=dtype),
    )
    with pytest.raises(ValueError, match="at least one scored step"):
        eqx.filter_eval_shape(elbo, ssm, windows, noise, FullMC(), buffer=5, total=1.0, sequences=1)


def test_a_step_traces_once():
    """New parameters, data and noise of the same shapes never trace again."""
    rng = np.random.default_rng(7)
    dtype = jnp.zeros(()).dtype
    family = FAMILIES[2]
    traces = 0

    @eqx.filter_jit
    def step(ssm, windows, noise):
        nonlocal traces
        traces += 1
        return eqx.filter_grad(lambda s: elbo(s, windows, noise, FullMC(), buffer=1, total=10.0, sequences=1).bound)(
            ssm
        )

    for _ in range(3):
        ssm = random_ssm(rng, family, dtype)
        step(ssm, random_windows(rng, family, dtype=dtype), random_noise(rng, family, dtype=dtype))
    assert traces == 1


@pytest.mark.float64
def test_a_fleet_gives_each_member_what_it_gets_alone():
    """The bound and its gradient map over a leading axis of models."""
    family = FAMILIES[1]
    models = [random_ssm(np.random.default_rng(seed), family) for seed in range(4)]
    rng = np.random.default_rng(8)
    windows, noise = random_windows(rng, family), random_noise(rng, family)

    def value_and_grad(ssm):
        return eqx.filter_value_and_grad(
            lambda s: elbo(s, windows, noise, FullMC(), buffer=1, total=10.0, sequences=1).bound
        )(ssm)

    fleet = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    together = eqx.filter_jit(eqx.filter_vmap(value_and_grad))(fleet)
    for index, model in enumerate(models):
        alone = eqx.filter_jit(value_and_grad)(model)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[index], b, rtol=1e-9, atol=1e-9)
