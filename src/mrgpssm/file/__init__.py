"""Files: written whole or not at all, tensors with a checksum, and trees of arrays by the names of their leaves.

Trees need JAX. They are loaded on request, so that files can be read without JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mrgpssm.file.atomic import append_line, discard, flush_folder, make_directory, open_lock, write_atomic
from mrgpssm.file.regular import open_regular, read_bytes
from mrgpssm.file.tensors import pack, read_tensors, unpack
from mrgpssm.file.texts import parse_json, read_json, read_toml, write_json

if TYPE_CHECKING:
    from mrgpssm.file.trees import fill, named_leaves

__all__ = [
    "append_line",
    "discard",
    "fill",
    "flush_folder",
    "make_directory",
    "named_leaves",
    "open_lock",
    "open_regular",
    "pack",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_tensors",
    "read_toml",
    "unpack",
    "write_atomic",
    "write_json",
]


def __getattr__(name: str) -> object:
    if name not in ("fill", "named_leaves"):
        raise AttributeError(f"module 'mrgpssm.file' has no attribute {name!r}")
    return getattr(import_module("mrgpssm.file.trees"), name)
