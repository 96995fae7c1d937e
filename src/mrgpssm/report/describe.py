"""The tables of the page: settings, data, and verdicts."""

from typing import Any

import numpy as np

from mrgpssm.report.charts.residuals import find_follows
from mrgpssm.report.evidence import RunEvidence, digits_for
from mrgpssm.report.verdict import Findings, Verdict, judge
from mrgpssm.spec import find_option


def verdicts(evidence: RunEvidence) -> dict[str, Verdict]:
    """The verdict on every output."""
    judged = {}
    for k, (name, scores) in enumerate(zip(evidence.output_names, evidence.scores, strict=True)):
        beyond = [f for f in find_follows(evidence, k) if abs(f.peak[0]) > f.limit] if evidence.is_even else []
        worst = max(beyond, key=lambda f: abs(f.peak[0]), default=None)
        followed = (None, 0.0) if worst is None else (worst.input, worst.peak[0])
        found = Findings(scores["fit_percent"], scores["coverage_90"], *followed, evidence.seen_in_training)
        judged[name] = judge(found)
    return judged


def score_rows(evidence: RunEvidence, judged: dict[str, Verdict]) -> list[dict[str, str]]:
    """One row per output of the summary."""
    return [
        {
            "name": name,
            "grade": judged[name].grade,
            "reason": judged[name].reason,
            "fit": _number(s["fit_percent"], ".0f", " %"),
            "rmse": _number(s["rmse"], ".3g", f" {evidence.units.get(name, '')}".rstrip()),
            "cover50": _number(100 * s["coverage_50"], ".0f", " %"),
            "cover90": _number(100 * s["coverage_90"], ".0f", " %"),
            "nll_gaussian": _number(s["nll_gaussian"], ".2f"),
        }
        for name, s in zip(evidence.output_names, evidence.scores, strict=True)
    ]


def setting_rows(evidence: RunEvidence) -> list[tuple[str, str, str]]:
    """Option, value and meaning."""
    declared = ((key, value, find_option(key)) for key, value in evidence.options.items())
    return [(key, _shown(value), "" if option is None else option.help) for key, value, option in declared]


def column_rows(evidence: RunEvidence) -> list[dict[str, str]]:
    """Range, mean and missing values of every column, in training and test."""
    names = [*(("input", n) for n in evidence.input_names), *(("output", n) for n in evidence.output_names)]
    test = evidence.join(lambda r: np.hstack([r.inputs, r.measured])).T
    known = evidence.training
    trained = [None] * len(names) if known is None else np.hstack([known.inputs, known.outputs]).T
    return [
        {
            "kind": kind,
            "name": name,
            "unit": evidence.units.get(name, ""),
            "training": "not at hand" if before is None else _span(before),
            "test": _span(now),
            "missing": f"{int(np.isnan(now).sum()):,}",
        }
        for (kind, name), before, now in zip(names, trained, test, strict=True)
    ]


def recording_rows(evidence: RunEvidence) -> list[tuple[str, str, str, str]]:
    """Use, name, rows and duration of every recording."""
    rows = [
        ("training, tested on" if r.seen else "test", r.name, len(r.elapsed), r.elapsed[-1])
        for r in evidence.recordings
    ]
    if (known := evidence.training) is not None:
        sizes = zip(known.names, known.rows, strict=True)
        rows = [*(("training", name, count, (count - 1) * evidence.dt) for name, count in sizes), *rows]
    return [(use, name, f"{count:,}", _duration(float(seconds))) for use, name, count, seconds in rows]


def _number(value: float, how: str, unit: str = "") -> str:
    return f"{value:{how}}{unit}" if np.isfinite(value) else "none"


def _span(values: np.ndarray) -> str:
    known = values[~np.isnan(values)]
    if not len(known):
        return "never measured"
    low, high, mean = (f"{v:.{digits_for(known, 4)}g}" for v in (known.min(), known.max(), known.mean()))
    return f"{low} to {high}, mean {mean}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _shown(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
