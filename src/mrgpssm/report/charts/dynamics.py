"""The learned dynamics: the drift of every component, and which inputs matter to it."""

import numpy as np

from mrgpssm.prediction.learned import DriftMap, LearnedComponent
from mrgpssm.report.chart import Bars, Heat, Panel, Points, Section, Ticks
from mrgpssm.report.charts.simulation import component_label
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import part_role

_MOST = 12


def drift_fields(evidence: RunEvidence) -> Section:
    """dx/dt of every component over its level and its most relevant input."""
    maps = evidence.learned.drifts
    key, title = "drift", "What was learned: drift"
    if not maps:
        why = "No component stays finite when it runs on its own, so there is no drift field to draw."
        return Section(key, title, "", missing=why)
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
    for group, parts in zip(evidence.learned.groups, evidence.learned.components, strict=True):
        name = ", ".join(evidence.output_names[k] for k in group)
        d = len(parts[0].gain)
        curved = [1 / p.lengthscales[d:] for p in parts]
        panels.append(_bars(evidence, parts, curved, name, "1 / lengthscale", "curved part (Gaussian process)"))
        if any(np.any(p.gain) for p in parts):
            straight = [np.linalg.norm(p.gain, axis=0) for p in parts]
            panels.append(_bars(evidence, parts, straight, name, "gain |B|", "straight part (linear)"))
    lead = (
        "Inputs are scaled to unit variance, so bars compare. A long bar is an input the component listens to: a "
        "short lengthscale in its curved part, a large gain in its straight part."
    )
    return Section("relevance", "What was learned: which inputs matter", lead, tuple(panels), columns=2)


def _drift(evidence: RunEvidence, m: DriftMap, index: int) -> Panel:
    output, driver = evidence.output_names[m.output], evidence.drive_names[m.input]
    place = index % len(evidence.resolutions)
    density = Points("visited by the test", m.visited[:, 0], m.visited[:, 1], "measured", 2.2, 0.35)
    x, y = m.inducing.T
    inside = (x >= m.level[0]) & (x <= m.level[-1]) & (y >= m.drive[0]) & (y <= m.drive[-1])
    rings = Points("inducing points", x[inside], y[inside], "part4", 8.0, hollow=True)
    unit = evidence.units.get(output, "")
    note = f"{component_label(evidence, place)}, {int(inside.sum())} of {len(inside)} inducing points in view"
    return Panel(
        title=output,
        note=note,
        x_label=f"level of the component{' / ' + unit if unit else ''}",
        y_label=evidence.label(driver),
        marks=(
            Heat(f"rate{' / ' + unit if unit else ''} per s", m.level, m.drive, m.drift, diverging=True),
            density,
            rings,
        ),
        alt=f"Drift of the component {note} of {output} over its level and the input {driver}.",
        x_range=(float(m.level[0]), float(m.level[-1])),
        y_range=(float(m.drive[0]), float(m.drive[-1])),
    )


def _bars(
    evidence: RunEvidence,
    parts: tuple[LearnedComponent, ...],
    values: list[np.ndarray],
    name: str,
    label: str,
    note: str,
) -> Panel:
    """Grouped bars, first input at the top."""
    names = (*evidence.drive_names, *evidence.learned.states)
    count, inputs = len(parts), len(names)
    height = 0.8 / count
    marks = []
    for i, v in enumerate(values):
        place = np.arange(inputs) + (i - (count - 1) / 2) * height
        marks.append(Bars(component_label(evidence, i), place, v, part_role(i), 0.92 * height, across=True))
    strongest = names[int(np.argmax(np.sum(values, axis=0)))]
    ticks = Ticks(tuple(float(i) for i in range(inputs)), names)
    return Panel(
        title=name,
        x_label=label,
        y_label="input",
        marks=tuple(marks),
        note=note,
        y_ticks=ticks,
        y_range=(inputs - 0.5, -0.5),
        alt=f"Relevance of each input for {name}, {note}: {strongest} matters most.",
    )
