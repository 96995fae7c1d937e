"""The rollout kernel for CPUs: `rollout.cc` through XLA's foreign-function interface."""

import ctypes
from pathlib import Path

import jax

from mrgpssm.native.build import shared_library

SOURCE = Path(__file__).with_name("rollout.cc")
PASSES, TYPES = ("forward", "backward"), ("float32", "float64")


def register() -> None:
    """Build and load the kernel, and tell XLA about it."""
    library = ctypes.CDLL(str(shared_library(SOURCE)))
    for direction in PASSES:
        for dtype in TYPES:
            handler = jax.ffi.pycapsule(getattr(library, target(direction, dtype)))
            jax.ffi.register_ffi_target(target(direction, dtype), handler, platform="cpu")


def target(direction: str, dtype: str) -> str:
    """The name under which XLA knows a pass."""
    return f"mrgpssm_{direction}_{dtype}"
