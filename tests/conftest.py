"""Shapes are checked at run time, promotion is strict, and every test knows whether 64-bit floats are on."""

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("mrgpssm", "beartype.beartype")

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_collection_modifyitems(items):
    if jax.config.read("jax_enable_x64"):
        return
    for item in items:
        if item.get_closest_marker("float64"):
            item.add_marker(pytest.mark.skip(reason="64-bit floats are off in this pass"))


def pytest_report_header():
    return f"float64: {'on' if jax.config.read('jax_enable_x64') else 'off'}"
