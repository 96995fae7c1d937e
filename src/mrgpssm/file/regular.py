"""Open regular files only: a folder from somebody else may hold links, pipes and devices."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Literal, cast

from mrgpssm.errors import ModelFileError

Way = Literal["read", "append", "lock", "create"]
MOST_BYTES = 4 * 2**30

_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_WAYS: dict[Way, tuple[int, str]] = {
    "read": (os.O_RDONLY, "rb"),
    "append": (os.O_WRONLY | os.O_APPEND | _WRITE, "ab"),
    "lock": (os.O_RDWR | _WRITE, "r+b"),
    "create": (os.O_WRONLY | os.O_EXCL | _WRITE, "wb"),
}


def open_regular(path: Path, way: Way) -> BufferedIOBase:
    """Open a regular file; anything else is an OSError, and the call never blocks.

    Reading follows links. Writing does not, and never empties an existing file.
    """
    flags, mode = _WAYS[way]
    try:
        handle = os.open(path, flags | _NEVER_WAIT, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and way != "read":
            raise OSError(errno.ELOOP, "it is a symbolic link; remove it") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return cast("BufferedIOBase", os.fdopen(handle, mode))
    except BaseException:
        os.close(handle)
        raise


@contextlib.contextmanager
def reading(path: Path, limit: int, kind: type[ValueError] = ModelFileError) -> Iterator[BufferedIOBase]:
    """Open a regular file of at most `limit` bytes for reading; errors are one sentence of the given kind."""
    try:
        with open_regular(path, "read") as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise kind(f"{path}: the file has more than {limit:,} bytes; that is no mrgpssm file.")
            yield file
    except FileNotFoundError:
        raise kind(f"{path}: there is no such file.") from None
    except OSError as error:
        raise kind(f"{path}: the file cannot be read ({error.strerror or error}).") from None


def read_bytes(path: Path, limit: int = MOST_BYTES, kind: type[ValueError] = ModelFileError) -> bytes:
    """The bytes of a file; errors are one sentence."""
    with reading(path, limit, kind) as file:
        return file.read(os.fstat(file.fileno()).st_size)
