"""States that break naive code: finite results, variances that are not negative before clipping, jitter returned."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from configurations import FAMILIES, random_noise, random_ssm, random_windows

from mrgpssm.arrays.linalg import base_jitter, jittered_cholesky
from mrgpssm.arrays.params import lower_triangular_inverse, positive, positive_inverse
from mrgpssm.elbo import elbo
from mrgpssm.gp import RBF, Matern32, Matern52, SparseGP, WhitenedPosterior
from mrgpssm.gp.kernels import make_kernel
from mrgpssm.model import SSM, Component, Dynamics, StableMean
from mrgpssm.rollout import FullMC

DTYPES = [
    pytest.param(jnp.float64, marks=pytest.mark.float64, id="float64"),
    pytest.param(jnp.float32, marks=pytest.mark.once, id="float32"),
]


def sparse_gp(kind, inducing, lengthscale, dtype) -> SparseGP:
    m, z = inducing.shape
    posterior = WhitenedPosterior(jnp.zeros((1, m), dtype), lower_triangular_inverse(jnp.eye(m, dtype=dtype)[None]))
    kernel = make_kernel(kind, 0.7, jnp.full((z,), lengthscale, dtype))
    return SparseGP(kernel, jnp.asarray(inducing, dtype)[None], posterior)


@eqx.filter_jit
def factorise(gp: SparseGP):
    return gp.condition()


@eqx.filter_jit
def query(gp, zs):
    return jax.vmap(gp.features)(zs), jax.vmap(gp.predict)(zs)


def inducing_sets(rng):
    points = rng.uniform(-2, 2, (50, 1))
    return {
        "50 in one dimension": points,
        "all the same": np.full((50, 1), 0.3),
        "pairs": np.repeat(points[:25], 2, axis=0),
        "nearly pairs": np.repeat(points[:25], 2, axis=0) + 1e-7 * rng.standard_normal((50, 1)),
        "200 in two dimensions": rng.uniform(-2, 2, (200, 2)),
        "far away": 1e4 + points,
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [RBF, Matern32, Matern52])
@pytest.mark.parametrize("lengthscale", [1e-3, 1e-1, 1.0, 1e1, 1e3])
def test_conditional_survives(kind, lengthscale, dtype):
    rng = np.random.default_rng(0)
    worst = 0.0
    for name, inducing in inducing_sets(rng).items():
        gp = factorise(sparse_gp(kind, inducing, lengthscale, dtype))
        queries = np.vstack([inducing, inducing + 1e-3, rng.uniform(-3, 3, (200, inducing.shape[1]))])
        features, prediction = query(gp, jnp.asarray(queries, dtype))
        assert np.all(np.isfinite(features.weights)), name
        assert np.all(np.asarray(features.variance) >= 0), name
        assert np.all(np.isfinite(prediction)), name
        assert np.all(np.asarray(gp.jitter) >= base_jitter(jnp.dtype(dtype)) * 0.999), name
        assert np.all(np.asarray(gp.jitter) < 0.1), name
        singular = np.linalg.svd(np.asarray(gp.root[0], float), compute_uv=False)
        worst = max(worst, float(singular[0] / singular[-1]))
    assert worst < 1e7


@pytest.mark.float64
def test_the_matrices_are_as_bad_as_claimed():
    """Without jitter, conditioning passes 1e18 or the matrix is singular."""
    rng = np.random.default_rng(0)
    conditions = [
        np.linalg.cond(np.asarray(sparse_gp(RBF, z, ell, jnp.float64).kernel.matrix(jnp.asarray(z), jnp.asarray(z))))
        for z in inducing_sets(rng).values()
        for ell in (1.0, 1e1, 1e3)
    ]
    assert sum(condition > 1e18 for condition in conditions) >= 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_jitter_grows_only_as_far_as_it_must_and_is_returned(dtype):
    good = jittered_cholesky(jnp.eye(4, dtype=dtype))
    np.testing.assert_allclose(good.jitter, base_jitter(jnp.dtype(dtype)), rtol=1e-6)
    negative = jnp.diag(jnp.asarray([1.0, 1.0, -3e-4], dtype))
    repaired = jittered_cholesky(negative)
    np.testing.assert_allclose(repaired.jitter, 1e-3, rtol=1e-5)
    again = repaired.factor @ repaired.factor.T
    np.testing.assert_allclose(again, negative + repaired.jitter * jnp.eye(3, dtype=dtype), atol=1e-6)


def test_a_matrix_beyond_repair_says_so():
    """NaN in, NaN out: a value for the caller to report, and no endless loop."""
    broken = jittered_cholesky(jnp.full((3, 3), jnp.nan))
    assert np.all(np.isnan(broken.factor[np.tril_indices(3)]))
    assert float(broken.jitter) <= 0.1 * 1.001


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengthscale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("duplicate", [False, True])
def test_bound_and_gradient_are_finite(duplicate, lengthscale, dtype):
    """More inducing points than data (M > N), duplicates, extreme lengthscales."""
    rng = np.random.default_rng(1)
    family = FAMILIES[3]
    ssm = random_ssm(rng, family, dtype)
    where = lambda s: [c.transition.gp.kernel.raw_lengthscales for c in s.components]  # noqa: E731
    ssm = eqx.tree_at(where, ssm, [positive_inverse(jnp.full((5,), lengthscale, dtype))] * 2)
    if duplicate:
        points = lambda s: [c.transition.gp.inducing for c in s.components]  # noqa: E731
        ssm = eqx.tree_at(points, ssm, [jnp.zeros_like(x) for x in points(ssm)])
    windows = random_windows(rng, family, n=1, t=3, dtype=dtype)
    noise = random_noise(rng, family, n=1, s=1, t=3, dtype=dtype)

    @eqx.filter_jit
    def value_and_grad(ssm):
        return eqx.filter_value_and_grad(
            lambda s: elbo(s, windows, noise, FullMC(), buffer=0, total=3.0, sequences=1).bound
        )(ssm)

    value, gradient = value_and_grad(ssm)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("raw", [-1e30, -200.0, 0.0, 200.0, 1e6])
def test_positive_parameters_stay_positive_and_finite(raw):
    value = positive(jnp.asarray(raw))
    assert float(value) > 0
    assert np.isfinite(value)
    assert np.isfinite(jnp.log(value))


def test_wrong_sizes_are_explained():
    rng = np.random.default_rng(2)
    ssm = random_ssm(rng, FAMILIES[0], jnp.float32)
    with pytest.raises(ValueError, match="needs its own time unit"):
        SSM(ssm.components, ssm.raw_observation_noise, (1.0, 2.0))
    with pytest.raises(ValueError, match="at least one component"):
        SSM((), ssm.raw_observation_noise, ())
    with pytest.raises(ValueError, match="must be positive"):
        SSM(ssm.components, ssm.raw_observation_noise, (0.0,))
    component = ssm.components[0]
    assert isinstance(component, Component)
    assert isinstance(component.dynamics(), Dynamics)
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\)"):
        StableMean(jnp.zeros((1, 1)), jnp.zeros((1, 0)), jnp.zeros((1,)), 1.0)
