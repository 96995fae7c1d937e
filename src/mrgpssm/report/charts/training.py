"""The course of training: bound, likelihood and KL of every component over the cycles."""

import numpy as np

from mrgpssm.report.chart import Line, Mark, Panel, Section
from mrgpssm.report.charts.simulation import component_label
from mrgpssm.report.evidence import RunEvidence, Trace
from mrgpssm.report.palette import part_role


def training(evidence: RunEvidence) -> Section:
    """Bound, likelihood and KL of the best restart of every model."""
    key, title = "training", "How training went"
    trace = evidence.trace
    if trace is None or not len(trace.done):
        return Section(key, title, "", missing="The run left no trace of its training, so its course cannot be drawn.")
    learned, panels = evidence.learned, []
    each = trace.bound.shape[1] // len(learned.groups)  # restarts, and then folds
    for g, group in enumerate(learned.groups):
        member = g * each + (int(learned.bounds[g].argmax()) if learned.bounds.size else 0)
        name = ", ".join(evidence.output_names[k] for k in group)
        panels += _panels(evidence, trace, member, name)
    skipped = "" if np.isfinite(trace.kl).any() else " This run's trace holds no KL terms, so only the bound is drawn."
    lead = (
        "Means over chunks of steps, of the restart with the best bound. The bound is what training raises: expected "
        "log-likelihood minus KL. Each component has a number of steps of its own, so heights do not compare "
        f"between components. A bound that still climbs at the end asks for more cycles.{skipped}"
    )
    return Section(key, title, lead, tuple(panels))


def _panels(evidence: RunEvidence, trace: Trace, member: int, name: str) -> list[Panel]:
    """Bound, and where the trace has KL terms, likelihood and KL."""
    cycles = int(trace.cycle.max())
    x = trace.done / trace.total * cycles
    bound, kl = trace.bound[:, member], trace.kl[:, member]
    shown = {"bound": bound, "likelihood": bound + kl, "KL": kl} if np.isfinite(kl).any() else {"bound": bound}
    panels = []
    for what, values in shown.items():
        marks: list[Mark] = []
        for i in range(len(evidence.resolutions)):
            rows = np.flatnonzero(trace.component == i + 1)
            marks.append(Line(component_label(evidence, i), x[rows], values[rows], part_role(i), 1.6))
        note = f"{what}; last cycle: {_change(evidence, trace, values)}" if what == "bound" else what
        panels.append(
            Panel(
                title=name,
                x_label="cycle",
                y_label=f"{what} / nats",
                marks=tuple(marks),
                note=note,
                y_range=_late_range(trace, values),
                alt=f"{what} of {name} over training cycles; {note}.",
            )
        )
    return panels


def _change(evidence: RunEvidence, trace: Trace, values: np.ndarray) -> str:
    """The change in the last cycle: the difference of the medians of the last two cycles."""
    last = int(trace.cycle.max())
    if last < 2:
        return "there was only one"
    changes = []
    for i, r in enumerate(evidence.resolutions):
        now, before = (values[(trace.component == i + 1) & (trace.cycle == c)] for c in (last, last - 1))
        changes.append(f"R = {r}: {np.nanmedian(now) - np.nanmedian(before):+,.0f}")
    return ", ".join(changes)


def _late_range(trace: Trace, values: np.ndarray) -> tuple[float, float] | None:
    """The vertical range without the first cycle, which would compress all later ones."""
    late = values[(trace.cycle > 1) & np.isfinite(values)]
    if not len(late):
        return None
    low, high = float(np.quantile(late, 0.05)), float(late.max())
    margin = 0.08 * max(high - low, 1e-9)
    return low - margin, high + margin
