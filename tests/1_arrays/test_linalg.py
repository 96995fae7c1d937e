"""The factors of a correlation matrix and their hand-written reverse pass, against the library's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mrgpssm import native
from mrgpssm.arrays.linalg import factors, jittered_cholesky, solve_lower
from mrgpssm.rollout import fastest


def matrix(size: int, seed: int = 0):
    points = 5 * np.random.default_rng([seed, size]).standard_normal((size, 2))
    return jnp.asarray(np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(-1)))


@pytest.mark.float64
@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_values_and_gradients_are_those_of_cholesky_and_solve(size):
    rng = np.random.default_rng(size)
    a, b = (jnp.asarray(rng.standard_normal((size, size))) for _ in range(2))

    def ours(K):
        root, inverse, _ = factors(K)
        return jnp.sum(a * root) + jnp.sum(b * inverse)

    def theirs(K):
        root, _ = jittered_cholesky(K)
        return jnp.sum(a * root) + jnp.sum(b * solve_lower(root, jnp.eye(size)))

    (one, dK), (other, expected) = (jax.value_and_grad(f)(matrix(size)) for f in (ours, theirs))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(
        dK, (expected + expected.T) / 2, rtol=1e-9, atol=1e-9 * float(jnp.max(jnp.abs(expected)))
    )


def test_the_factors_are_factors():
    K = matrix(20).astype(jnp.float32)
    root, inverse, jitter = factors(K)
    np.testing.assert_allclose(root @ root.T, K + jitter * np.eye(20, dtype=np.float32), atol=2e-6)
    np.testing.assert_allclose(inverse @ root, np.eye(20), atol=2e-5)
    assert np.all(np.triu(np.asarray(inverse), 1) == 0)


@pytest.mark.float64
def test_without_the_kernel_the_factors_are_the_same(monkeypatch):
    with_kernel = factors(matrix(30))
    monkeypatch.setattr("mrgpssm.native.usable", lambda where: False)
    for a, b in zip(with_kernel, factors(matrix(30)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_jitter_grows_until_a_factor_exists_and_a_hopeless_matrix_is_nan(monkeypatch):
    indefinite = jnp.asarray([[1.0, 1.0 + 3e-4], [1.0 + 3e-4, 1.0]])
    hopeless = jnp.asarray([[1.0, jnp.nan], [jnp.nan, 1.0]])
    for _ in range(2):
        made = jax.vmap(factors)(jnp.stack([indefinite, hopeless]))
        assert float(made.jitter[0]) == pytest.approx(1e-3)
        np.testing.assert_allclose(made.root[0] @ made.inverse[0], np.eye(2), atol=1e-4)
        assert np.isnan(np.asarray(made.root[1])).all() or np.isnan(np.asarray(made.inverse[1])).any()
        monkeypatch.setattr("mrgpssm.native.usable", lambda where: False)


@pytest.mark.once
def test_the_kernel_is_chosen_for_the_platform_that_a_program_is_compiled_for():
    """Not for the default device, and not baked into what is traced."""
    traced = jax.jit(lambda K: factors(K)).trace(matrix(5))
    texts = {where: traced.lower(lowering_platforms=(where,)).as_text() for where in ("cpu", "tpu")}
    assert "mrgpssm" not in texts["tpu"]
    assert ("mrgpssm_factor" in texts["cpu"]) == native.usable("cpu")


@pytest.mark.once
def test_a_change_of_the_environment_changes_no_program(monkeypatch):
    """It is no part of a compiled program's key: programs traced before and after it must be the same."""
    before = native.ready(), str(jax.make_jaxpr(factors)(matrix(5))), fastest()
    monkeypatch.setenv("MRGPSSM_NATIVE", "0" if before[0] else "1")
    assert (native.ready(), str(jax.make_jaxpr(factors)(matrix(5))), fastest()) == before


@pytest.mark.once
def test_another_default_device_traces_anew():
    """`native.platform` may be asked in a trace: the default device is part of the key."""
    asked = []

    @jax.jit
    def program(x):
        asked.append(native.platform())
        return x

    program(jnp.ones(()))
    with jax.default_device(jax.devices("cpu")[0]):
        program(jnp.ones(()))
        program(jnp.ones(()))
    assert asked == [native.platform(), "cpu"]


@pytest.mark.parametrize("size", [1, 3, 8, 9])
def test_small_systems_are_solved_as_large_ones_are(size):
    rng = np.random.default_rng(size)
    factor = np.tril(rng.standard_normal((size, size))) + 3 * np.eye(size)
    rhs = rng.standard_normal((size, 4))
    ours = solve_lower(jnp.asarray(factor), jnp.asarray(rhs))
    np.testing.assert_allclose(ours, np.linalg.solve(factor, rhs), rtol=1e-4, atol=1e-5)
