"""Are the bands calibrated? Probability integral transform, and actual against nominal coverage."""

import numpy as np

from mrgpssm.report.chart import Bars, Line, Panel, Points, Rule, Section
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.statistics import coverage_curve, pit_shares


def calibration(evidence: RunEvidence) -> Section:
    """PIT histogram and coverage curve of every output."""
    panels = []
    for k, name in enumerate(evidence.output_names):
        stacked = evidence.stack(k)
        panels += [_pit(name, *stacked), _coverage(name, *stacked)]
    lead = (
        "Left: how often a measured value falls into each slice of the predicted distribution; honest bands give an "
        "even row of bars, too narrow ones a U, too wide ones a hill, a slope is bias. Right: points below the "
        "diagonal mean bands that hold less than they promise."
    )
    return Section("calibration", "Can the bands be trusted?", lead, tuple(panels), columns=2)


def _pit(name: str, measured: np.ndarray, levels: np.ndarray, quantiles: np.ndarray) -> Panel:
    shares, edges = pit_shares(measured, quantiles), np.concatenate([[0.0], levels, [1.0]])
    width = np.diff(edges)
    bars = Bars("measured values", edges[:-1] + width / 2, shares / width, "model", 0.92 * width, alpha=0.75)
    ends, expected = 100 * (shares[0] + shares[-1]), 100 * (width[0] + width[-1])
    note = f"{ends:.0f} % of the values in the two outer slices, {expected:.0f} % expected"
    alt = f"Histogram of the probability integral transform of {name}: {note}."
    labels, marks = ("predicted probability", "share / expected share"), (bars, Rule("calibrated", 1.0))
    return Panel(name, *labels, marks, alt, note, x_range=(0.0, 1.0))


def _coverage(name: str, measured: np.ndarray, levels: np.ndarray, quantiles: np.ndarray) -> Panel:
    nominal, actual = (100 * v for v in coverage_curve(measured, levels, quantiles))
    diagonal, whole = np.array([0.0, 100.0]), (0.0, 102.0)
    marks = (
        Line("honest", diagonal, diagonal, "muted", 1.0, dash=True),
        Line("actual", nominal, actual, "model"),
        Points("actual", nominal, actual, "model"),
    )
    at = int(np.argmin(np.abs(nominal - 90)))
    note = f"the {nominal[at]:.0f} % band holds {actual[at]:.0f} %"
    alt = f"Share of measured {name} inside bands against their nominal share: {note}."
    return Panel(name, "promised / %", "held / %", marks, alt, note, x_range=whole, y_range=whole)
