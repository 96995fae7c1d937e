"""The tables of the page: settings, data, and verdicts."""

from typing import Any

import numpy as np

from mrgpssm.report.charts.residuals import follows
from mrgpssm.report.diagnostics.verdict import Findings, Verdict, judge
from mrgpssm.report.evidence import RunEvidence, digits_for, score
from mrgpssm.spec import find_option


def verdicts(evidence: RunEvidence) -> dict[str, Verdict]:
    """The verdict on every output."""
    found = {}
    for k, (name, scores) in enumerate(zip(evidence.output_names, score(evidence), strict=True)):
        beyond = [f for f in follows(evidence, k) if abs(f.peak[0]) > f.limit] if evidence.is_even else []
        worst = max(beyond, key=lambda f: abs(f.peak[0]), default=None)
        found[name] = judge(
            Findings(
                scores["fit_percent"],
                scores["coverage_90"],
                None if worst is None else worst.input,
                0.0 if worst is None else worst.peak[0],
                evidence.seen_in_training,
            )
        )
    return found


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
        for name, s in zip(evidence.output_names, score(evidence), strict=True)
    ]


def setting_rows(evidence: RunEvidence) -> list[tuple[str, str, str]]:
    """Option, value and meaning."""
    declared = ((key, value, find_option(key)) for key, value in evidence.options.items())
    return [(key, _shown(value), "" if option is None else option.help) for key, value, option in declared]


def column_rows(evidence: RunEvidence) -> list[dict[str, str]]:
    """Range, mean and missing values of every column, in training and test."""
    test_inputs = np.concatenate([r.inputs for r in evidence.recordings])
    test_outputs = np.concatenate([r.measured for r in evidence.recordings])
    trained = evidence.training
    rows = []
    sides = (("input", evidence.input_names, test_inputs), ("output", evidence.output_names, test_outputs))
    for kind, names, test in sides:
        for k, name in enumerate(names):
            known = None if trained is None else (trained.inputs if kind == "input" else trained.outputs)[:, k]
            rows.append(
                {
                    "kind": kind,
                    "name": name,
                    "unit": evidence.units.get(name, ""),
                    "training": "not at hand" if known is None else _span(known),
                    "test": _span(test[:, k]),
                    "missing": f"{int(np.isnan(test[:, k]).sum()):,}",
                }
            )
    return rows


def recording_rows(evidence: RunEvidence) -> list[tuple[str, str, str, str]]:
    """Use, name, rows and duration of every recording."""
    dt = evidence.dt
    rows = []
    if evidence.training is not None:
        for name, count in zip(evidence.training.names, evidence.training.rows, strict=True):
            rows.append(("training", name, f"{count:,}", _duration((count - 1) * dt)))
    for r in evidence.recordings:
        use = "training, tested on" if r.seen else "test"
        rows.append((use, r.name, f"{len(r.elapsed):,}", _duration(float(r.elapsed[-1]))))
    return rows


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
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
