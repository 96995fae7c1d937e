"""What pages are made of: records under `results`, and texts that a person wrote."""

import functools
from pathlib import Path
from typing import Any

from mrgpssm.file.record import read_record

ROOT = Path(__file__).parents[2]
RESULTS, TEXTS = ROOT / "results", Path(__file__).parent / "text"


@functools.cache
def find(name: str) -> dict[str, Any]:
    """The record results/NAME.json."""
    record = read_record(RESULTS / f"{name}.json")
    if record is None:
        raise SystemExit(f"results/{name}.json holds no record, and a page needs it.")
    return record


def find_all(pattern: str) -> dict[str, dict[str, Any]]:
    """The records of all files results/PATTERN.json by the names of the files, in their order."""
    paths = sorted(RESULTS.glob(f"{pattern}.json"))
    return {path.stem: find(path.relative_to(RESULTS).with_suffix("").as_posix()) for path in paths}


def text(name: str) -> str:
    """What a person wrote."""
    return (TEXTS / name).read_text(encoding="utf-8").rstrip()
