"""The data of the page's script: small arrays as JSON, long series thinned and compressed.

A long series is stored as 16-bit steps between its extremes (0.002 % of its range; 65535 is a gap), two points per
bucket, so that all long series of a report together stay within a budget. The whole is compressed.
"""

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mrgpssm.report.chart import Band, Bars, Line, Mark, Panel, Rule, Section
from mrgpssm.report.evidence import digits_for
from mrgpssm.report.thinning import thin

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
            return _describe(mark) | _list_arrays(mark)
        if not isinstance(mark, Line | Band):
            raise TypeError(f"A long panel holds lines and bands; got {type(mark).__name__}.")
        drawn, values = (
            thin(panel, mark, self.most),
            {"v": "y"} if isinstance(mark, Line) else {"low": "low", "high": "high"},
        )
        about = _describe(mark) | {"t": self._keep(mark.x, drawn.x, _pack_times)}
        for key, name in values.items():
            about[key] = self._keep(getattr(mark, name), getattr(drawn, name), _pack_steps)
        return about

    def _keep(self, whole: np.ndarray, drawn: np.ndarray, pack_array: Callable[[np.ndarray], dict[str, Any]]) -> int:
        """The number of an array, which is stored when it is first seen."""
        if id(whole) not in self._kept:
            self._kept[id(whole)] = len(self.arrays)
            self.arrays.append(pack_array(drawn))
        return self._kept[id(whole)]


def collect(sections: list[Section]) -> Payload:
    """A payload whose long series share the budget; panels are added while the page is laid out."""
    marks = [mark for s in sections for p in s.panels if p.long for mark in p.marks]
    lines = {id(mark.y) for mark in marks if isinstance(mark, Line)}
    series = len(lines) + sum(2 for mark in marks if isinstance(mark, Band))
    return Payload(max(BUDGET // max(series, 1), _LEAST))


def pack(text: str) -> str:
    """base64 of gzip, without a time stamp."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode("ascii")


def _describe(mark: Mark) -> dict[str, Any]:
    """The kind, the name, and every setting that is not an array."""
    plain = {k: v for k, v in vars(mark).items() if isinstance(v, str | bool) or k in ("alpha", "size")}
    if isinstance(mark, Line):
        plain["width"] = mark.width
    return {"kind": type(mark).__name__.lower()} | plain


def _list_arrays(mark: Mark) -> dict[str, Any]:
    if isinstance(mark, Rule):
        return {"value": float(mark.value)}
    arrays = {name: values for name, values in vars(mark).items() if isinstance(values, np.ndarray)}
    if isinstance(mark, Bars):
        arrays = {"x": mark.x, "y": mark.y, "width": np.broadcast_to(mark.width, mark.x.shape)}
    return {name: _numbers(v) if v.ndim == 1 else [_numbers(row) for row in v] for name, v in arrays.items()}


def _pack_times(times: np.ndarray) -> dict[str, Any]:
    return {"f8": _encode(times.astype("<f8"))}


def _pack_steps(values: np.ndarray) -> dict[str, Any]:
    """Sixteen bits from the least value to the largest."""
    values = np.where(np.isfinite(values), values, np.nan)
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    scaled = np.nan_to_num((values - low) / ((high - low) or 1.0))
    steps = np.where(np.isnan(values), _GAP, np.round(scaled * (_GAP - 1)))
    return {"u2": _encode(steps.astype("<u2")), "low": low, "high": high}


def _axis(log: bool, span: tuple[float, float] | None, ticks: tuple[str, ...]) -> dict[str, Any]:
    axis: dict[str, Any] = {"log": log}
    if span is not None:
        axis["range"] = [float(v) for v in (np.log10(span) if log else span)]
    if ticks:
        axis["ticks"] = [list(map(float, range(len(ticks)))), list(ticks)]
    return axis


def _numbers(values: np.ndarray) -> list[float | None]:
    """Numbers to six significant digits of their range; null if not finite."""
    values = np.asarray(values, float)
    digits = digits_for(values, _DIGITS)
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values.tolist()]


def _encode(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
