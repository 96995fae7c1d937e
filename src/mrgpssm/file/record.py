"""Records of runs: config, seed, versions, hardware, time and results. Tables and figures read only records.

A record also holds a mark of every part of the package. A page that is made from records compares these marks with the
sources as they are, and says which of its numbers were measured on an older version of the code. Every record of the
project is written and read here; those of this repository lie under `results`.
"""

import functools
import hashlib
import json
import os
import platform
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mrgpssm.errors import ModelFileError
from mrgpssm.file import read_json, write_atomic

OLDER = "measured on an older version of the code"
ASIDE = ("__main__", "cli", "export", "interop", "report")  # parts that no number on a page comes from
_PACKAGES = ("mrgpssm", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


def environment() -> dict[str, Any]:
    """Versions and hardware of this process."""
    return {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "device": device_name(),
        "cpu_count": os.cpu_count(),
        "machine": platform.machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def device_name() -> str:
    """The kind of device that JAX computes on."""
    import jax

    return str(jax.devices()[0].device_kind)


def _version(name: str) -> str:
    """The installed version of a package; for mrgpssm itself also the version of a source checkout."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def write_record(path: Path, content: dict[str, Any], indent: int | None = 1) -> None:
    """Write a record as JSON, whole or not at all."""
    text = json.dumps(content | {"environment": environment(), "sources": sources()}, indent=indent, sort_keys=True)
    write_atomic(path, (text + "\n").encode())


def digest(content: Any) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_record(path: Path) -> dict[str, Any] | None:
    """A record, or None where there is no whole one: what it is of can then be measured again."""
    try:
        return read_json(path)
    except ModelFileError:
        return None


@functools.cache
def sources() -> dict[str, str]:
    """The start of the SHA-256 of every part of the package, computed on the first call."""
    top = Path(__file__).parents[1]
    marks: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        place = path.relative_to(top)
        if path.is_file() and path.suffix not in (".pyc", ".typed"):
            sha = marks.setdefault(place.parts[0].removesuffix(".py"), hashlib.sha256())
            sha.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return {part: sha.hexdigest()[:12] for part, sha in marks.items()}


def is_older(record: dict[str, Any], ignored: Collection[str] = ASIDE) -> bool:
    """Whether a part that is not ignored has changed since the record; a record without hashes is older."""
    then, now = record.get("sources", {}), sources()
    return any(then.get(part) != now.get(part) for part in {*then, *now} - set(ignored))


def age_note(records: Iterable[dict[str, Any]]) -> str:
    """The note of a page on the age of its records; empty if all were made by the current code."""
    ages = [is_older(record) for record in records]
    if not any(ages):
        return ""
    if len(ages) == 1:
        return f"**The record below was {OLDER}.**"
    how_many = f"All {len(ages)}" if all(ages) else f"{sum(ages)} of {len(ages)}"
    return f"**{how_many} records below were {OLDER}.**"
