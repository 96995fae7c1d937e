"""Do the test inputs lie in the training range? Inputs of both, and the predicted uncertainty along them."""

import numpy as np

from mrgpssm.report.chart import Bars, Line, Panel, Section
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import part_role
from mrgpssm.report.statistics import common_edges, mean_by_bin, outside, shares


def input_coverage(evidence: RunEvidence) -> Section:
    """Per input: shares of training and test rows, and the predicted deviation along it."""
    key, title = "inputs", "Does the test ask what training showed?"
    if evidence.training is None:
        why = "The training data are not at hand, so the inputs of the test cannot be compared with them."
        return Section(key, title, missing=why)
    trained, test = evidence.training.inputs, evidence.join(lambda r: r.inputs)
    beyond, any_beyond = outside(trained, test)
    panels = []
    for column, name in enumerate(evidence.input_names):
        note = f"{_share(beyond[column])} of the test rows outside the training range"
        edges = common_edges(trained[:, column], test[:, column])
        panels.append(_shares(evidence, name, trained[:, column], test[:, column], edges, note))
        panels.append(_deviation(evidence, name, test[:, column], edges))
    lead = (
        f"{_share(any_beyond)} of the test rows lie outside the range of the training data in some input. Where "
        "training has no rows, the model guesses, and its deviation should rise."
    )
    return Section(key, title, lead, tuple(panels), columns=2)


def _shares(
    evidence: RunEvidence, name: str, trained: np.ndarray, asked: np.ndarray, edges: np.ndarray, note: str
) -> Panel:
    centre, width = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0])
    marks = (
        Bars("training", centre, 100 * shares(trained, edges), "faint", width),
        Line("test", centre, 100 * shares(asked, edges), "model", 1.6, steps=True),
    )
    alt = f"Histogram of the input {name} in training and test; {note}."
    return Panel(name, evidence.label(name), "share of rows / %", marks, alt, note, x_range=_span(edges))


def _deviation(evidence: RunEvidence, name: str, asked: np.ndarray, edges: np.ndarray) -> Panel:
    """Predicted deviation of every output along one input, relative to the output's mean predicted deviation."""
    centre = (edges[:-1] + edges[1:]) / 2
    marks, highest = [], (0.0, "", 0.0)
    for k, output in enumerate(evidence.output_names):
        std = evidence.join(lambda r, k=k: r.run.std[:, k])
        along = mean_by_bin(asked, std / std.mean(), edges)
        marks.append(Line(output, centre, along, part_role(k), 1.6))
        at = int(np.nanargmax(along))
        highest = max(highest, (float(along[at]), output, float(centre[at])))
    note = f"largest: {highest[0]:.1f} times the average of {highest[1]} at {highest[2]:.3g}"
    alt = f"Predicted deviation along the input {name}; {note}."
    labels, ranges = (evidence.label(name), "predicted deviation / its average"), (0.0, 1.15 * max(highest[0], 1.0))
    return Panel(name, *labels, tuple(marks), alt, note, x_range=_span(edges), y_range=ranges)


def _share(share: float) -> str:
    if share == 0:
        return "None"
    return f"{100 * share:.2g} %" if share > 5e-4 else "Less than 0.1 %"


def _span(edges: np.ndarray) -> tuple[float, float]:
    return float(edges[0]), float(edges[-1])
