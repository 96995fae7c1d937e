"""A fleet over several devices gives every member what it gets on one; a CPU can pretend to be many."""

import json
import os
import subprocess
import sys

import jax
import pytest

from mrgpssm.training.devices import fleet_mesh

pytestmark = pytest.mark.once

PROBE = """
import json, sys
sys.path.insert(0, "tests")
import jax, numpy as np
from recordings import recording
from mrgpssm import MRGPSSM, Bands, Training
from mrgpssm.training import devices
meshes = []
made = devices.fleet_mesh
import mrgpssm.training.backfit as backfit
backfit.fleet_mesh = lambda members: meshes.append(made(members)) or meshes[-1]
training = Training(samples=2, windows=3, window=6, buffer=1, cycles=2, steps=4, restarts=3)
small = dict(inducing=4, precision="float64", training=training, bands=Bands(folds=0))
def bounds():
    return MRGPSSM((2,), **small).fit(recording(0), progress=False).bounds_.tolist()
shared = bounds()
with jax.default_device(jax.devices()[0]):
    alone = bounds()
print(json.dumps([shared, alone, [0 if m is None else m.devices.size for m in meshes]]))
"""


SWEEP = """
import json, sys
sys.path.insert(0, "tests")
import jax, numpy as np
from recordings import recording
from mrgpssm import MRGPSSM, Bands, Training
from mrgpssm.training.planning import make_plan
from mrgpssm.arrays.precision import floating_point
from mrgpssm.training import begin, devices
from mrgpssm.training.sweep import sweep
model = MRGPSSM((2,), inducing=4, precision="float64", training=Training(samples=2, restarts=3), bands=Bands(folds=0))
options, training, scaling = model.check(recording(0))
with floating_point("float64"):
    plan, ssm = make_plan(options, training, scaling)
    state, mesh = begin(plan, ssm).state, devices.fleet_mesh(6)
    walk = dict(samples=2, chunk=40, longest=160, keys=plan.tasks.key)
    caches = [sweep(ssm.components[0], 2, devices.on_all(plan.series, m), plan.tasks, state.caches[0], mesh=m, **walk)
              for m in (None, mesh)]
shards = [len(c.outputs.sharding.device_set) for c in caches]
gap = max(float(np.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, caches)))
print(json.dumps([mesh.devices.size, shards, gap, float(np.abs(caches[0].outputs).max())]))
"""


def ran(code: str):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_three_of_four_devices_simulate_six_members_with_the_native_kernel():
    used, shards, gap, size = ran(SWEEP)
    assert used == 3  # two members each
    assert shards == [1, 3]
    assert gap < 1e-12 * size


@pytest.mark.slow
def test_three_devices_train_six_members():
    shared, alone, used = ran(PROBE)
    # For steps and bounds: six members on four devices, three take two each. A chosen default device is respected.
    assert used == [3, 3, 0, 0]
    for ours, theirs in zip(shared, alone, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)


def test_one_device_needs_no_mesh():
    if len(jax.local_devices()) == 1:
        assert fleet_mesh(12) is None
    assert fleet_mesh(1) is None
