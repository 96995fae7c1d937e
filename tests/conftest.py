"""Shapes are checked at run time, promotion is strict, and every test knows whether 64-bit floats are on.

Compiled programs are kept beside pytest's own cache: workers, passes and the processes that tests start compile each
program once. They are compiled without optimisation: most programs here are large and run for a moment.
"""

import os
import random
from pathlib import Path

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")

import jax
import pytest
from jaxtyping import install_import_hook

# The rooms that see arrays only. The public face checks its arguments itself, with messages for people.
ROOMS = ("arrays.linalg", "arrays.params", "gp", "model", "rollout", "elbo", "training", "prediction.run")
install_import_hook([f"mrgpssm.{room}" for room in ROOMS], "beartype.beartype")

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs():
    """Compiled programs go with the module that made them: a process can map only so many pages, and crashes beyond."""
    yield
    jax.clear_caches()


def pytest_addoption(parser):
    parser.addoption(
        "--shuffle", type=int, default=None, metavar="SEED", help="run modules, and their tests, in random order"
    )


def shuffled(items, seed):
    """Modules in random order, and the tests of each; those of one module stay together, for what they share."""
    rng, modules = random.Random(seed), {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    groups = list(modules.values())
    rng.shuffle(groups)
    for group in groups:
        rng.shuffle(group)
    return [item for group in groups for item in group]


def pytest_collection_modifyitems(config, items):
    if config.getoption("--shuffle") is not None:
        items[:] = shuffled(items, config.getoption("--shuffle"))
    wide = jax.config.read("jax_enable_x64")
    for item in items:
        if not wide and item.get_closest_marker("float64"):
            item.add_marker(pytest.mark.skip(reason="64-bit floats are off in this pass"))
        if wide and item.get_closest_marker("once") and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="sets its own precision; runs in the pass with float64 off"))


def pytest_report_header():
    return f"float64: {'on' if jax.config.read('jax_enable_x64') else 'off'}"
