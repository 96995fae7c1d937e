"""Errors over time scales: growth with the horizon, and spectra."""

import numpy as np

from mrgpssm.report.chart import Line, Mark, Panel, Rule, Section
from mrgpssm.report.charts.simulation import component_label
from mrgpssm.report.diagnostics.horizon import horizon_edges, rms_by_horizon
from mrgpssm.report.diagnostics.spectrum import log_average, segment_rows, welch
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import part_role


def horizon_growth(evidence: RunEvidence) -> Section:
    """RMSE over the time since the free run began, beside the predicted standard deviation."""
    elapsed = [r.elapsed for r in evidence.recordings]
    edges = horizon_edges(max(float(t[-1]) for t in elapsed), evidence.dt)
    panels = []
    for k, name in enumerate(evidence.output_names):
        t, rmse = rms_by_horizon(elapsed, evidence.errors(k), edges)
        expected = [np.where(np.isnan(r.measured[:, k]), np.nan, r.run.std[:, k]) for r in evidence.recordings]
        at, own = rms_by_horizon(elapsed, expected, edges)
        deviation = float(np.nanstd(np.concatenate([r.measured[:, k] for r in evidence.recordings])))
        marks = (
            Line("actual", t, rmse, "residual", 1.8),
            Line("expected by the model", at, own, "model", 1.4, dash=True),
            Rule("deviation of the output", deviation),
        )
        note = f"last horizon: RMSE {rmse[-1]:.3g}, the output's own deviation is {deviation:.3g}"
        panels.append(
            Panel(
                title=name,
                x_label="time since the start / s",
                y_label=f"RMSE of {evidence.label(name)}",
                marks=marks,
                log_x=True,
                note=note,
                y_range=(0.0, 1.15 * max(float(rmse.max()), float(own.max()), deviation)),
                alt=f"Error of {name} against the time since the free run began; {note}.",
            )
        )
    count = len(evidence.recordings)
    starts = "one start" if count == 1 else f"{count} starts"
    lead = (
        f"A simulator that forgets or drifts shows an error that keeps growing. The first horizons rest on {starts} "
        "and few rows, so they jump."
    )
    return Section("horizon", "Does the error grow with time?", lead, tuple(panels))


def spectra(evidence: RunEvidence) -> Section:
    """Power density of the output, the error and every component."""
    key, title = "spectra", "Which frequencies are missed?"
    lengths = [len(r.elapsed) for r in evidence.recordings]
    if not evidence.is_even:
        return Section(key, title, "", missing="The recordings are sampled unevenly, so spectra are not drawn.")
    if max(lengths) < 64:
        why = f"The longest recording has {max(lengths)} rows; spectra need at least 64."
        return Section(key, title, "", missing=why)
    rows = segment_rows(lengths)
    panels = []
    for k, name in enumerate(evidence.output_names):
        series = {"measured": [r.measured[:, k] for r in evidence.recordings], "error": evidence.errors(k)}
        curves = {label: _curve(values, evidence.dt, rows) for label, values in series.items()}
        marks: list[Mark] = [
            Line("measured", *curves["measured"], "measured", 1.6),
            Line("error", *curves["error"], "residual", 1.6),
        ]
        if len(evidence.recordings[0].run.components) > 1:
            for index, part in enumerate(evidence.recordings[0].run.components):
                values = [r.run.components[part][:, k] for r in evidence.recordings]
                label = component_label(evidence, index)
                marks.append(Line(label, *_curve(values, evidence.dt, rows), part_role(index), 1.2, dash=True))
        note = _crossing(*curves["measured"], curves["error"][1])
        low = min(float(curves[c][1].min()) for c in curves)
        high = max(float(curves[c][1].max()) for c in curves)
        panels.append(
            Panel(
                title=name,
                x_label="frequency / Hz",
                y_label=_density(evidence, name),
                marks=tuple(marks),
                log_x=True,
                log_y=True,
                note=note,
                y_range=(0.3 * max(low, 1e-12 * high), 3 * high),
                alt=f"Spectra of {name} and its error: {note}.",
            )
        )
    lead = (
        "Where the line of the error touches that of the measurement, the model explains nothing: at high "
        "frequencies that is noise, at low ones a missing slow part."
    )
    return Section(key, title, lead, tuple(panels))


def _curve(values: list[np.ndarray], dt: float, rows: int) -> tuple[np.ndarray, np.ndarray]:
    frequency, density = log_average(*welch(values, dt, rows))
    return frequency, np.maximum(density, 1e-30)


def _crossing(frequency: np.ndarray, measured: np.ndarray, error: np.ndarray) -> str:
    """Up to which frequency the error has less than half of the power."""
    lost = np.flatnonzero(error > 0.5 * measured)
    if not len(lost):
        return "the error has less than half of the power at every frequency"
    if lost[0] == 0:
        return "the error has more than half of the power already at the lowest frequency"
    return f"more than half of the power is explained up to {frequency[lost[0]]:.2g} Hz"


def _density(evidence: RunEvidence, name: str) -> str:
    unit = evidence.units.get(name, "")
    return f"power density / ({unit})² per Hz" if unit else "power density / per Hz"
