"""Residuals: is the error correlated in time and with the inputs, does it grow, and at which frequencies is it?"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.report.chart import Line, Mark, Panel, Rule, Section
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import PARTS, part_role
from mrgpssm.report.statistics import (
    autocorrelation,
    cross_correlation,
    cross_limit,
    horizon_edges,
    log_average,
    rms_by_horizon,
    segment_rows,
    welch,
    white_limit,
)

_UNEVEN = "The recordings are sampled unevenly, so lags have no common length and correlations are not drawn."
_LEAST_ROWS = 64  # of a spectrum


@dataclass(frozen=True)
class Follows:
    """The cross-correlation of one output's error with one input: lags in rows, values, and the 99 % limit."""

    input: str
    lags: np.ndarray
    values: np.ndarray
    limit: float

    @property
    def peak(self) -> tuple[float, float]:
        """The strongest correlation at a lag of zero or more, and that lag in rows."""
        after = np.where(self.lags >= 0, np.abs(self.values), 0.0)
        at = int(np.argmax(after))
        return float(self.values[at]), float(self.lags[at])


def find_follows(evidence: RunEvidence, output: int) -> list[Follows]:
    """Cross-correlations of the error of one output with every input."""
    lags, errors = _lag_rows(evidence), evidence.errors(output)
    own, found = autocorrelation(errors, lags), []
    for column, name in enumerate(evidence.input_names):
        drive = [r.inputs[:, column] for r in evidence.recordings]
        limit = cross_limit(autocorrelation(drive, lags), own, _count(errors))
        values = cross_correlation(drive, errors, lags)
        found.append(Follows(name, np.arange(-lags, lags + 1), values, limit))
    return found


def autocorrelations(evidence: RunEvidence) -> Section:
    """Autocorrelation of every output's error, with 99 % limits."""
    key, title = "autocorrelation", "Does the error remember itself?"
    if not evidence.is_even:
        return Section(key, title, missing=_UNEVEN)
    lags = _lag_rows(evidence)
    time, panels = evidence.dt * np.arange(lags + 1), []
    for k, name in enumerate(evidence.output_names):
        errors = evidence.errors(k)
        r, limit = autocorrelation(errors, lags), white_limit(_count(errors))
        below = np.flatnonzero(r < 0.5)
        note = f"stays above one half for {time[-1]:.3g} s"
        if len(below):
            note = f"falls below one half after {time[below[0]]:.3g} s"
        marks = (Line("autocorrelation", time, r, "residual"), Rule("99 % limit", limit), Rule("99 % limit", -limit))
        alt, shown = f"Autocorrelation of the error of {name}: {note}.", (min(1.1 * float(r.min()), -0.25), 1.05)
        panels.append(Panel(name, "lag / s", "autocorrelation of the error", marks, alt, note, y_range=shown))
    lead = (
        "Errors of a free run last as long as the dynamics they come from. Dashed: limits that white noise keeps in "
        "99 % of cases. A slow decay points to a slow part that is missing or wrong."
    )
    return Section(key, title, lead, tuple(panels))


def cross_correlations(evidence: RunEvidence) -> Section:
    """Cross-correlation of every output's error with each input, with 99 % limits."""
    key, title = "cross-correlation", "Does the error follow an input?"
    if not evidence.is_even:
        return Section(key, title, missing=_UNEVEN)
    panels = []
    for k, name in enumerate(evidence.output_names):
        found = _strongest(find_follows(evidence, k))
        limit = max(f.limit for f in found)
        lines = [Line(f.input, evidence.dt * f.lags, f.values, part_role(i), 1.3) for i, f in enumerate(found)]
        marks = (*lines, Rule("99 % limit", limit), Rule("99 % limit", -limit))
        strongest = max(found, key=lambda f: abs(f.peak[0]))
        value, lag = strongest.peak
        note = f"strongest: {strongest.input}, {value:.2f} after {lag * evidence.dt:.3g} s"
        alt = f"Cross-correlation of the error of {name} with each input; {note}."
        labels = ("lag behind the input / s", "correlation with the input")
        widest = 1.15 * max(float(np.max(np.abs([f.values for f in found]))), limit)
        panels.append(Panel(name, *labels, marks, alt, note, y_range=(-widest, widest)))
    many = len(evidence.input_names)
    some = f" Of {many} inputs the {len(PARTS)} strongest of each output are drawn." if many > len(PARTS) else ""
    lead = (
        "Anything beyond the dashed limits at a positive lag is an effect of that input that the model misses. The "
        f"limits are those of 99 % chance for series as slow as these; the widest over all inputs is drawn.{some}"
    )
    return Section(key, title, lead, tuple(panels))


