"""The native kernel against its referee, the scan over single trajectories: values, gradients, fleets, bad numbers."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mrgpssm import native
from mrgpssm.gp import Matern32
from mrgpssm.model import STABLE, init_ssm
from mrgpssm.rollout import FullMC, Noise, draw_states

pytestmark = [
    pytest.mark.float64,  # both precisions are tried in the pass that has both
    pytest.mark.skipif(not native.ready(), reason="no native kernel here: no C++ compiler, or turned off"),
]
_NUDGES = 8
# windows, steps, samples, latent dimensions, inducing points, inputs: odd ones, one lane, several groups of lanes
SIZES = [(1, 1, 1, 1, 1, 1), (3, 7, 5, 2, 5, 1), (2, 4, 50, 4, 21, 1), (5, 12, 33, 2, 50, 4)]


def problem(sizes, dtype="float64", seed=0, kernel=None):
    """Dynamics with everything away from its starting value, and random windows."""
    n, t, s, d, m, u = sizes
    rng = np.random.default_rng([seed, *sizes])
    more = {} if kernel is None else {"kernel": kernel}
    key, real = jax.random.key(seed), jnp.dtype(dtype)
    ssm = init_ssm(STABLE, (1,), latent_dim=d, input_dim=u, output_dim=1, inducing=m, key=key, dtype=real, **more)
    moved = jax.tree.map(lambda x: x + jnp.asarray(0.1 * rng.standard_normal(x.shape), real), ssm)

    def draw(*shape):
        return jnp.asarray(rng.standard_normal(shape), real)

    steps = jnp.asarray(rng.uniform(0.2, 1.0, (n, t)), real)
    noise = Noise(draw(n, s, d), draw(n, s, d, m), draw(n, s, t, d))
    return moved.components[0].dynamics(), draw(n, s, d), draw(n, t, u), steps, noise, draw(n, s, t, d)


@eqx.filter_jit
def pulled(scheme, dynamics, starts, inputs, steps, noise, weights):
    """States, and gradients of a random linear function of them with respect to everything.

    The whitener has no upper triangle; what a scan over dense matrices says of it is dropped.
    """

    def loss(everything):
        dynamics, starts, inputs, steps, noise = everything
        states = draw_states(scheme, dynamics, starts, inputs, steps, noise)
        return jnp.sum(weights * states), states

    pull, states = eqx.filter_grad(loss, has_aux=True)((dynamics, starts, inputs, steps, noise))
    return states, eqx.tree_at(lambda g: g[0].gp.whitener, pull, jnp.tril(pull[0].gp.whitener))


def nudged(given, seed):
    """Copies of the same with every number moved up or down by its last bit, on a leading axis."""
    rng = np.random.default_rng([seed, 1])

    def move(x):
        if not eqx.is_inexact_array(x):
            return x
        x = np.asarray(x)
        signs = rng.choice([-np.inf, np.inf], (_NUDGES, *x.shape)).astype(x.dtype)
        return jnp.asarray(np.nextafter(x, signs))

    return jax.tree.map(move, given)


@eqx.filter_jit
def pulled_each(given):
    return eqx.filter_vmap(lambda one: pulled(FullMC(False), *one))(given)


def agree(sizes, seed):
    """Kernel and scan, values and gradients, as near to each other as the scan is to itself on nudged numbers.

    That distance is how far rounding can carry the scan. A gradient may be a single number, which one nudge can leave
    in place by chance, so that there are several. Over 200 seeds of every size on an H200 the kernel was at most 3 times
    as far from the scan. Two runs of the kernel agree bit for bit.
    """
    given = problem(sizes, seed=seed)
    ours, again = (pulled(FullMC(True), *given) for _ in range(2))
    theirs, near = pulled(FullMC(False), *given), jax.tree.leaves(pulled_each(nudged(given, seed)))
    paths = jax.tree_util.tree_leaves_with_path(theirs)
    count, largest = 0, 0.0
    for (path, b), a, c, others in zip(paths, jax.tree.leaves(ours), jax.tree.leaves(again), near, strict=True):
        where = f"sizes {sizes}, seed {seed}, {jax.tree_util.keystr(path)}"
        assert np.isfinite(np.asarray(a)).all(), f"{where}: something was not written"
        np.testing.assert_array_equal(a, c, err_msg=f"{where}: two runs differ")
        if float(jnp.max(jnp.abs(b))) > 0:
            own, off, count = max(relative(other, b) for other in others), relative(a, b), count + 1
            assert off <= 10 * own + 1e-14, f"{where}: {off:.1e} off, where rounding is {own:.1e}"
            largest = max(largest, (off - 1e-14) / max(own, 1e-30))
    assert count >= 14, "the states, and all but what the referee itself has no gradient for"
    return largest


def relative(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    return np.max(np.abs(a - b)) / (np.max(np.abs(b)) + 1e-30)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_gradients_are_the_referees(sizes):
    for seed in range(3):
        agree(sizes, seed)


@pytest.mark.parametrize("sizes", SIZES[2:], ids=str)
def test_float32_is_as_near_to_the_truth_as_the_referee_is(sizes):
    """The truth is the scan in float64 on the same numbers: within 1e-5 of it, or twice as far as rounding takes the scan.

    That is how far the scan in float32 is from it on nudged numbers, as in `agree`.
    """
    given = problem(sizes, "float32")
    wide = jax.tree.map(lambda x: x.astype(jnp.float64) if eqx.is_inexact_array(x) else x, given)
    truth = jax.tree.leaves(pulled(FullMC(), *wide))
    ours, near = jax.tree.leaves(pulled(FullMC(True), *given)), jax.tree.leaves(pulled_each(nudged(given, 0)))
    for a, others, c in zip(ours, near, truth, strict=True):
        if float(jnp.max(jnp.abs(c))) > 0:
            assert relative(a, c) < max(1e-5, 2 * max(relative(other, c) for other in others))


def test_a_fleet_gives_each_member_what_it_gets_alone_and_runs_repeat_bit_for_bit():
    members = [problem(SIZES[1], seed=seed) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *members)
    fleet = eqx.filter_vmap(lambda given: pulled(FullMC(True), *given))
    together, again = fleet(stacked), fleet(stacked)
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    for index, given in enumerate(members):
        alone = pulled(FullMC(True), *given)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[index], b, rtol=1e-9, atol=1e-12)


def test_a_number_that_is_not_finite_comes_out_as_one():
    dynamics, starts, *rest = problem(SIZES[1])
    bad = starts.at[1, 2, 0].set(jnp.nan)
    states, gradients = pulled(FullMC(True), dynamics, bad, *rest)
    assert np.isnan(np.asarray(states)[1, 2]).all()
    assert np.isfinite(np.asarray(states)[0]).all()
    assert np.isnan(np.asarray(gradients[0].gp.inducing)).any()


def test_far_points_have_no_correlation_and_no_gradient():
    """exp(-r²/2) underflows to zero; the mean then is the linear part alone."""
    dynamics, *rest = problem(SIZES[1])
    far = eqx.tree_at(lambda d: d.gp.inducing, dynamics, 1e4 + dynamics.gp.inducing)
    (ours, g), (theirs, _) = (pulled(FullMC(kind), far, *rest) for kind in (True, False))
    assert relative(ours, theirs) < 1e-10
    assert float(jnp.max(jnp.abs(g[0].gp.inducing))) == 0.0


def test_other_covariances_take_the_scan():
    given = problem(SIZES[1], kernel=Matern32)
    a, b = (pulled(FullMC(native), *given)[0] for native in (True, False))
    np.testing.assert_array_equal(a, b)


def test_it_can_be_turned_off():
    code = "from mrgpssm import native; print(native.ready())"
    off = os.environ | {"MRGPSSM_NATIVE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=off, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_a_compiler_or_with_a_broken_one_jax_computes_alone(tmp_path):
    code = "from mrgpssm import native; print(native.ready())"
    nowhere = os.environ | {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=nowhere, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert done.stderr == ""
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\n[ $1 = --version ] && exit 0\necho broken >&2\nexit 1\n")
    fake.chmod(0o755)
    broken = os.environ | {"PATH": f"{tmp_path}:/bin:/usr/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=broken, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert "native kernel cannot be used" in done.stderr
