"""The kernels for CPUs: `rollout.cc` and `factor.cc` through XLA's foreign-function interface."""

import ctypes
from pathlib import Path

import jax

from mrgpssm.native.build import shared_library

KERNELS = {"rollout.cc": ("forward", "backward"), "factor.cc": ("factor",)}
TYPES = ("float32", "float64")


def register() -> None:
    """Build and load the kernels, and register them with XLA."""
    for source, names in KERNELS.items():
        library = ctypes.CDLL(str(shared_library(Path(__file__).with_name(source))))
        for name in (target(name, dtype) for name in names for dtype in TYPES):
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")


def target(kernel: str, dtype: str) -> str:
    """The name of a kernel in XLA."""
    return f"mrgpssm_{kernel}_{dtype}"


def factor(matrix: jax.Array, bounds: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """L, L⁻¹ and the jitter between `bounds` that L needed."""
    square, number = jax.ShapeDtypeStruct(matrix.shape, matrix.dtype), jax.ShapeDtypeStruct((), matrix.dtype)
    name = target("factor", str(matrix.dtype))
    call = jax.ffi.ffi_call(name, (square, square, number), vmap_method="broadcast_all")
    return tuple(call(matrix, bounds))  # pyright: ignore[reportReturnType]