def horizon_growth(evidence: RunEvidence) -> Section:
    """RMSE over the time since the free run began, beside the predicted standard deviation."""
    elapsed = [r.elapsed for r in evidence.recordings]
    edges, panels = horizon_edges(max(float(t[-1]) for t in elapsed), evidence.dt), []
    for k, name in enumerate(evidence.output_names):
        t, rmse = rms_by_horizon(elapsed, evidence.errors(k), edges)
        expected = [np.where(np.isnan(r.measured[:, k]), np.nan, r.run.std[:, k]) for r in evidence.recordings]
        at, own = rms_by_horizon(elapsed, expected, edges)
        deviation = float(np.nanstd(evidence.join(lambda r, k=k: r.measured[:, k])))
        marks = (
            Line("actual", t, rmse, "residual", 1.8),
            Line("expected by the model", at, own, "model", 1.4, dash=True),
            Rule("deviation of the output", deviation),
        )
        note = f"last horizon: RMSE {rmse[-1]:.3g}, the output's own deviation is {deviation:.3g}"
        alt = f"Error of {name} against the time since the free run began; {note}."
        labels = ("time since the start / s", f"RMSE of {evidence.label(name)}")
        shown = (0.0, 1.15 * max(float(rmse.max()), float(own.max()), deviation))
        panels.append(Panel(name, *labels, marks, alt, note, log_x=True, y_range=shown))
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
        return Section(key, title, missing="The recordings are sampled unevenly, so spectra are not drawn.")
    if max(lengths) < _LEAST_ROWS:
        why = f"The longest recording has {max(lengths)} rows; spectra need at least {_LEAST_ROWS}."
        return Section(key, title, missing=why)
    rows = segment_rows(lengths)
    lead = (
        "Where the line of the error touches that of the measurement, the model explains nothing: at high "
        "frequencies that is noise, at low ones a missing slow part."
    )
    panels = tuple(_spectrum(evidence, k, name, rows) for k, name in enumerate(evidence.output_names))
    return Section(key, title, lead, panels)


def _spectrum(evidence: RunEvidence, k: int, name: str, rows: int) -> Panel:
    def curve(values: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        frequency, density = log_average(*welch(values, evidence.dt, rows))
        return frequency, np.maximum(density, 1e-30)

    frequency, measured = curve([r.measured[:, k] for r in evidence.recordings])
    _, error = curve(evidence.errors(k))
    marks: list[Mark] = [
        Line("measured", frequency, measured, "measured", 1.6),
        Line("error", frequency, error, "residual", 1.6),
    ]
    parts = list(evidence.recordings[0].run.components)
    for index, part in enumerate(parts if len(parts) > 1 else []):
        shown = curve([r.run.components[part][:, k] for r in evidence.recordings])
        marks.append(Line(evidence.component_label(index), *shown, part_role(index), 1.2, dash=True))
    note, unit = _crossing(frequency, measured, error), evidence.units.get(name, "")
    low, high = min(float(measured.min()), float(error.min())), max(float(measured.max()), float(error.max()))
    labels = ("frequency / Hz", f"power density / ({unit})² per Hz" if unit else "power density / per Hz")
    alt, span = f"Spectra of {name} and its error: {note}.", (0.3 * max(low, 1e-12 * high), 3 * high)
    return Panel(name, *labels, tuple(marks), alt, note, log_x=True, log_y=True, y_range=span)


def _lag_rows(evidence: RunEvidence) -> int:
    """The largest lag: ten steps of the slowest component, at least 40 rows, at most a quarter of the longest run."""
    longest = max(len(r.elapsed) for r in evidence.recordings)
    return int(max(min(max(10 * max(evidence.resolutions), 40), longest // 4, 1000), 1))


def _count(errors: list[np.ndarray]) -> int:
    """Errors that are known."""
    return sum(int((~np.isnan(e)).sum()) for e in errors)


def _strongest(found: list[Follows]) -> list[Follows]:
    """The inputs with the strongest correlations, as many as there are colours, in their original order."""
    ranked = sorted(range(len(found)), key=lambda i: -abs(found[i].peak[0]))[: len(PARTS)]
    return [found[i] for i in sorted(ranked)]


def _crossing(frequency: np.ndarray, measured: np.ndarray, error: np.ndarray) -> str:
    """Up to which frequency the error has less than half of the power."""
    lost = np.flatnonzero(error > 0.5 * measured)
    if not len(lost):
        return "the error has less than half of the power at every frequency"
    if lost[0] == 0:
        return "the error has more than half of the power already at the lowest frequency"
    return f"more than half of the power is explained up to {frequency[lost[0]]:.2g} Hz"
