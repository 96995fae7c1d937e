"""Every formula against the NumPy oracle, on 200 random configurations (50 of each of four families)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from configurations import FAMILIES, as_oracle, noise_as_oracle, random_noise, random_ssm, random_windows

from mrgpssm.elbo import elbo
from mrgpssm.model import SSM
from mrgpssm.rollout import FullMC

PER_FAMILY = 50
PRECISIONS = [
    pytest.param((jnp.float64, 1e-10), marks=pytest.mark.float64, id="float64"),
    pytest.param((jnp.float32, 1e-4), marks=pytest.mark.once, id="float32"),
]


def close(ours, reference, tolerance):
    """Relative to the size of the quantity, absolute below size one."""
    reference = np.asarray(reference)
    scale = max(1.0, float(np.max(np.abs(reference))))
    np.testing.assert_allclose(np.asarray(ours, float), reference, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.kernel.__name__}-{f.d}")
def test_kernel_conditional_kl_and_step(family, precision):
    dtype, tolerance = precision

    @eqx.filter_jit
    def ours(ssm: SSM, z, h, v):
        component = ssm.components[0]
        assert component.transition is not None
        kernel, inducing = component.transition.gp.kernel, component.transition.gp.inducing
        dynamics = component.dynamics()
        features = dynamics.gp.features(z)
        x, u = z[: family.d], z[family.d :]
        return {
            "pair": kernel.pair(z, inducing[0, 0]),
            "matrix": kernel.matrix(inducing[0], inducing[-1]),
            "mean": jnp.sum(features.weights * v, axis=-1),
            "variance": features.variance,
            "predict": dynamics.gp.predict(z),
            "kl": dynamics.gp.kl(),
            "kl_0": component.initial.kl(),
            "step": dynamics.transition(x, dynamics.forcing(u), h, v),
            "jitter": dynamics.gp.jitter,
        }

    for seed in range(PER_FAMILY):
        rng = np.random.default_rng([seed, family.m])
        ssm = random_ssm(rng, family, dtype)
        z = jnp.asarray(rng.uniform(-2, 2, family.d + family.u), dtype)
        v = jnp.asarray(rng.standard_normal((family.d, family.m)), dtype)
        h = jnp.asarray(rng.uniform(0.05, 1), dtype)
        got = ours(ssm, z, h, v)

        c = as_oracle(ssm.components[0], dtype)
        zs, vs, hs = np.asarray(z, float), np.asarray(v, float), float(h)
        roots = [np.linalg.cholesky(oracle.k_mm(c, d)) for d in range(family.d)]
        f_M = [roots[d] @ vs[d] for d in range(family.d)]
        f = [oracle.conditional(c, d, zs, f_M[d]) for d in range(family.d)]
        close(got["pair"], oracle.gram(c, [zs], c["inducing"][0])[0, 0], tolerance)
        close(got["matrix"], oracle.gram(c, c["inducing"][0], c["inducing"][-1]), tolerance)
        close(got["mean"], [mean for mean, _ in f], tolerance)
        close(got["variance"], [variance for _, variance in f], tolerance)
        close(got["kl"], oracle.kl_inducing(c), tolerance)
        S_0, Q_0 = c["S_0_factor"] @ c["S_0_factor"].T, c["Q_0_factor"] @ c["Q_0_factor"].T
        close(got["kl_0"], oracle.kl(c["m_0"], S_0, c["mu_0"], Q_0), tolerance)
        close(got["step"], oracle.step(c, zs[: family.d], zs[family.d :], hs, f_M), tolerance)
        close(got["jitter"], np.full(family.d, c["jitter"]), 1e-12)
        for d in range(family.d):
            m_M, S_M = oracle.unwhiten(c, d)
            gain = oracle.gram(c, [zs], c["inducing"][d])[0] @ np.linalg.inv(oracle.k_mm(c, d))
            close(got["predict"][0][d], gain @ m_M, tolerance)
            close(got["predict"][1][d], f[d][1] + gain @ S_M @ gain, tolerance)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.kernel.__name__}-{f.d}")
def test_bound_with_given_noise(family, precision):
    dtype, tolerance = precision
    buffer, total = 1, 123.0

    @eqx.filter_jit
    def ours(ssm, windows, noise):
        return elbo(ssm, windows, noise, FullMC(), buffer=buffer, total=total, sequences=3)

    for seed in range(PER_FAMILY):
        rng = np.random.default_rng([seed, family.m, 1])
        ssm = random_ssm(rng, family, dtype)
        windows = random_windows(rng, family, dtype=dtype)
        noise = random_noise(rng, family, dtype=dtype)
        terms = ours(ssm, windows, noise)
        arrays = tuple(np.asarray(x, float) for x in (windows.inputs, windows.outputs, windows.strides))
        likelihood, kl_0, kl_M = oracle.bound(
            [as_oracle(c, dtype) for c in ssm.components],
            family.units,
            oracle.softplus(ssm.raw_observation_noise) ** 2,
            arrays,
            noise_as_oracle(noise),
            buffer,
            total,
        )
        close(terms.likelihood, likelihood, tolerance)
        close(terms.kl_initial, 3 * kl_0, tolerance)
        close(terms.kl_inducing, kl_M, tolerance)
        close(terms.bound, likelihood - 3 * kl_0 - kl_M, tolerance)


def test_dtype_stays_what_it_was():
    rng = np.random.default_rng(0)
    family = FAMILIES[1]
    ssm = random_ssm(rng, family, jnp.float32)
    windows, noise = (
        random_windows(rng, family, dtype=jnp.float32),
        random_noise(rng, family, dtype=jnp.float32),
    )
    terms = elbo(ssm, windows, noise, FullMC(), buffer=0, total=1.0, sequences=1)
    assert {x.dtype for x in jax.tree.leaves(terms)} == {jnp.dtype(jnp.float32)}
