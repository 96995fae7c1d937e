"""Optional native kernels for rollouts and factors, built once from the sources here if there is a compiler.

The pure JAX path is the reference and works everywhere. `MRGPSSM_NATIVE=0` turns the kernels off.

The answers here are used while JAX traces, so they must be part of the key of a compiled program. The default device is
part of it: JAX traces again if it changes. The environment is not, so it is read once, at the first kernel; later
changes have no effect on this process.
"""

import functools
import logging
import os
import subprocess

import jax

from mrgpssm.arrays.compile import platform
from mrgpssm.native import cpu, gpu
from mrgpssm.native.build import NoCompilerError

_log = logging.getLogger("mrgpssm")


def ready() -> bool:
    """Whether a kernel can be used on the default device; builds and loads it on first call."""
    return usable(platform())


@functools.cache
def usable(where: str) -> bool:
    """Whether this process can use the kernels for cpu or gpu; the answer never changes within a process."""
    kernel = {"cpu": cpu, "gpu": gpu, "cuda": gpu}.get(where)
    if kernel is None or os.environ.get("MRGPSSM_NATIVE", "1") == "0" or not _present(where):
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


def _present(where: str) -> bool:
    """Whether there is such a device."""
    try:
        return bool(jax.devices(where))
    except RuntimeError:
        return False
