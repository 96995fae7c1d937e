"""Download the files of a dataset. Downloads are checked and can be resumed; no file is left incomplete."""

import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException, HTTPResponse
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from mrgpssm.data.datasets import ROOT_VARIABLE, Dataset, data_root, dataset, find_file, how_to_get, sha256
from mrgpssm.errors import DataError, need
from mrgpssm.file import discard, flush_folder, open_regular

TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 16


def fetch(
    name: str,
    root: str | Path | None = None,
    base_url: str | None = None,
    only: Iterable[str] | None = None,
    report: Callable[[str], object] = print,
) -> list[Path]:
    """Download the missing files of a dataset and return the paths of all its files.

    A file with the right checksum is kept. A file with a wrong checksum is an error and is not changed. A download goes
    to `<file>.part`, is checked, and is then renamed. `base_url` replaces the address of the dataset, `only` restricts
    the files, and `report` gets one line per file.
    """
    entry = dataset(name)
    files = _choose_files(entry, only)
    kept = {file: find_file(entry, file, root) for file in files}
    for file, path in kept.items():
        if path is not None:
            _check_kept(path, entry.files[file], report)
    wanted = [file for file in files if kept[file] is None]
    if wanted:
        report(f"{entry.name}: licence {entry.licence}; {entry.homepage}")
        address = _address(entry, base_url, wanted, root)
        folder = _folder(data_root(root), entry)
        kept |= {file: _download(file, entry.files[file], address, folder, report) for file in wanted}
    return [path for file in files if (path := kept[file]) is not None]


def _choose_files(entry: Dataset, only: Iterable[str] | None) -> list[str]:
    if only is None:
        return list(entry.files)
    return [only] if isinstance(only, str) else list(only)


def _check_kept(path: Path, known: str | None, report: Callable[[str], object]) -> None:
    if known is None:
        report(f"UNVERIFIED: {path.name} has no known checksum; kept {path} as it is.")
        return
    got = sha256(path)
    if got != known:
        raise DataError(
            f"{path}: the SHA-256 should be {known} and is {got}; nothing was replaced. Remove the file to fetch it."
        )
    report(f"kept {path}")


def _address(entry: Dataset, base_url: str | None, wanted: list[str], root: str | Path | None) -> str:
    address = base_url if base_url is not None else entry.source
    if address is None:
        raise DataError(
            f"{entry.name}: no address to download {wanted[0]} from is known; {how_to_get(entry)} (now "
            f"{data_root(root)}), or name a mirror by base_url."
        )
    if not re.match(r"https?://", address):
        raise DataError(f"{entry.name}: the address must begin with http:// or https://; got {address!r}.")
    return address.rstrip("/") + "/"


def _folder(top: Path, entry: Dataset) -> Path:
    folder = top / entry.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be made ({error.strerror}); choose another folder by --data-root or {ROOT_VARIABLE}."
        ) from None
    return folder


def _download(file: str, known: str | None, address: str, folder: Path, report: Callable[[str], object]) -> Path:
    pooch = need("pooch", f"Downloading {file} needs the package pooch", "data")
    if known is None:
        report(f"UNVERIFIED: {file} has no known checksum; what {address} sends is taken as it is.")
    registry = {file: None if known is None else f"sha256:{known}"}
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # `report` speaks for us
    try:
        keeper = pooch.create(path=folder, base_url=address, registry=registry)
        downloader: Any = Resuming(folder / f"{file}.part", known)
        path = Path(keeper.fetch(file, downloader=downloader))
    except OSError as error:
        raise DataError(
            f"{folder / file}: cannot be written ({error.strerror or error}); "
            f"free space there, or choose another folder by --data-root or {ROOT_VARIABLE}."
        ) from None
    finally:
        logger.setLevel(level)
    flush_folder(folder)
    report(f"fetched {path}")
    return path


class Resuming:
    """A downloader for pooch that continues `<file>.part`, checks the checksum, and flushes the file to disk.

    A partial file is continued only if the checksum is known; otherwise the download starts again.
    """

    def __init__(self, part: Path, known: str | None):
        self.part = part
        self.known = known

    def __call__(self, url: str, output_file: str, pooch: object) -> None:  # noqa: ARG002 - the form pooch asks for
        have = self.part.stat().st_size if self.known and self.part.is_file() else 0
        if not have or sha256(self.part) != self.known:
            self._transfer(url, have)
        if self.known and (got := sha256(self.part)) != self.known:
            self.part.unlink()
            raise DataError(
                f"{url}: {self.part.stem} should have the SHA-256 {self.known} and has {got}; the download was "
                "removed and nothing replaced. Try again, or look whether the file was changed at its source."
            )
        os.replace(self.part, output_file)

    def _transfer(self, url: str, start: int) -> None:
        headers = {"Accept-Encoding": "identity", "User-Agent": "mrgpssm"}
        # The address begins with http:// or https://: `_address` has seen to that.
        request = urllib.request.Request(url, headers=headers | ({"Range": f"bytes={start}-"} if start else {}))  # noqa: S310
        try:
            response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and start:  # the file is shorter than what is here: that was another one
                return self._transfer(url, 0)
            raise DataError(f"{url}: the server says {error.code} {error.reason}; check the address.") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise DataError(
                f"{url}: cannot be reached ({reason}); without a network, copy the file by hand and point --data-root "
                f"or {ROOT_VARIABLE} at its folder."
            ) from None
        with response:
            return self._save(response, start if _goes_on(response, start) else 0, url)

    def _save(self, response: HTTPResponse, start: int, url: str) -> None:
        length = response.headers.get("Content-Length")
        if not start:
            discard(self.part)
        with open_regular(self.part, "append" if start else "create") as target:
            got, whole = _copy(response, target)
            target.flush()
            os.fsync(target.fileno())
        if not whole or length not in (None, str(got)):
            then = f"fetch again to go on from {self.part}" if self.known else "fetch again"
            raise DataError(f"{url}: broke off after {got} of {length or 'an unknown number of'} bytes; {then}.")


def _copy(response: HTTPResponse, target: BufferedIOBase) -> tuple[int, bool]:
    """The number of bytes copied, and whether the connection lasted to the end."""
    got = 0
    while True:
        try:
            chunk = response.read(CHUNK)
        except (HTTPException, OSError):
            return got, False
        if not chunk:
            return got, True
        got += target.write(chunk)


def _goes_on(response: HTTPResponse, start: int) -> bool:
    """Whether the answer continues at byte `start`. A server without range requests sends the whole file."""
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
