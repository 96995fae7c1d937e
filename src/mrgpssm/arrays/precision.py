"""Numerical settings that hold only while this package computes."""

from contextlib import contextmanager

import jax
import scipy.linalg  # noqa: F401  # loads the BLAS whose threads are limited below; JAX would load it later
from threadpoolctl import threadpool_limits


@contextmanager
def floating_point(precision: str):
    """Use 64 bits on request, no TF32 in products, and one BLAS thread; the settings are restored afterwards.

    The factors are small: more BLAS threads gain nothing, and while they wait they take processor time from the
    rollout.
    """
    with (
        jax.enable_x64(precision == "float64"),
        jax.default_matmul_precision("highest"),
        threadpool_limits(1, user_api="blas"),
    ):
        yield
