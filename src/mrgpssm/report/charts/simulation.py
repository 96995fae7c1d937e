"""The free run against the measurement: all of it, the worst stretches, and the components."""

import numpy as np

from mrgpssm.report.chart import Band, Line, Mark, Panel, Section
from mrgpssm.report.evidence import RunEvidence, SimulatedRecording
from mrgpssm.report.palette import part_role
from mrgpssm.report.statistics import worst_segments

_WORST = 3
_SEGMENT = (100, 600)  # rows of a worst segment, least and most


def timeline(evidence: RunEvidence) -> tuple[np.ndarray, tuple[int, ...]]:
    """Times of all recordings laid end to end, a short pause between them, and the rows where a new one begins."""
    total = sum(float(r.elapsed[-1]) for r in evidence.recordings)
    pause = max(0.01 * total, 2 * evidence.dt)
    parts, start = [], 0.0
    for r in evidence.recordings:
        parts.append(start + r.elapsed)
        start += float(r.elapsed[-1]) + pause
    return np.concatenate(parts), tuple(np.cumsum([len(part) for part in parts])[:-1].tolist())


def simulation(evidence: RunEvidence) -> Section:
    """Simulated against measured, with 50 and 90 % bands."""
    (time, breaks), panels = timeline(evidence), []
    for k, (name, found) in enumerate(zip(evidence.output_names, evidence.scores, strict=True)):
        unit = evidence.units.get(name, "")
        note = (
            f"fit {found['fit_percent']:.0f} %, RMSE {found['rmse']:.3g}{' ' + unit if unit else ''}, "
            f"{100 * found['coverage_90']:.0f} % of the measured values inside the 90 % band"
        )
        note = "the free run is not finite" if k in evidence.lost else note
        alt = f"Measured and simulated {name} over time with 50 and 90 % bands: {note}."
        marks, labels = _run_marks(evidence.recordings, slice(None), time, k), ("time / s", evidence.label(name))
        panels.append(Panel(name, *labels, marks, alt, note, wide=True, long=True, breaks=breaks))
    lead = (
        "The model sees the inputs only, from the first row of each recording to its last. The measured line should "
        "stay inside the inner band half of the time and inside the outer one nine times of ten."
    )
    return Section("simulation", "Simulated and measured", lead, tuple(panels))


def worst(evidence: RunEvidence) -> Section:
    """The worst stretches of every output, with every row drawn."""
    rows = int(np.clip(max(len(r.elapsed) for r in evidence.recordings) // 20, *_SEGMENT))
    panels = []
    for k, name in enumerate(evidence.output_names):
        whole = np.sqrt(np.nanmean(np.concatenate(evidence.errors(k)) ** 2))
        for r, part, rms in _worst_of(evidence, k, rows):
            t = r.elapsed[part]
            place = f"{r.name}, " if len(evidence.recordings) > 1 else ""
            note = f"{place}{t[0]:.5g} to {t[-1]:.5g} s: {rms / whole:.1f} times the overall RMSE"
            alt = f"{name} where the simulation is worst: {note}."
            labels = ("time since the start of the recording / s", evidence.label(name))
            panels.append(Panel(name, *labels, _run_marks((r,), part, t, k), alt, note))
    lead = f"The {_WORST} stretches of {rows} rows with the largest error of each output, with every row drawn."
    return Section("worst", "Where it is worst", lead, tuple(panels))


def components(evidence: RunEvidence) -> Section:
    """The contribution of each component."""
    key, title = "components", "Slow and fast parts"
    parts = list(evidence.recordings[0].run.components)
    if len(parts) == 1:
        return Section(key, title, missing="The model has one component, so there is nothing to take apart.")
    (time, breaks), panels = timeline(evidence), []
    slow_first = np.argsort(evidence.resolutions, kind="stable")[::-1]
    for k, name in enumerate(evidence.output_names):
        offset = float(evidence.recordings[0].run.offset[k])
        measured = evidence.join(lambda r, k=k: r.measured[:, k]) - offset
        for index in slow_first:
            values = evidence.join(lambda r, k=k, part=parts[index]: r.run.components[part][:, k])
            note = f"{evidence.component_label(index)}, standard deviation {np.std(values):.3g}"
            alt = f"Contribution of one component to {name} over time: {note}."
            marks = (
                Line("measured", time, measured, "faint", 1.2),
                Line("component", time, values, part_role(index), 1.5),
            )
            labels = ("time / s", f"part of {evidence.label(name)}")
            panels.append(Panel(name, *labels, marks, alt, note, wide=True, long=True, breaks=breaks))
    lead = (
        "Mean contribution of each component, slow ones first; together with the mean of the training data they add up "
        "to the simulation."
    )
    return Section(key, title, lead, tuple(panels))


def _run_marks(
    recordings: tuple[SimulatedRecording, ...], part: slice, time: np.ndarray, output: int
) -> tuple[Mark, ...]:
    """Some rows of one output: measured, simulated, and the bands."""

    def join(values) -> np.ndarray:
        return np.concatenate([values(r)[part, output] for r in recordings])

    def edge(level: float) -> np.ndarray:
        return join(lambda r: r.run.quantile(level))

    return (
        Band("90 % band", time, edge(0.05), edge(0.95), "model", 0.18),
        Band("50 % band", time, edge(0.25), edge(0.75), "model", 0.32),
        Line("measured", time, join(lambda r: r.measured), "measured", width=1.1),
        Line("simulated", time, join(lambda r: r.run.mean), "model", width=1.5),
    )


def _worst_of(evidence: RunEvidence, output: int, rows: int) -> list[tuple[SimulatedRecording, slice, float]]:
    """Recording, rows and RMS error of the worst stretches over all recordings."""
    found = [
        (r, slice(start, start + rows), rms)
        for r in evidence.recordings
        for start, rms in worst_segments(r.error[:, output], rows, _WORST)
    ]
    return sorted(found, key=lambda f: -f[2])[:_WORST]
