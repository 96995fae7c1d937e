"""The free run against the measurement: all of it, the worst stretches, and the components."""

from dataclasses import replace

import numpy as np

from mrgpssm.report.chart import Band, Line, Mark, Panel, Section
from mrgpssm.report.diagnostics.segments import worst_segments
from mrgpssm.report.evidence import RunEvidence, SimulatedRecording, score
from mrgpssm.report.palette import part_role

_WORST = 3
_SEGMENT = (100, 600)  # rows of a worst segment, least and most


def timeline(evidence: RunEvidence) -> tuple[np.ndarray, tuple[int, ...]]:
    """Times of all recordings laid end to end, a short pause between them, and the rows where a new one begins."""
    total = sum(float(r.elapsed[-1]) for r in evidence.recordings)
    pause = max(0.01 * total, 2 * evidence.dt)
    parts, breaks, start, rows = [], [], 0.0, 0
    for r in evidence.recordings:
        parts.append(start + r.elapsed)
        start += float(r.elapsed[-1]) + pause
        rows += len(r.elapsed)
        breaks.append(rows)
    return np.concatenate(parts), tuple(breaks[:-1])


def simulation(evidence: RunEvidence) -> Section:
    """Simulated against measured, with 50 and 90 % bands."""
    time, breaks = timeline(evidence)
    panels, lost = [], {k for r in evidence.recordings for k in r.lost}
    for k, (name, found) in enumerate(zip(evidence.output_names, score(evidence), strict=True)):
        unit = evidence.units.get(name, "")
        numbers = (
            "the free run is not finite"
            if k in lost
            else (
                f"fit {found['fit_percent']:.0f} %, RMSE {found['rmse']:.3g}{' ' + unit if unit else ''}, "
                f"{100 * found['coverage_90']:.0f} % of the measured values inside the 90 % band"
            )
        )
        panels.append(
            Panel(
                title=name,
                note=numbers,
                x_label="time / s",
                y_label=evidence.label(name),
                marks=_run_marks(evidence.recordings, time, k),
                alt=f"Measured and simulated {name} over time with 50 and 90 % bands: {numbers}.",
                wide=True,
                long=True,
                breaks=breaks,
            )
        )
    lead = (
        "The model sees the inputs only, from the first row of each recording to its last. The measured line should "
        "stay inside the inner band half of the time and inside the outer one nine times of ten."
    )
    return Section("simulation", "Simulated and measured", lead, tuple(panels))


def worst(evidence: RunEvidence) -> Section:
    """The worst stretches of every output, with every row drawn."""
    low, high = _SEGMENT
    rows = int(np.clip(max(len(r.elapsed) for r in evidence.recordings) // 20, low, high))
    panels = []
    for k, name in enumerate(evidence.output_names):
        whole = np.sqrt(np.nanmean(np.concatenate(evidence.errors(k)) ** 2))
        for where, start, rms in _worst_of(evidence, k, rows):
            r = evidence.recordings[where]
            part = slice(start, start + rows)
            t = r.elapsed[part]
            place = f"{r.name}, " if len(evidence.recordings) > 1 else ""
            note = f"{place}{t[0]:.5g} to {t[-1]:.5g} s: {rms / whole:.1f} times the overall RMSE"
            panels.append(
                Panel(
                    title=name,
                    note=note,
                    x_label="time since the start of the recording / s",
                    y_label=evidence.label(name),
                    marks=_run_marks([_cut(r, part)], t, k),
                    alt=f"{name} where the simulation is worst: {note}.",
                )
            )
    lead = f"The {_WORST} stretches of {rows} rows with the largest error of each output, with every row drawn."
    return Section("worst", "Where it is worst", lead, tuple(panels))


def components(evidence: RunEvidence) -> Section:
    """The contribution of each component."""
    key, title = "components", "Slow and fast parts"
    parts = list(evidence.recordings[0].run.components)
    if len(parts) == 1:
        why = "The model has one component, so there is nothing to take apart."
        return Section(key, title, "", missing=why)
    time, breaks = timeline(evidence)
    panels = []
    for k, name in enumerate(evidence.output_names):
        offset = float(evidence.recordings[0].run.offset[k])
        measured = np.concatenate([r.measured[:, k] for r in evidence.recordings]) - offset
        slow_first = np.argsort(evidence.resolutions, kind="stable")[::-1]
        for index in slow_first:
            values = np.concatenate([r.run.components[parts[index]][:, k] for r in evidence.recordings])
            note = f"{component_label(evidence, index)}, standard deviation {np.std(values):.3g}"
            marks = (
                Line("measured", time, measured, "faint", 1.2),
                Line("component", time, values, part_role(index), 1.5),
            )
            panels.append(
                Panel(
                    title=name,
                    x_label="time / s",
                    y_label=f"part of {evidence.label(name)}",
                    marks=marks,
                    wide=True,
                    long=True,
                    note=note,
                    alt=f"Contribution of one component to {name} over time: {note}.",
                    breaks=breaks,
                )
            )
    lead = (
        "Mean contribution of each component, slow ones first; together with the mean of the training data they add up "
        "to the simulation."
    )
    return Section(key, title, lead, tuple(panels))


def component_label(evidence: RunEvidence, index: int) -> str:
    """Which component, by its resolution and the seconds one of its steps takes."""
    r = evidence.resolutions[index]
    same = f"#{index + 1}, " if evidence.resolutions.count(r) > 1 else ""
    return f"{same}R = {r} ({r * evidence.dt:g} s)"


def _run_marks(
    recordings: list[SimulatedRecording] | tuple[SimulatedRecording, ...], time: np.ndarray, k: int
) -> tuple[Mark, ...]:
    def join(values) -> np.ndarray:
        return np.concatenate([values(r)[:, k] for r in recordings])

    def edge(level: float) -> np.ndarray:
        return join(lambda r: r.run.quantile(level))

    return (
        Band("90 % band", time, edge(0.05), edge(0.95), "model", 0.18),
        Band("50 % band", time, edge(0.25), edge(0.75), "model", 0.32),
        Line("measured", time, join(lambda r: r.measured), "measured", width=1.1),
        Line("simulated", time, join(lambda r: r.run.mean), "model", width=1.5),
    )


def _cut(r: SimulatedRecording, part: slice) -> SimulatedRecording:
    """A stretch of a recording."""
    quantiles = {q: r.run.quantiles[q][part] for q in (0.05, 0.25, 0.75, 0.95)}
    run = replace(r.run, mean=r.run.mean[part], quantiles=quantiles)
    return replace(r, measured=r.measured[part], elapsed=r.elapsed[part], run=run)


def _worst_of(evidence: RunEvidence, output: int, rows: int) -> list[tuple[int, int, float]]:
    """Recording, first row and RMS error of the worst stretches over all recordings."""
    found = [
        (where, start, rms)
        for where, error in enumerate(evidence.errors(output))
        for start, rms in worst_segments(error, rows, _WORST)
    ]
    return sorted(found, key=lambda f: -f[2])[:_WORST]
