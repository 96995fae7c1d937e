"""How training went: bound, likelihood and KL of every component, cycle by cycle."""

import numpy as np

from mrgpssm.report.chart import Line, Mark, Panel, Section
from mrgpssm.report.charts.simulation import component_label
from mrgpssm.report.evidence import Evidence, Trace
from mrgpssm.report.palette import part_role


def training(evidence: Evidence) -> Section:
    """Bound, likelihood and KL of the chosen restart of every model."""
    key, title = "training", "How training went"
    trace = evidence.trace
    if trace is None or not len(trace.done):
        return Section(key, title, "", missing="The run left no trace of its training, so its course cannot be drawn.")
    bounds = evidence.learned.bounds
    panels: list[Panel] = []
    for g, group in enumerate(evidence.learned.groups):
        member = g * bounds.shape[1] + int(bounds[g].argmax())
        name = ", ".join(evidence.output_names[k] for k in group)
        panels += _panels(evidence, trace, member, name)
    skipped = "" if np.isfinite(trace.kl).any() else " This run's trace holds no KL terms, so only the bound is drawn."
    lead = (
        "Mean over each chunk of steps, of the restart that was kept. The bound is what training raises: expected "
        "log-likelihood (dashed) minus KL. Components count their own steps, so their bounds are not comparable. A bound "
        f"that still climbs at the end asks for more cycles.{skipped}"
    )
    return Section(key, title, lead, tuple(panels), columns=2)


def _panels(evidence: Evidence, trace: Trace, member: int, name: str) -> list[Panel]:
    cycles = int(trace.cycle.max())
    x = trace.done / trace.total * cycles
    bound, kl = trace.bound[:, member], trace.kl[:, member]
    top: list[Mark] = []
    bottom: list[Mark] = []
    for i in range(len(evidence.resolutions)):
        rows = np.flatnonzero(trace.component == i + 1)
        label = component_label(evidence, i)
        top.append(Line(f"bound, {label}", x[rows], bound[rows], part_role(i)))
        if np.isfinite(kl).any():
            likelihood = bound[rows] + kl[rows]
            top.append(Line(f"likelihood, {label}", x[rows], likelihood, part_role(i), 1.0, dash=True))
            bottom.append(Line(label, x[rows], kl[rows], part_role(i)))
    note = _climb(trace, bound)
    panels = [
        Panel(name, "cycle", "bound / nats", tuple(top), note=note, y_range=_late_range(trace, bound, kl),
              alt=f"Lower bound and likelihood of {name} over training cycles; {note}.")
    ]  # fmt: skip
    if bottom:
        final = kl[np.isfinite(kl)][-1]
        panels.append(
            Panel(name, "cycle", "KL / nats", tuple(bottom), note=f"KL at the end {final:.0f}",
                  alt=f"Kullback-Leibler terms of {name} over training cycles; {final:.0f} at the end.")
        )  # fmt: skip
    return panels


def _climb(trace: Trace, bound: np.ndarray) -> str:
    """What the last cycle still brought, for the component where it was most."""
    last, parts = trace.cycle.max(), np.unique(trace.component)
    if last < 2:
        return "one cycle"
    gains = []
    for part in parts:
        now, before = (np.nanmean(bound[(trace.component == part) & (trace.cycle == c)]) for c in (last, last - 1))
        gains.append(now - before)
    return f"the last cycle changed the bound by {max(gains, key=abs):+.3g}"


def _late_range(trace: Trace, bound: np.ndarray, kl: np.ndarray) -> tuple[float, float] | None:
    """The vertical range without the first steps, whose bounds would flatten everything else."""
    likelihood = bound + np.where(np.isfinite(kl), kl, 0.0)
    late = (trace.cycle > 1) & np.isfinite(bound)
    if not late.any():
        return None
    low, high = float(np.quantile(bound[late], 0.02)), float(likelihood[late].max())
    margin = 0.08 * max(high - low, 1e-9)
    return low - margin, high + margin
