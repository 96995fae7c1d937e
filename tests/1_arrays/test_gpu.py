"""The GPU kernels against their referees, on numbers drawn afresh at every run, with results that start as NaN.

`test_native.py` runs on a GPU too; here is what only a GPU has: blocks that are not full, samples that do not fit
one block, the kernel for few particles, and the factors.
"""

import os
import secrets

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_native import agree, problem, relative

from mrgpssm import native
from mrgpssm.arrays.linalg import factors, jittered_cholesky, solve_lower
from mrgpssm.native import gpu_rollout
from mrgpssm.rollout import FullMC, draw_states

pytestmark = [
    pytest.mark.float64,
    pytest.mark.skipif(native.platform() != "gpu" or not native.ready(), reason="no GPU here, or no kernel for it"),
]
# windows, steps, samples, latent dimensions, inducing points, inputs
SIZES = [
    (20, 60, 20, 2, 50, 4),  # the paper's
    (7, 9, 100, 2, 50, 3),  # blocks that are not full
    (5, 10, 20, 6, 50, 4),  # more sums than threads
    (4, 5, 130, 4, 30, 2),  # samples in portions
    (3, 6, 7, 1, 96, 1),
]
_DRAWS = 200


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """`launch.cc` reads this once, so it must be set before the first launch of the process."""
    monkeypatch.setitem(os.environ, "MRGPSSM_POISON", "1")


@pytest.fixture
def seed():
    return secrets.randbelow(2**31)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_gradients_are_the_scans(sizes, seed):
    """200 draws of the numbers, one after the other from a fresh seed; the tolerance is measured on each of them."""
    for number in range(_DRAWS):
        agree(sizes, seed + number)


@pytest.mark.parametrize("sizes", SIZES[:3], ids=str)
def test_few_particles_take_the_same_path_as_many(sizes, seed, monkeypatch):
    dynamics, starts, inputs, steps, noise, _ = problem(sizes, seed=seed)

    def run(few):
        monkeypatch.setattr(gpu_rollout, "_FEW", few)
        return jax.jit(lambda x: draw_states(FullMC(True), dynamics, x, inputs, steps, noise))(starts)

    many, few = run(-(10**9)), run(10**9)
    assert relative(few, many) < 1e-10, f"seed {seed}"


@pytest.mark.parametrize("size", [1, 7, 50, 96])
def test_factors_and_their_gradients_are_the_cholesky_routines(size, seed):
    rng = np.random.default_rng(seed)
    points = 5 * rng.standard_normal((3, size, 2))  # far apart: the error is that of the arithmetic, not of the matrix
    matrices = jnp.asarray(np.exp(-0.5 * ((points[:, :, None] - points[:, None]) ** 2).sum(-1)))
    weights = [jnp.asarray(np.tril(rng.standard_normal((3, size, size)))) for _ in range(2)]

    def ours(matrix, a, b):
        root, inverse, _ = factors(matrix)
        return jnp.sum(a * root) + jnp.sum(b * inverse)

    def theirs(matrix, a, b):
        root, _ = jittered_cholesky(matrix)
        return jnp.sum(a * root) + jnp.sum(b * solve_lower(root, jnp.eye(size)))

    one, other = (jax.vmap(jax.value_and_grad(f))(matrices, *weights) for f in (ours, theirs))
    for a, b in zip(one, other, strict=True):
        assert relative(a, b) < 1e-9, f"seed {seed}"


def test_the_jitter_grows_until_a_factor_exists_and_a_hopeless_matrix_is_nan():
    indefinite = jnp.asarray([[1.0, 1.0 + 3e-6], [1.0 + 3e-6, 1.0]])
    hopeless = jnp.asarray([[1.0, jnp.nan], [jnp.nan, 1.0]])
    made = jax.vmap(factors)(jnp.stack([indefinite, hopeless]))
    assert float(made.jitter[0]) == pytest.approx(1e-5)
    np.testing.assert_allclose(made.root[0] @ made.inverse[0], np.eye(2), atol=1e-9)
    assert np.isnan(np.asarray(made.root[1])).all()
