"""Files that are old or new, never in between."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

from mrgpssm.errors import StorageError
from mrgpssm.file.regular import open_regular


def write_atomic(path: Path, data: bytes) -> None:
    """Write beside the target, flush to disk, read back, rename, flush the folder.

    A crash at any moment leaves the old file or the new one. Nothing is left behind where writing fails.
    """
    with _explain_errors(path, "write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _verify(temporary, data)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            discard(temporary)
            raise
    with _explain_errors(path, "make sure of", "It is whole, but may be the old one again after a crash"):
        flush_folder(path.parent)


def discard(path: Path) -> None:
    """Remove a file that is of no use any more; where that fails, it stays, and nothing is lost."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Add one line to a log; a line cut short by a crash is dropped by its readers."""
    with _explain_errors(path, "append to"), open_regular(path, "append") as file:
        file.write(f"{line}\n".encode())


def make_directory(path: Path) -> None:
    """A folder that exists; a link in its place is refused, because files would be written and removed elsewhere."""
    with _explain_errors(path, "make the folder"):
        path.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link; remove it")


def open_lock(path: Path) -> BufferedIOBase:
    """A file to hold a lock on; nothing is ever written to it."""
    with _explain_errors(path, "open"):
        return open_regular(path, "lock")


def _verify(path: Path, data: bytes) -> None:
    if path.read_bytes() != data:
        raise OSError("what was read back is not what was written")


def flush_folder(folder: Path) -> None:
    """Wait until the folder's list of names is on the disk, where the system can say so."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


@contextlib.contextmanager
def _explain_errors(path: Path, what: str, left: str = "What was there before is untouched") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"Cannot {what} {path}: {reason}. {left}; free space or choose a folder that can be written to."
        ) from None
