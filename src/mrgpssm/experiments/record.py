"""What a run leaves behind: config, seed, versions, hardware, seconds, numbers. Tables and figures read only this."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mrgpssm import __version__
from mrgpssm.storage import write_atomic

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
    """The kind of device that computes."""
    import jax

    return str(jax.devices()[0].device_kind)


def _version(name: str) -> str:
    """The installed version; a source checkout on the path counts as this package's."""
    try:
        return version(name)
    except PackageNotFoundError:
        return __version__ if name == "mrgpssm" else "not installed"


def write_record(path: Path, content: dict[str, Any], indent: int | None = 1) -> None:
    """Write a record as JSON, whole or not at all."""
    text = json.dumps(content | {"environment": environment()}, indent=indent, sort_keys=True)
    write_atomic(path, (text + "\n").encode())
