"""The learned dynamics: the drift of every component, and which inputs matter to it."""

import numpy as np

from mrgpssm.prediction.learned import DriftMap
from mrgpssm.report.chart import Bars, Heat, Panel, Points, Section
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import part_role

_MOST = 12


def drift_fields(evidence: RunEvidence) -> Section:
    """dx/dt of every component over its level and its most relevant input."""
    maps, key, title = evidence.learned.drifts, "drift", "What was learned: drift"
    if not maps:
        why = "No component stays finite when it runs on its own, so there is no drift field to draw."
        return Section(key, title, missing=why)
    panels = tuple(_drift(evidence, m, i) for i, m in enumerate(maps[:_MOST]))
    more = f" The first {_MOST} of {len(maps)} are drawn." if len(maps) > _MOST else ""
    lead = (
        "How fast a component rises (warm) or falls (cold), given its own level and the input that matters most to "
        "it, all else at its median. Dots are where the test drives it, rings are inducing points: away from both, "
        f"colours are guesses.{more}"
    )
    return Section(key, title, lead, panels)


def relevance(evidence: RunEvidence) -> Section:
    """1 / lengthscale of every input, and the linear gain beside it."""
    panels = []
    for name, parts in zip(evidence.group_names, evidence.learned.components, strict=True):
        d = len(parts[0].gain)
        curved = [1 / p.lengthscales[d:] for p in parts]
        panels.append(_bars(evidence, curved, name, "1 / lengthscale", "curved part (Gaussian process)"))
        if any(np.any(p.gain) for p in parts):
            straight = [np.linalg.norm(p.gain, axis=0) for p in parts]
            panels.append(_bars(evidence, straight, name, "gain |B|", "straight part (linear)"))
    lead = (
        "Inputs are scaled to unit variance, so bars compare. A long bar is an input the component listens to: a "
        "short lengthscale in its curved part, a large gain in its straight part."
    )
    return Section("relevance", "What was learned: which inputs matter", lead, tuple(panels), columns=2)


def _drift(evidence: RunEvidence, m: DriftMap, index: int) -> Panel:
    output, driver = evidence.output_names[m.output], evidence.drive_names[m.input]
    (left, right), (bottom, top) = ((float(axis[0]), float(axis[-1])) for axis in (m.level, m.drive))
    x, y = m.inducing.T
    inside = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    marks = (
        Heat(f"{evidence.label(output, 'rate')} per s", m.level, m.drive, m.drift, diverging=True),
        Points("visited by the test", m.visited[:, 0], m.visited[:, 1], "measured", 2.2, 0.35),
        Points("inducing points", x[inside], y[inside], "part4", 8.0, hollow=True),
    )
    component = evidence.component_label(index % len(evidence.resolutions))
    note = f"{component}, {int(inside.sum())} of {len(inside)} inducing points in view"
    alt = f"Drift of the component {note} of {output} over its level and the input {driver}."
    labels = (evidence.label(output, "level of the component"), evidence.label(driver))
    return Panel(output, *labels, marks, alt, note, x_range=(left, right), y_range=(bottom, top))


def _bars(evidence: RunEvidence, values: list[np.ndarray], name: str, label: str, note: str) -> Panel:
    """Grouped bars, one for every component, first input at the top."""
    names, count = (*evidence.drive_names, *evidence.learned.states), len(values)
    height, marks = 0.8 / count, []
    for i, v in enumerate(values):
        place = np.arange(len(names)) + (i - (count - 1) / 2) * height
        marks.append(Bars(evidence.component_label(i), place, v, part_role(i), 0.92 * height, across=True))
    strongest = names[int(np.argmax(np.sum(values, axis=0)))]
    alt, first_above = (
        f"Relevance of each input for {name}, {note}: {strongest} matters most.",
        (len(names) - 0.5, -0.5),
    )
    return Panel(name, label, "input", tuple(marks), alt, note, y_ticks=names, y_range=first_above)
