"""What reaches the disk: whole files or none, tensors with a checksum, trees by the names of their leaves."""

from mrgpssm.storage.atomic import append_line, discard, flush_folder, make_directory, open_lock, write_atomic
from mrgpssm.storage.tensors import pack, read_bytes, unpack
from mrgpssm.storage.trees import fill, named_leaves

__all__ = [
    "append_line",
    "discard",
    "fill",
    "flush_folder",
    "make_directory",
    "named_leaves",
    "open_lock",
    "pack",
    "read_bytes",
    "unpack",
    "write_atomic",
]
