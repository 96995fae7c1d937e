"""An optional native kernel for rollouts on CPUs, built once from the source beside this file if there is a compiler.

The pure JAX path is its referee and works everywhere. `MRGPSSM_NATIVE=0` turns the kernel off.
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax

from mrgpssm.cache import user_cache

SOURCE = Path(__file__).with_name("rollout.cc")
PASSES, TYPES = ("forward", "backward"), ("float32", "float64")
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-pthread", "-w")
# Not -ffast-math: a number that is not finite must come out as one.
_MATHS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
_log = logging.getLogger("mrgpssm")


@functools.cache
def ready() -> bool:
    """Whether the kernel can be used in this process; builds and loads it on first call."""
    if os.environ.get("MRGPSSM_NATIVE", "1") == "0" or jax.default_backend() != "cpu":
        return False
    try:
        library = ctypes.CDLL(str(built()))
        for direction in PASSES:
            for dtype in TYPES:
                handler = jax.ffi.pycapsule(getattr(library, target(direction, dtype)))
                jax.ffi.register_ffi_target(target(direction, dtype), handler, platform="cpu")
    except NoCompilerError as missing:
        _log.info("%s", missing)
        return False
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        _log.warning("The native kernel cannot be used, JAX computes alone: %s", " ".join(str(error).split())[:300])
        return False
    return True


class NoCompilerError(Exception):
    """There is no C++ compiler on this machine."""


def target(direction: str, dtype: str) -> str:
    """The name under which XLA knows a pass."""
    return f"mrgpssm_{direction}_{dtype}"


def built() -> Path:
    """The shared library for this source, compiler, JAX and processor, from the user's cache or freshly built."""
    compiler = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompilerError("No C++ compiler was found; JAX computes alone.")
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    facts = (SOURCE.read_text(), said, jax.__version__, platform.machine(), _processor(), *_FLAGS, *_MATHS)
    path = user_cache() / "native" / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}.so"
    if not path.exists():
        _build(compiler, path)
    return path


def _build(compiler: str, path: Path) -> None:
    """Compile beside the target, then rename: two processes may build at once, and neither sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / "rollout.so"
        command = [compiler, *_FLAGS, *_MATHS, f"-I{jax.ffi.include_dir()}", str(SOURCE), "-o", str(made)]
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        os.replace(made, path)


def _processor() -> str:
    """What -march=native depends on, so that a cache shared by machines stays apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
