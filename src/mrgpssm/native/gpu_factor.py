"""Cholesky factors and their inverses by `factor.cu`."""

import jax
import numpy as np

from mrgpssm.native import gpu

MOST = 96
_THREADS = 128


def usable(size: int, dtype: str) -> bool:
    """Whether matrices of this size can be factored here."""
    return size <= MOST and gpu.usable(*_kernels(size, dtype))


def factor(matrix: jax.Array, bounds: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """L, L⁻¹ and the jitter between `bounds` that L needed, for one matrix or, under vmap, for all in one launch."""
    size, dtype = matrix.shape[-1], matrix.dtype
    square, number = jax.ShapeDtypeStruct((size, size), dtype), jax.ShapeDtypeStruct((), dtype)
    source, defines, sizes = _kernels(size, str(dtype))
    path = gpu.load_kernels(source, defines, sizes)
    launch = gpu.launch(path, "factor", blocks=1, threads=_THREADS, size=sizes[0][1], rank=2, numbers=())
    call = jax.ffi.ffi_call(gpu.TARGET, (square, square, number), vmap_method="broadcast_all")
    return tuple(call(matrix, bounds, **launch))  # pyright: ignore[reportReturnType]


def _kernels(size: int, dtype: str) -> tuple[str, tuple[str, ...], tuple[tuple[str, int], ...]]:
    real = {"float32": "float", "float64": "double"}[dtype]
    shared = 2 * size * (size + 1) * np.dtype(dtype).itemsize
    return "factor.cu", (f"REAL={real}", f"M={size}"), (("factor", shared),)
