"""The package as a guest: quick to import, no side effects, presets as documented."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mrgpssm
from mrgpssm.arrays.params import lower_triangular
from mrgpssm.model import PAPER, PRESETS, STABLE, IdentityEmission, init_ssm

PROBE = """
import json, sys
import mrgpssm
loaded = "jax" in sys.modules
import jax
before = dict(jax.config.values)
import mrgpssm.elbo, mrgpssm.model, mrgpssm.rollout
after = dict(jax.config.values)
from jax._src import xla_bridge
print(json.dumps([loaded, before == after, xla_bridge.backends_are_initialized()]))
"""


def test_importing_changes_nothing_and_touches_no_device():
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    loaded, unchanged, initialised = json.loads(done.stdout)
    assert not loaded
    assert unchanged
    assert not initialised


WITHOUT = """
import importlib, json, pkgutil, sys
for module in pkgutil.walk_packages([sys.argv[1]], sys.argv[2] + "."):
    if module.name != "mrgpssm.report.gather":
        importlib.import_module(module.name)
print(json.dumps(sorted({"jax", "jaxlib", "jaxtyping", "equinox", "optax"} & set(sys.modules))))
"""


@pytest.mark.parametrize("room", ["data", "report", "runtime"])
def test_the_rooms_of_arrays_load_no_jax(room):
    """Of the report, `gather` alone asks `prediction` for runs of the model; pages and charts see NumPy arrays."""
    top = Path(mrgpssm.__file__).parent / room
    done = subprocess.run([sys.executable, "-c", WITHOUT, top, f"mrgpssm.{room}"], capture_output=True, check=True)
    assert json.loads(done.stdout) == []
    found = re.compile(r"^\s*(?:from|import) (?:jax|equinox|optax)", re.MULTILINE)
    assert [path.name for path in top.rglob("*.py") if found.search(path.read_text(encoding="utf-8"))] == []


def test_importing_takes_under_two_seconds_of_cpu():
    code = "import resource, mrgpssm; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2.0


def test_presets_start_where_they_say():
    """The paper's table (supplement E.1) and our stable values, read back from the model."""
    dtype = jnp.zeros(()).dtype
    for name, sd, q_sd, observation in (("paper", 0.5, 0.01, 1.0), ("stable", 0.1, 0.1, 0.3)):
        ssm = init_ssm(
            PRESETS[name], (30, 1), latent_dim=2, input_dim=4, output_dim=1, inducing=50,
            key=jax.random.key(0), dtype=dtype,
        )  # fmt: skip
        gp = ssm.components[0].transition.gp
        assert float(gp.kernel.amplitude) == pytest.approx(sd, rel=1e-4)
        np.testing.assert_allclose(gp.kernel.lengthscales, 2.0, rtol=1e-4)
        assert float(jnp.max(jnp.abs(gp.inducing))) <= 2.0
        assert float(jnp.std(gp.posterior.mean)) == pytest.approx(0.05, rel=0.3)
        factor = lower_triangular(gp.posterior.raw_factor)
        np.testing.assert_allclose(jnp.diagonal(factor[0]), q_sd, rtol=1e-3)
        np.testing.assert_allclose(ssm.observation_variance(), observation**2, rtol=1e-3)
        dynamics = ssm.components[0].dynamics()
        np.testing.assert_allclose(dynamics.Q, 0.002**2, rtol=1e-2)
        decay = 0.0 if name == "paper" else -0.1
        np.testing.assert_allclose(dynamics.A, decay * np.eye(2), atol=1e-5)
    different = ssm.components[0].transition.gp.inducing - ssm.components[1].transition.gp.inducing
    assert float(jnp.min(jnp.abs(different))) > 0
    assert STABLE.stable
    assert not PAPER.stable


def test_more_outputs_than_latent_dimensions_are_refused():
    with pytest.raises(ValueError, match="at least as many latent dimensions"):
        IdentityEmission(3)(jnp.zeros((2,)))
