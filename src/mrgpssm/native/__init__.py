"""Optional native kernels for rollouts and factors, built once from the sources here if there is a compiler.

The pure JAX path is their referee and works everywhere. `MRGPSSM_NATIVE=0` turns the kernels off.
"""

import functools
import logging
import os
import subprocess

import jax

from mrgpssm.native import cpu, gpu
from mrgpssm.native.build import NoCompilerError

_log = logging.getLogger("mrgpssm")


def platform() -> str:
    """Where JAX computes unless told otherwise: cpu, gpu or tpu."""
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return jax.default_backend() if chosen is None else getattr(chosen, "platform", chosen)


def ready() -> bool:
    """Whether a kernel can be used here; builds and loads it on first call."""
    return os.environ.get("MRGPSSM_NATIVE", "1") != "0" and _registered(platform())


@functools.cache
def _registered(where: str) -> bool:
    kernel = {"cpu": cpu, "gpu": gpu, "cuda": gpu}.get(where)
    if kernel is None:
        return False
    try:
        kernel.register()
    except NoCompilerError as missing:
        _log.info("%s", missing)
        return False
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        _log.warning("The native kernel cannot be used, JAX computes alone: %s", " ".join(str(error).split())[:300])
        return False
    return True
