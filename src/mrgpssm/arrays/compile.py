"""Compiling programs: one way for the whole package.

On a CPU the compiler takes a large part of a short fit, and what takes time there is in our own kernels. So XLA's own
loops are compiled with less effort: half the time to compile, and the same time to run (docs/performance.md). What the
user has set in `XLA_FLAGS` stays as it is.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

_QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def platform() -> str:
    """The platform of JAX's default device: cpu, gpu or tpu."""
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return jax.default_backend() if chosen is None else getattr(chosen, "platform", chosen)


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eqx.filter_jit`, with options for quick compilation on a CPU; not for functions that others trace."""
    plain = eqx.filter_jit(function)

    @functools.cache
    def quick() -> Callable[..., Any]:
        return eqx.filter_jit(function, compiler_options=_options())  # pyright: ignore[reportCallIssue]

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        program = quick() if platform() == "cpu" and _options() else plain
        return program(*arguments, **named)

    return run


@functools.cache
def _options() -> dict[str, Any]:
    """Those that this version of XLA knows and the user has not set."""
    flags = os.environ.get("XLA_FLAGS", "")
    wanted = {name: value for name, value in _QUICK.items() if name not in flags}
    return {name: value for name, value in wanted.items() if _knows({name: value})}


def _knows(options: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except Exception:  # XLA's own error, which has no public name
        return False
    return True
