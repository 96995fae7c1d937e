"""Programs that compile quickly: the same numbers, and the user's own flags first."""

import jax.numpy as jnp
import numpy as np
import pytest

from mrgpssm.arrays import compile as compiling
from mrgpssm.arrays.compile import platform, quick_jit

OPTIONS = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


@pytest.fixture
def fresh(monkeypatch):
    """The options as a new process would find them, with other flags."""
    compiling._options.cache_clear()
    yield lambda flags: monkeypatch.setenv("XLA_FLAGS", flags)
    compiling._options.cache_clear()


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ("", {*OPTIONS}),
        ("--xla_force_host_platform_device_count=2", {*OPTIONS}),
        ("--xla_backend_optimization_level=3", {"xla_cpu_use_fusion_emitters"}),
        ("--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=true", set()),
    ],
)
def test_what_the_user_has_set_stays(fresh, flags, left):
    fresh(flags)
    assert set(compiling._options()) == left


def test_an_option_that_xla_does_not_know_is_left_out(fresh, monkeypatch):
    fresh("")
    monkeypatch.setattr(compiling, "_QUICK", OPTIONS | {"xla_no_such_option": 1})
    assert compiling._options() == OPTIONS


def test_a_program_computes_what_its_function_does(fresh):
    """Arrays are traced, other arguments are not; names and positions both work."""
    fresh("")

    @quick_jit
    def power(x, exponent: int, *, shift: float):
        """x^n + c."""
        assert isinstance(exponent, int)
        return x**exponent + shift

    x = np.linspace(0, 1, 7, dtype=np.float32)
    np.testing.assert_allclose(power(jnp.asarray(x), 3, shift=0.5), x**3 + np.float32(0.5), rtol=1e-6)
    assert (power.__name__, power.__doc__, platform()) == ("power", "x^n + c.", "cpu")
