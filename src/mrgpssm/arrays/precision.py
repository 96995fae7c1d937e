"""Our rules for computing, in force only while we compute."""

from contextlib import contextmanager

import jax
import scipy.linalg  # noqa: F401  # loads the BLAS whose threads are limited below; JAX would load it later
from threadpoolctl import threadpool_limits


@contextmanager
def floating_point(precision: str):
    """64 bits on request, no TF32 in products, one BLAS thread; all is as before afterwards.

    The factors are small: more BLAS threads gain nothing there, and while they wait for work they take the processor
    from the rollout.
    """
    with (
        jax.enable_x64(precision == "float64"),
        jax.default_matmul_precision("highest"),
        threadpool_limits(1, user_api="blas"),
    ):
        yield
