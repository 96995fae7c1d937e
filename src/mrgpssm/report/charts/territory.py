"""Where the test is unlike training: the alarm over time, and whether the bands hold where it rings."""

import numpy as np

from mrgpssm.report.chart import Line, Panel, Points, Rule, Section
from mrgpssm.report.charts.simulation import timeline
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import part_role
from mrgpssm.report.statistics import mean_by_bin

_EDGES = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, np.inf])
_NAMES = ("below 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 to 1", "1 to 1.5", "1.5 to 2", "above 2")


def territory(evidence: RunEvidence) -> Section:
    """The alarm of every row, and the share of measured values inside the 90 % band by the alarm."""
    key, title = "territory", "Is this new territory?"
    alarms = [r.run.alarm for r in evidence.recordings if r.run.alarm is not None]
    if len(alarms) < len(evidence.recordings) or not any(a.any() for a in alarms):
        return Section(key, title, missing="The model keeps no rows of its training data to compare the test with.")
    alarm = np.concatenate(alarms)
    (time, breaks), above = timeline(evidence), np.ones_like(alarm)
    note = f"it rings on {100 * np.mean(alarm > 1):.0f} % of the rows; its median is {np.median(alarm):.2g}"
    marks = (Line("alarm", time, alarm, "model", 1.2), Line("rings above", time, above, "muted", dash=True))
    alt = f"The alarm over time: {note}."
    over_time = Panel("Alarm", "time / s", "alarm", marks, alt, note, wide=True, long=True, breaks=breaks)
    lead = (
        "The alarm is the distance of a row, its inputs and simulated outputs, from the nearest rows of training. "
        "Above 1 it rings: the model has seen nothing like it, and its bands grow there. In data like those of "
        "training about one row in twenty rings."
    )
    return Section(key, title, lead, (over_time, _coverage(evidence, alarm)))


def _coverage(evidence: RunEvidence, alarm: np.ndarray) -> Panel:
    """The share of measured values of every output inside the 90 % band, bin by bin of the alarm."""
    marks: list[Line | Points | Rule] = [Rule("promised", 90.0)]
    place, told = np.arange(len(_NAMES), dtype=float), []
    for k, name in enumerate(evidence.output_names):
        measured = evidence.join(lambda r, k=k: r.measured[:, k])
        low, high = (evidence.join(lambda r, k=k, q=q: r.run.quantile(q)[:, k]) for q in (0.05, 0.95))
        known = ~np.isnan(measured)
        inside = ((measured >= low) & (measured <= high)).astype(float)
        share = 100 * mean_by_bin(alarm[known], inside[known], _EDGES)
        marks += [Line(name, place, share, part_role(k), 1.4), Points(name, place, share, part_role(k))]
        rung = known & (alarm > 1)
        if rung.any():
            told.append(f"{name} {100 * inside[rung].mean():.0f} %")
    note = f"held where it rings: {', '.join(told)}" if told else "it rings nowhere"
    alt = f"Share of measured values inside the 90 % band by the alarm; {note}."
    labels = ("alarm", "inside the 90 % band / %")
    return Panel("Bands by alarm", *labels, tuple(marks), alt, note, x_ticks=_NAMES, y_range=(0.0, 102.0), wide=True)
