"""Optional native kernels for rollouts and factors, built once from the sources here if there is a compiler.

The pure JAX path is their referee and works everywhere. `MRGPSSM_NATIVE=0` turns the kernels off.

What is asked here while JAX traces must be part of the compiled program's key. The default device is: JAX traces anew
where it changes. The environment is not, so it is read once, when the first kernel is asked for; a later change means
nothing to this process.
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
    """Whether a kernel can be used on the default device; builds and loads it on first call."""
    return usable(platform())


@functools.cache
def usable(where: str) -> bool:
    """Whether this process can use the kernels for cpu or gpu: the same answer as long as it lives."""
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
