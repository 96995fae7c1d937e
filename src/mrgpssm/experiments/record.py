"""What a run leaves behind: config, seed, versions, hardware, seconds, numbers. Tables and figures read only this."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mrgpssm.storage import write_atomic

_PACKAGES = ("mrgpssm", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


def environment() -> dict[str, Any]:
    """Versions and hardware of this process."""
    import jax

    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "device": str(jax.devices()[0].device_kind),
        "cpu_count": os.cpu_count(),
        "machine": platform.machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def write_record(path: Path, content: dict[str, Any]) -> None:
    """Write a record as JSON, whole or not at all."""
    text = json.dumps(content | {"environment": environment()}, indent=1, sort_keys=True)
    write_atomic(path, (text + "\n").encode())
