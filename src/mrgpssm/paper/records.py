"""Records of finished pieces: where they lie, how they are recognised, and how numbers go into them."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.file.record import read_record, write_record
from mrgpssm.paper.config import DEFAULTS, EXPERIMENTS, slug

VERSION = 1
_COLUMNS = {"output", "fold", "restart", "chosen", "alive", "output_sd", "rmse"}  # of the members


def save_record(out: Path, content: dict[str, Any]) -> Path:
    """Write OUT/scale/experiment/piece.json whole or not at all."""
    path = out / content["scale"] / content["experiment"] / f"{slug(content['name'])}.json"
    write_record(path, {"format": VERSION} | content, indent=None)
    return path


def read_records(out: Path, scale: str) -> list[dict[str, Any]]:
    """All whole records of a scale, in the order of their names; files of other kinds are not looked at."""
    found = (read_record(path) for path in sorted((out / scale).glob("*/*.json")))
    return [record for record in found if record is not None and _is_complete(record)]


def _is_complete(record: dict[str, Any]) -> bool:
    """Whether a record has all that skipping, estimates and tables ask of it; any other piece is made again."""
    if record.get("format") != VERSION or record.get("experiment") not in EXPERIMENTS:
        return False
    if not isinstance(record.get("name"), str) or "config" not in record:
        return False
    for table, key, kind in (("data", "sha256", str), ("seconds", "all", int | float), ("environment", "device", str)):
        if not isinstance(record.get(table), dict) or not isinstance(record[table].get(key), kind):
            return False
    work, members = record.get("work"), record.get("members", {})
    if not isinstance(work, int | float) or (work > 0 and not {"failure", "members"} <= record.keys()):
        return False
    if not isinstance(members, dict) or not all(isinstance(column, list) for column in members.values()):
        return False
    return not members or (members.keys() >= _COLUMNS and len({len(column) for column in members.values()}) == 1)


def is_done(records: Iterable[dict[str, Any]], config: dict[str, Any], data: str) -> bool:
    """Whether some record has this config and these data; experiments share runs that agree in both."""
    return any(agree(r["config"], config) and r["data"]["sha256"] == data for r in records)


def agree(recorded: Any, wanted: Any) -> bool:
    """Whether two configs ask for the same runs.

    An option that a record does not know, because it is younger, counts as having its default.
    """
    return _complete(recorded) == _complete(wanted)


def _complete(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: DEFAULTS | value if key == "options" else _complete(value) for key, value in config.items()}
    return [_complete(value) for value in config] if isinstance(config, list | tuple) else config


def numbers(values: np.ndarray, digits: int = 5) -> list:
    """An array as JSON: significant digits, and None where a value is not finite."""
    if values.ndim > 1:
        return [numbers(row, digits) for row in values]
    return [_short(v, digits) for v in values.tolist()]


def _short(value: Any, digits: int) -> Any:
    if isinstance(value, bool | int | str):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
