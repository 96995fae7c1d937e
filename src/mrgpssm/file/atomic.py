"""Write files atomically: a file is the old one or the new one, never half of each."""

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

    A crash at any moment leaves the old file or the new one. If writing fails, no temporary file is left behind.
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
    """Remove a file that is no longer needed; a failure is ignored."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Add one line to a log; readers drop a line that a crash cut short."""
    with _explain_errors(path, "append to"), open_regular(path, "append") as file:
        file.write(f"{line}\n".encode())


def make_directory(path: Path) -> None:
    """Make a folder. A link in its place is refused, because files would be written elsewhere."""
    with _explain_errors(path, "make the folder"):
        path.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link; remove it")


def open_lock(path: Path) -> BufferedIOBase:
    """Open a file to hold a lock on; nothing is written to it."""
    with _explain_errors(path, "open"):
        return open_regular(path, "lock")


def _verify(path: Path, data: bytes) -> None:
    if path.read_bytes() != data:
        raise OSError("what was read back is not what was written")


def flush_folder(folder: Path) -> None:
    """Flush the directory entries to disk, if the system supports it."""
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
