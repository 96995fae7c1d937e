"""Residuals: is the error correlated in time, and with the inputs?"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.report.chart import Line, Mark, Panel, Rule, Section
from mrgpssm.report.diagnostics.correlation import autocorrelation, cross_correlation, cross_limit, white_limit
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import PARTS, part_role

_UNEVEN = "The recordings are sampled unevenly, so lags have no common length and correlations are not drawn."


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


def lag_rows(evidence: RunEvidence) -> int:
    """The largest lag: ten steps of the slowest component, at least 40 rows, at most a quarter of the longest run."""
    longest = max(len(r.elapsed) for r in evidence.recordings)
    return int(max(min(max(10 * max(evidence.resolutions), 40), longest // 4, 1000), 1))


def follows(evidence: RunEvidence, output: int) -> list[Follows]:
    """Cross-correlations of the error of one output with every input."""
    lags, errors = lag_rows(evidence), evidence.errors(output)
    count = sum(int((~np.isnan(e)).sum()) for e in errors)
    own = autocorrelation(errors, lags)
    found = []
    for column, name in enumerate(evidence.input_names):
        drive = [r.inputs[:, column] for r in evidence.recordings]
        limit = cross_limit(autocorrelation(drive, lags), own, count)
        values = cross_correlation(drive, errors, lags)
        found.append(Follows(name, np.arange(-lags, lags + 1), values, limit))
    return found


def autocorrelations(evidence: RunEvidence) -> Section:
    """Autocorrelation of every output's error, with 99 % limits."""
    key, title = "autocorrelation", "Does the error remember itself?"
    if not evidence.is_even:
        return Section(key, title, "", missing=_UNEVEN)
    lags = lag_rows(evidence)
    time = evidence.dt * np.arange(lags + 1)
    panels = []
    for k, name in enumerate(evidence.output_names):
        errors = evidence.errors(k)
        r, limit = autocorrelation(errors, lags), white_limit(sum(int((~np.isnan(e)).sum()) for e in errors))
        below = np.flatnonzero(r < 0.5)
        note = (
            f"falls below one half after {time[below[0]]:.3g} s"
            if len(below)
            else f"stays above one half for {time[-1]:.3g} s"
        )
        marks = (Line("autocorrelation", time, r, "residual"), Rule("99 % limit", limit), Rule("99 % limit", -limit))
        panels.append(
            Panel(
                title=name,
                x_label="lag / s",
                y_label="autocorrelation of the error",
                marks=marks,
                note=note,
                y_range=_symmetric(r, -0.25),
                alt=f"Autocorrelation of the error of {name}: {note}.",
            )
        )
    lead = (
        "Errors of a free run last as long as the dynamics they come from. Dashed: limits that white noise keeps in "
        "99 % of cases. A slow decay points to a slow part that is missing or wrong."
    )
    return Section(key, title, lead, tuple(panels))


def cross_correlations(evidence: RunEvidence) -> Section:
    """Cross-correlation of every output's error with each input, with 99 % limits."""
    key, title = "cross-correlation", "Does the error follow an input?"
    if not evidence.is_even:
        return Section(key, title, "", missing=_UNEVEN)
    panels = []
    for k, name in enumerate(evidence.output_names):
        found = _strongest(follows(evidence, k))
        marks: list[Mark] = [
            Line(f.input, evidence.dt * f.lags, f.values, part_role(i), 1.3) for i, f in enumerate(found)
        ]
        limit = max(f.limit for f in found)
        marks += [Rule("99 % limit", limit), Rule("99 % limit", -limit)]
        strongest = max(found, key=lambda f: abs(f.peak[0]))
        value, lag = strongest.peak
        note = f"strongest: {strongest.input}, {value:.2f} after {lag * evidence.dt:.3g} s"
        widest = max(float(np.max(np.abs([f.values for f in found]))), limit)
        panels.append(
            Panel(
                title=name,
                x_label="lag behind the input / s",
                y_label="correlation with the input",
                marks=tuple(marks),
                note=note,
                y_range=(-1.15 * widest, 1.15 * widest),
                alt=f"Cross-correlation of the error of {name} with each input; {note}.",
            )
        )
    many = len(evidence.input_names)
    some = f" Of {many} inputs the {len(PARTS)} strongest of each output are drawn." if many > len(PARTS) else ""
    lead = (
        "Anything beyond the dashed limits at a positive lag is an effect of that input that the model misses. The "
        f"limits are those of 99 % chance for series as slow as these; the widest over all inputs is drawn.{some}"
    )
    return Section(key, title, lead, tuple(panels))


def _strongest(found: list[Follows]) -> list[Follows]:
    """The inputs with the strongest correlations, as many as there are colours, in their original order."""
    ranked = sorted(range(len(found)), key=lambda i: -abs(found[i].peak[0]))[: len(PARTS)]
    return [found[i] for i in sorted(ranked)]


def _symmetric(r: np.ndarray, least: float) -> tuple[float, float]:
    return min(1.1 * float(r.min()), least), 1.05
