"""Exported C, compiled and run from Python."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-shared", "-fPIC"]
_ROOM = 4096  # doubles, more than any state here has
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def compile_c(source: str, folder: Path) -> ctypes.CDLL:
    """The exported file as a library, with every warning an error."""
    (folder / "model.c").write_text(source)
    subprocess.run(["gcc", *FLAGS, "model.c", "-o", "model.so", "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "model.so"))


def walk_in_c(
    library: ctypes.CDLL, inputs: np.ndarray, outputs: int, name: str = "mrgpssm", gaps: np.ndarray | None = None
) -> np.ndarray:
    """One call a row: `step`, or `advance` where the samples to the next row are given."""

    def pointer(values: np.ndarray):
        return values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    state, y = np.full(_ROOM, np.nan), np.empty((len(inputs), outputs))
    getattr(library, f"{name}_init")(pointer(state))
    for index, u in enumerate(np.ascontiguousarray(inputs, float)):
        if gaps is None:
            getattr(library, f"{name}_step")(pointer(state), pointer(u), pointer(y[index]))
        else:
            elapsed = ctypes.c_double(gaps[index])
            getattr(library, f"{name}_advance")(pointer(state), pointer(u), elapsed, pointer(y[index]))
    return y
