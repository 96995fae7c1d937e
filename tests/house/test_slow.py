"""Long checks: `make test-slow`. Real data is read from MRGPSSM_DATA (a folder with gengine2/ and splits.json)."""

import json
import subprocess
import sys

import pytest
from places import ENGINE, ROOT

from mrgpssm.paper.demo import run_demo

pytestmark = pytest.mark.slow
needs_data = pytest.mark.skipif(ENGINE is None, reason="set MRGPSSM_DATA to the engine data")

MEMORY = """
import resource, sys
import numpy as np
from mrgpssm import MRGPSSM, Sequence, Training

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

rng = np.random.default_rng(0)
small = dict(inducing=50, training=Training(cycles=1, steps=25, windows=20, samples=20))
def record(n):
    u = np.repeat(rng.uniform(-1, 1, (n // 20 + 1, 4)), 20, axis=0)[:n]
    y = np.convolve(np.tanh(u[:, 0]), np.exp(-np.arange(200) / 30) / 30)[:n, None]
    return Sequence(u, y + 0.01 * rng.standard_normal((n, 1)), dt=0.1)

model = MRGPSSM((30, 1), **small).fit([record(n) for n in [17836] * 13], progress=False)
fit = peak()
model.simulate(np.zeros((2000, 4)), samples=100)
before = peak()
inputs = np.zeros((1_000_000, 4), dtype=np.float32)
model.simulate(inputs, samples=100)
print(fit, peak() - before)
"""


def test_memory_of_a_fit_and_of_a_million_steps():
    """231,868 rows under 1.5 GB resident; a 10^6-step free run with 100 samples adds less than 200 MB."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    fit, growth = map(float, done.stdout.split())
    print(f"fit peak {fit:.0f} MB, free run growth {growth:.0f} MB")
    assert fit < 1500
    assert growth < 200


@pytest.mark.parametrize("seed", range(5))
def test_demo_on_five_data_seeds(seed):
    """At most half the error of the best single resolution, and both components recovered."""
    demo = run_demo("M1", seed, lambda contender: None, progress=False)
    assert demo.ratio <= 0.5
    assert min(demo.correlations.values()) > 0.9


@needs_data
def test_engine_first_split(tmp_path):
    """Temp and NOx of the default model, and single resolutions that cannot do both."""
    out = tmp_path / "record.json"
    names = ["MR-GPSSM R=[30,5,1]", "GPSSM R=1", "GPSSM R=30"]
    command = [sys.executable, str(ROOT / "benchmarks" / "engine_first_split.py"), str(ENGINE), "--out", str(out)]
    subprocess.run([*command, "--only", *names], check=True)
    ours, fast, slow = (json.loads(out.read_text())["models"][name]["scores"] for name in names)
    assert ours["NOx"]["rmse"] <= 0.16
    assert ours["Temp"]["rmse"] <= 0.13
    assert fast["Temp"]["rmse"] > 1.3 * ours["Temp"]["rmse"]
    assert slow["NOx"]["rmse"] > 2 * ours["NOx"]["rmse"]
