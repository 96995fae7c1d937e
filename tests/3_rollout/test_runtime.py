"""The NumPy runtime: no JAX, the same numbers, the same refusals."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from places import EXPECTED, GOLDEN
from recordings import recording
from scipy.special import ndtri
from untrained import CASES, untrained

from mrgpssm import ConfigError, DataError, ModelFileError, runtime
from mrgpssm.arrays.linalg import base_jitter
from mrgpssm.model import PRESETS
from mrgpssm.prediction import run as simulate
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.prediction.forecast import LEVELS
from mrgpssm.runtime import arrays, walk
from mrgpssm.runtime import model as runtime_model
from mrgpssm.runtime.distributions import counters
from mrgpssm.runtime.distributions.normal import normal_quantile

pytestmark = pytest.mark.once

PROBE = """
import json, sys
import numpy as np
from mrgpssm.runtime import load
model = load(sys.argv[1])
inputs = np.array(json.loads(sys.stdin.read()))
run = model.simulate(inputs, samples=6, seed=3)
model.stepper(samples=4).update(inputs[0], [5.0, 5.0])
heavy = sorted({"jax", "jaxlib", "equinox", "scipy", "pandas", "optax", "sklearn"} & set(sys.modules))
print(json.dumps([heavy, run.mean.tolist(), run.std.tolist(), run.quantiles[0.05].tolist()]))
"""


def test_a_process_without_jax_gives_the_golden_numbers():
    path, inputs = GOLDEN, json.dumps(recording(2).inputs.tolist())
    done = subprocess.run([sys.executable, "-c", PROBE, path], input=inputs, capture_output=True, text=True, check=True)
    heavy, *values = json.loads(done.stdout)
    assert heavy == []
    expected = np.load(EXPECTED)
    for name, found in zip(("mean", "std", "q05"), values, strict=True):
        np.testing.assert_allclose(found, expected[name], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_samples_mean_bands_and_quantiles_are_those_of_the_jax_path(name):
    model = untrained(**CASES[name])
    plain = runtime.parse(model_bytes(model.fitted_), name)
    inputs, count = recording(2).inputs, 7
    ours = plain.simulate(inputs, samples=count, seed=3, keep_samples=True)
    theirs = model.simulate(inputs, samples=count, seed=3, keep_samples=True)
    assert ours.samples is not None
    assert theirs.samples is not None
    np.testing.assert_allclose(ours.samples, theirs.samples, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.std, theirs.std, rtol=0, atol=1e-5)
    for level in LEVELS:
        np.testing.assert_allclose(ours.quantiles[level], theirs.quantile(level), rtol=0, atol=1e-5)
    np.testing.assert_allclose(plain.simulate_mean(inputs), model.simulate_mean(inputs), rtol=0, atol=1e-5)


def test_noise_does_not_depend_on_how_a_run_is_cut(monkeypatch):
    model = runtime.load(GOLDEN)
    whole = model.simulate(recording(2).inputs, samples=4, keep_samples=True)
    monkeypatch.setattr(runtime_model, "_CHUNK", 1)  # chunks of 100 rows
    cut = model.simulate(recording(2).inputs, samples=4, keep_samples=True)
    np.testing.assert_array_equal(whole.samples, cut.samples)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_keys_and_normal_numbers_are_those_of_jax(precision):
    for seed in (0, 7, 2**31 + 5):
        with jax.enable_x64(precision == "float64"):
            theirs = jax.random.fold_in(jax.random.key(seed), 12)
            draws = np.asarray(jax.random.normal(theirs, (50, 40), precision))
            pair = np.asarray(jax.random.key_data(jax.random.split(theirs)))
        ours = counters.fold_in(counters.seed_key(seed, precision == "float64"), 12)
        assert [int(w) for w in ours] == np.asarray(jax.random.key_data(theirs)).tolist()
        np.testing.assert_array_equal(np.stack(counters.fold_in(ours, np.arange(2)), axis=1), pair)
        tight = 3e-6 if precision == "float32" else 1e-12
        np.testing.assert_allclose(counters.normal(ours, (50, 40), precision), draws, rtol=tight, atol=tight)


def test_normal_quantiles_agree_with_scipy_into_the_far_tail():
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 1001), 10.0 ** -np.arange(3, 16)])
    np.testing.assert_allclose(normal_quantile(2 * p - 1), ndtri((1 + (2 * p - 1)) / 2), rtol=1e-12, atol=1e-15)


def test_what_the_runtime_repeats_is_what_the_package_says():
    assert {name for name, p in PRESETS.items() if p.stable and p.whitened} == {"stable"}
    assert {k: base_jitter(np.dtype(k)) for k in arrays.JITTER} == arrays.JITTER  # pyright: ignore[reportArgumentType]
    assert (walk._START, walk._PROCESS) == (simulate._START, simulate._PROCESS)


def test_bad_use_gets_one_sentence():
    model = runtime.load(GOLDEN)
    with pytest.raises(DataError, match=r"shape \(T, 2\), one column each for speed, load; got \(3,\)"):
        model.simulate(np.zeros(3))
    with pytest.raises(DataError, match="not finite in row 1"):
        model.simulate_mean(np.array([[0.0, 0.0], [np.nan, 0.0]]))
    with pytest.raises(ConfigError, match="at least 2"):
        model.simulate(np.zeros((3, 2)), samples=1)
    with pytest.raises(ModelFileError, match="no such file"):
        runtime.load("none.mrgpssm")
