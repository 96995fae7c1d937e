"""The history of a training run as arrays."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.file import parse_json, read_bytes
from mrgpssm.report.evidence import Trace

_MOST = 2**26  # bytes
_KEYS = {"component", "cycle", "done", "total", "bound", "kl"}


def read_trace(path: Path) -> Trace | None:
    """The trace of a run, up to the first line that cannot be read; None if there are no lines."""
    if not path.exists():
        return None
    rows = []
    for line in read_bytes(path, _MOST).splitlines():
        try:
            row = parse_json(line, str(path))
        except ModelFileError:
            break
        if not isinstance(row, dict) or not row.keys() >= _KEYS:
            break
        rows.append(row)
    return _trace(rows)


def from_history(history: Iterable[Any]) -> Trace | None:
    """The trace of a model in memory, from `MRGPSSM.history_`."""
    rows = []
    for p in history:
        place = {"component": p.component + 1, "cycle": p.cycle + 1, "done": p.done, "total": p.total}
        rows.append(place | {"bound": p.bound.tolist(), "kl": p.kl.tolist()})
    return _trace(rows)


def _trace(rows: list[dict[str, Any]]) -> Trace | None:
    if not rows:
        return None
    component, cycle, done = (np.array([row[key] for row in rows]) for key in ("component", "cycle", "done"))
    bound, kl = (np.array([row[key] for row in rows], float) for key in ("bound", "kl"))  # None becomes NaN
    return Trace(component, cycle, done, int(rows[-1]["total"]), bound, kl)
