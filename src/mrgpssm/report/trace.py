"""The history of a training run as arrays."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.report.evidence import Trace


def read_trace(path: Path) -> Trace | None:
    """The trace a run left; a last line cut short by a crash is dropped, and a run without lines has no trace."""
    if not path.exists():
        return None
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return _trace(rows)


def from_history(history: Iterable[Any]) -> Trace | None:
    """The trace of a model in memory: what `MRGPSSM.history_` holds."""
    return _trace([
        {"component": p.component + 1, "cycle": p.cycle + 1, "done": p.done, "total": p.total,
         "bound": p.bound.tolist(), "kl": p.kl.tolist()}
        for p in history
    ])  # fmt: skip


def _trace(rows: list[dict[str, Any]]) -> Trace | None:
    if not rows:
        return None
    members = len(rows[0]["bound"])

    def table(key: str) -> np.ndarray:
        blank = [None] * members
        return np.array([[np.nan if v is None else v for v in row.get(key, blank)] for row in rows], float)

    component, cycle, done = (np.array([row[key] for row in rows]) for key in ("component", "cycle", "done"))
    return Trace(component, cycle, done, int(rows[-1]["total"]), table("bound"), table("kl"))
