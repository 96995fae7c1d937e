"""Build the native sources once, into the user's cache."""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax

from mrgpssm.arrays.cache import user_cache

_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-pthread", "-w")
# Not -ffast-math: a number that is not finite must come out as one.
_MATHS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")


class NoCompilerError(Exception):
    """The compiler that a kernel needs is not installed."""


def shared_library(source: Path) -> Path:
    """The shared library for this source, compiler, JAX and processor, from the user's cache or freshly built."""
    compiler = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompilerError("No C++ compiler was found; JAX computes alone.")
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    facts = (source.read_text(), said, jax.__version__, platform.machine(), _processor(), *_FLAGS, *_MATHS)

    def compile_to(path: Path) -> None:
        command = [compiler, *_FLAGS, *_MATHS, f"-I{jax.ffi.include_dir()}", str(source), "-o", str(path), "-ldl"]
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)  # noqa: S603 - our own words

    return build_once(facts, ".so", compile_to)


def build_once(facts: tuple[str, ...], suffix: str, make: Callable[[Path], None]) -> Path:
    """The file that `make` writes, cached under the hash of `facts`.

    It is written to a temporary place and then renamed, so that two processes can build at once without seeing half a
    file.
    """
    path = user_cache() / "native" / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            make(made)
            os.replace(made, path)
    return path


def _processor() -> str:
    """A description of the processor that -march=native depends on, for caches shared by several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
