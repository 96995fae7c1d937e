"""Kernels for NVIDIA GPUs: CUDA sources compiled for one shape at a time by NVRTC, launched by `launch.cc`.

NVRTC comes with JAX's CUDA packages, so no CUDA toolkit is needed, but a C++ compiler is.
"""

import ctypes
import functools
import glob
import logging
import sysconfig
from pathlib import Path

import jax
import numpy as np

from mrgpssm.native.build import NoCompilerError, build_once, shared_library

TARGET = "mrgpssm_launch"
_FOLDER = Path(__file__).parent
_LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_FOLDERS = ("nvidia/*/lib", "torch/lib")
# Shared memory of a multiprocessor by compute capability, in kilobytes.
_SHARED = {"8.0": 164, "8.6": 100, "8.7": 164, "8.9": 100, "9.0": 228, "10.0": 228, "10.3": 228, "12.0": 100}
_log = logging.getLogger("mrgpssm")


def register() -> None:
    """Build the launcher, find NVRTC, and register with XLA."""
    _compiler()
    handler = jax.ffi.pycapsule(getattr(_launcher(), TARGET))
    jax.ffi.register_ffi_target(TARGET, handler, platform="CUDA")


@functools.cache
def shared_bytes() -> int:
    """Shared memory of a multiprocessor of the first GPU."""
    return 1024 * _SHARED.get(str(jax.devices("gpu")[0].compute_capability), 96)


def launch(path: str, name: str, *, blocks: int, threads: int, size: int, rank: int, numbers: tuple[int, ...]) -> dict:
    """The arguments of `launch.cc`: the kernel, its grid and shared memory, and the rank of the first argument."""
    return {
        "path": path,
        "name": name,
        "blocks": np.int64(blocks),
        "threads": np.int64(threads),
        "bytes": np.int64(size),
        "few_members": np.int64(0),
        "few_blocks": np.int64(0),
        "few_threads": np.int64(0),
        "rank": np.int64(rank),
        "numbers": np.array(numbers, np.int64),
    }


@functools.cache
def usable(source: str, defines: tuple[str, ...], sizes: tuple[tuple[str, int], ...]) -> bool:
    """Whether these kernels can be compiled and loaded here; a failure is logged."""
    try:
        load_kernels(source, defines, sizes)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        _log.warning("No GPU kernel from %s (%s), JAX computes alone: %s", source, " ".join(defines), reason)
        return False
    return True


@functools.cache
def load_kernels(source: str, defines: tuple[str, ...], sizes: tuple[tuple[str, int], ...]) -> str:
    """Compile the kernels of a source, or take them from the user's cache, and load them into the launcher."""
    architecture = str(jax.devices("gpu")[0].compute_capability).replace(".", "")
    options = [f"--gpu-architecture=sm_{architecture}", "--std=c++17", *(f"-D{define}" for define in defines)]
    text = (_FOLDER / source).read_text()
    facts = (text, jax.__version__, _version(), *options)

    def compile_to(place: Path) -> None:
        place.write_bytes(_compile(text, options))

    path = build_once(facts, ".cubin", compile_to)
    for name, size in sizes:
        status = _launcher().mrgpssm_load(str(path).encode(), name.encode(), size)
        if status:
            raise RuntimeError(f"The GPU kernel {name!r} cannot be loaded (CUDA status {status}).")
    return str(path)


@functools.cache
def _launcher() -> ctypes.CDLL:
    return ctypes.CDLL(str(shared_library(_FOLDER / "launch.cc")))


@functools.cache
def _compiler() -> ctypes.CDLL:
    """NVRTC, from JAX's CUDA packages or the system."""
    site = Path(sysconfig.get_paths()["purelib"])
    beside = [p for f in _FOLDERS for p in sorted(glob.glob(str(site / f / "libnvrtc.so*")), reverse=True)]
    system = sorted(glob.glob("/usr/local/cuda*/lib64/libnvrtc.so*"), reverse=True)
    for name in (*beside, *_LIBRARIES, *system):
        try:
            return _nvrtc(name)
        except OSError:
            continue
    raise NoCompilerError("NVRTC was not found; JAX computes alone on the GPU.")


def _nvrtc(name: str) -> ctypes.CDLL:
    """The library, loaded together with a second one that it does not find by itself."""
    for builtins in glob.glob(str(Path(name).parent / "libnvrtc-builtins.so*")) if "/" in name else []:
        ctypes.CDLL(builtins)
    return ctypes.CDLL(name)


def _version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _compiler().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _compile(source: str, options: list[str]) -> bytes:
    """NVRTC's machine code for `source`."""
    nvrtc, program = _compiler(), ctypes.c_void_p()
    flags = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    status = made or nvrtc.nvrtcCompileProgram(program, len(options), flags)
    size = ctypes.c_size_t()
    if status:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(max(1, size.value))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"NVRTC failed with status {status}: {log.value.decode(errors='replace')[:500]}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw
