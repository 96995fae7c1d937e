"""The data of the page's script: small arrays as JSON, long series thinned and compressed.

A long series is stored as 16-bit steps between its extremes (0.002 % of its range; 65535 is a gap), two points per
bucket, so that all long series of a report together stay within a budget. The whole is compressed.
"""

import base64
import gzip
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mrgpssm.report.chart import Band, Bars, Heat, Line, Mark, Panel, Points, Rule, Section, Ticks, pieces
from mrgpssm.report.diagnostics.thinning import bucket_rows, thin_edge, thin_line, thin_time
from mrgpssm.report.evidence import digits_for

BUDGET = 1_500_000  # points of all long series together
_LEAST = 2_000
_GAP = 65_535
_DIGITS = 6


@dataclass
class Payload:
    """Panels and arrays of a page, collected one by one; arrays shared by several marks are stored once.

    The panels must outlive the payload, because shared arrays are recognised by their identity.
    """

    most: int
    panels: list[dict[str, Any]] = field(default_factory=list)
    arrays: list[dict[str, Any]] = field(default_factory=list)
    _kept: dict[int, int] = field(default_factory=dict)

    def add(self, panel: Panel) -> int:
        """Store a panel; returns its number."""
        self.panels.append(
            {
                "long": panel.long,
                "marks": [self._mark(panel, mark) for mark in panel.marks],
                "x": _axis(panel.log_x, panel.x_range, panel.x_ticks),
                "y": _axis(panel.log_y, panel.y_range, panel.y_ticks),
            }
        )
        return len(self.panels) - 1

    def to_text(self) -> str:
        """Everything as JSON, compressed, in base64; the same content gives the same text."""
        return pack(json.dumps({"panels": self.panels, "arrays": self.arrays}, separators=(",", ":")))

    def _mark(self, panel: Panel, mark: Mark) -> dict[str, Any]:
        if not panel.long:
            return _small(mark)
        if not isinstance(mark, Line | Band):
            raise TypeError(f"A long panel holds lines and bands; got {type(mark).__name__}.")
        parts, bucket = pieces(panel, len(mark.x)), bucket_rows(len(mark.x), self.most)
        about = _about(mark) | {"t": self._time(mark.x, parts, bucket)}
        if isinstance(mark, Line):
            if id(mark.y) not in self._kept:
                self._kept[id(mark.y)] = self._keep([thin_line(mark.y[p], bucket) for p in parts])
            return about | {"v": self._kept[id(mark.y)]}
        low = [thin_edge(mark.low[p], bucket, upper=False) for p in parts]
        high = [thin_edge(mark.high[p], bucket, upper=True) for p in parts]
        return about | {"low": self._keep(low), "high": self._keep(high)}

    def _time(self, time: np.ndarray, parts: list[slice], bucket: int) -> int:
        """Times of all rows; a gap repeats the last time before it."""
        if id(time) not in self._kept:
            thinned = [thin_time(time[p], bucket) for p in parts]
            joined = np.concatenate([np.append(t, t[-1]) for t in thinned])
            self.arrays.append({"f8": _encode(joined.astype("<f8"))})
            self._kept[id(time)] = len(self.arrays) - 1
        return self._kept[id(time)]

    def _keep(self, parts: list[np.ndarray]) -> int:
        values = np.concatenate([np.append(p, np.nan) for p in parts]).astype(float)
        values[~np.isfinite(values)] = np.nan
        known = values[~np.isnan(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        scaled = np.nan_to_num((values - low) / ((high - low) or 1.0))
        steps = np.where(np.isnan(values), _GAP, np.round(scaled * (_GAP - 1)))
        self.arrays.append({"u2": _encode(steps.astype("<u2")), "low": low, "high": high})
        return len(self.arrays) - 1


def collect(sections: list[Section]) -> Payload:
    """A payload whose long series share the budget; panels are added while the page is laid out."""
    marks = [mark for s in sections for p in s.panels if p.long for mark in p.marks]
    lines = {id(mark.y) for mark in marks if isinstance(mark, Line)}
    series = len(lines) + sum(2 for mark in marks if isinstance(mark, Band))
    return Payload(max(BUDGET // max(series, 1), _LEAST))


def pack(text: str) -> str:
    """base64 of gzip, without a time stamp."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode("ascii")


def _small(mark: Mark) -> dict[str, Any]:
    about = _about(mark)
    match mark:
        case Line() | Points():
            return about | {"x": _numbers(mark.x), "y": _numbers(mark.y)}
        case Band():
            return about | {"x": _numbers(mark.x), "low": _numbers(mark.low), "high": _numbers(mark.high)}
        case Bars():
            width = np.broadcast_to(np.asarray(mark.width, float), mark.position.shape)
            return about | {"x": _numbers(mark.position), "y": _numbers(mark.value), "width": _numbers(width)}
        case Heat():
            return about | {"x": _numbers(mark.x), "y": _numbers(mark.y), "z": [_numbers(row) for row in mark.z]}
        case Rule():
            return about | {"value": float(mark.value)}


def _about(mark: Mark) -> dict[str, Any]:
    """The kind, the name, and every setting that is not an array."""
    plain = {k: v for k, v in vars(mark).items() if isinstance(v, str | bool) or k in ("alpha", "size")}
    if isinstance(mark, Line):
        plain["width"] = mark.width
    return {"kind": type(mark).__name__.lower()} | plain


def _axis(log: bool, span: tuple[float, float] | None, ticks: Ticks | None) -> dict[str, Any]:
    axis: dict[str, Any] = {"log": log}
    if span is not None:
        axis["range"] = [float(v) for v in (np.log10(span) if log else span)]
    if ticks is not None:
        axis["ticks"] = [list(ticks.positions), list(ticks.labels)]
    return axis


def _numbers(values: np.ndarray) -> list[float | None]:
    """Numbers to six significant digits of their range; null if not finite."""
    values = np.asarray(values, float)
    digits = digits_for(values, _DIGITS)
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values.tolist()]


def _encode(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
