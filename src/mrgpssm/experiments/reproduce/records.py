"""Records of finished pieces: where they lie, how they are recognised, and how numbers go into them."""

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.experiments.record import write_record
from mrgpssm.experiments.reproduce.config import DEFAULTS, slug

VERSION = 1


def digest(content: Any) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def record_path(out: Path, scale: str, what: str, name: str) -> Path:
    """OUT/scale/experiment/piece.json."""
    return out / scale / what / f"{slug(name)}.json"


def save_record(out: Path, content: dict[str, Any]) -> Path:
    """Write a record whole or not at all."""
    path = record_path(out, content["scale"], content["experiment"], content["name"])
    write_record(path, {"format": VERSION} | content, indent=None)
    return path


def read_records(out: Path, scale: str) -> list[dict[str, Any]]:
    """All records of a scale, in the order of their names; files of other kinds are not looked at."""
    found = []
    for path in sorted((out / scale).glob("*/*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and content.get("format") == VERSION:
            found.append(content)
    return found


def is_done(records: Iterable[dict[str, Any]], config: dict[str, Any], data: str) -> bool:
    """Whether some record has this config and these data; experiments share runs that agree in both."""
    return any(agree(r["config"], config) and r["data"]["sha256"] == data for r in records)


def agree(recorded: Any, wanted: Any) -> bool:
    """Whether two configs ask for the same runs.

    An option that a record does not know, because it is younger, counts as having its default.
    """
    return _completed(recorded) == _completed(wanted)


def _completed(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: DEFAULTS | value if key == "options" else _completed(value) for key, value in config.items()}
    return [_completed(value) for value in config] if isinstance(config, list | tuple) else config


def numbers(values: np.ndarray, digits: int = 5) -> list:
    """An array as JSON: significant digits, and None where a value is not finite."""
    if values.ndim > 1:
        return [numbers(row, digits) for row in values]
    return [_short(v, digits) for v in values.tolist()]


def _short(value: Any, digits: int) -> Any:
    if isinstance(value, bool | int | str):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
