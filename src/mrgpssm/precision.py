"""Our floating-point rules, in force only while we compute."""

from contextlib import contextmanager

import jax


@contextmanager
def floating_point(precision: str):
    """64 bits on request, no TF32 in products; JAX's global configuration is as before afterwards."""
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield
