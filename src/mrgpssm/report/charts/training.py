"""The course of training, and how much the result depends on the seed and on the choice of resolutions."""

import numpy as np

from mrgpssm.report.chart import Bars, Heat, Line, Panel, Points, Section
from mrgpssm.report.evidence import OtherModel, RunEvidence, Trace
from mrgpssm.report.palette import part_role


def training(evidence: RunEvidence) -> Section:
    """Bound, likelihood and KL of the best restart of every model."""
    key, title, trace = "training", "How training went", evidence.trace
    if trace is None or not len(trace.done):
        return Section(key, title, missing="The run left no trace of its training, so its course cannot be drawn.")
    learned, panels = evidence.learned, []
    each = trace.bound.shape[1] // len(learned.groups)  # restarts, and then folds
    for g, name in enumerate(evidence.group_names):
        member = g * each + (int(learned.bounds[g].argmax()) if learned.bounds.size else 0)
        panels += _courses(evidence, trace, member, name)
    skipped = "" if np.isfinite(trace.kl).any() else " This run's trace holds no KL terms, so only the bound is drawn."
    lead = (
        "Means over chunks of steps, of the restart with the best bound. The bound is what training raises: expected "
        "log-likelihood minus KL. Each component has a number of steps of its own, so heights do not compare "
        f"between components. A bound that still climbs at the end asks for more cycles.{skipped}"
    )
    return Section(key, title, lead, tuple(panels))


def _courses(evidence: RunEvidence, trace: Trace, member: int, name: str) -> list[Panel]:
    """Bound, and where the trace has KL terms, likelihood and KL."""
    x = trace.done / trace.total * int(trace.cycle.max())
    bound, kl = trace.bound[:, member], trace.kl[:, member]
    shown = {"bound": bound, "likelihood": bound + kl, "KL": kl} if np.isfinite(kl).any() else {"bound": bound}
    panels = []
    for what, values in shown.items():
        marks = []
        for i in range(len(evidence.resolutions)):
            rows = np.flatnonzero(trace.component == i + 1)
            marks.append(Line(evidence.component_label(i), x[rows], values[rows], part_role(i), 1.6))
        note = f"{what}; last cycle: {_change(evidence, trace, values)}" if what == "bound" else what
        alt, late = f"{what} of {name} over training cycles; {note}.", _late_range(trace, values)
        panels.append(Panel(name, "cycle", f"{what} / nats", tuple(marks), alt, note, y_range=late))
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


def restart_spread(evidence: RunEvidence) -> Section:
    """Bounds of all restarts of every model, relative to the best."""
    key, title, bounds = "restarts", "Was it luck? Restarts", evidence.learned.bounds
    if bounds.shape[1] < 2:
        why = (
            "The run had one random start, so the spread between starts is unknown; train with restarts = 3 to see it."
        )
        return Section(key, title, missing=why)
    names, mixed = tuple(evidence.group_names), evidence.learned.mixed
    below = np.where(np.isfinite(bounds), bounds.max(axis=1, keepdims=True) - bounds, np.nan)
    known = np.isfinite(below)
    best = np.sort(below, axis=1)[:, :mixed]  # those that were given up come last
    marks = (
        Points("a start", below[known], np.nonzero(known)[0].astype(float), "model", 10.0, 0.6),
        Points("kept", best.ravel(), np.repeat(np.arange(len(names), dtype=float), mixed), "residual", 10.0),
    )
    given_up = f", {np.sum(~known)} given up" if not known.all() else ""
    note = f"{bounds.shape[1]} starts each, up to {below[known].max():,.0f} nats apart{given_up}"
    alt, labels = f"Spread of the lower bounds of restarts: {note}.", ("bound below the best / nats", "output")
    panel = Panel("All restarts", *labels, marks, alt, note, y_ticks=names, y_range=(len(names) - 0.5, -0.5))
    kept_are = "restart with the best bound on the training data was kept"
    if mixed > 1:
        kept_are = f"{mixed} restarts with the best bounds on the training data were kept, as a mixture"
    lead = f"The {kept_are}. A wide spread asks for more restarts."
    return Section(key, title, lead, (panel,), columns=2)


def resolution_grid(evidence: RunEvidence) -> Section:
    """RMSE of this run beside runs with other resolutions."""
    key, title = "resolutions", "Would other resolutions do better?"
    if not evidence.rivals:
        why = "No run with other resolutions was given to compare with; add some with --compare RUN."
        return Section(key, title, missing=why)
    panels = []
    for name, found in zip(evidence.output_names, evidence.scores, strict=True):
        own = OtherModel("this run", evidence.resolutions, {name: found["rmse"]})
        rivals = [own, *(r for r in evidence.rivals if name in r.rmse)]
        panels.append(_ranking(evidence, rivals, name))
        if len(rivals) > 3 and all(len(set(r.resolutions)) <= 2 for r in rivals):
            panels.append(_grid(rivals, name))
    lead = (
        "RMSE of the free run over the test recordings, by resolutions. Other runs bring the scores on their own "
        "validation data: compare runs that had the same. In a grid, a model with one resolution stands on the "
        "diagonal."
    )
    return Section(key, title, lead, tuple(panels), columns=2)


def _ranking(evidence: RunEvidence, rivals: list[OtherModel], name: str) -> Panel:
    ranked = sorted(rivals, key=lambda r: r.rmse[name])
    place, errors = np.arange(len(ranked), dtype=float), np.array([r.rmse[name] for r in ranked])
    own = np.array([r.name == "this run" for r in ranked])
    runs = tuple(f"{r.name} ({', '.join(map(str, r.resolutions))})" for r in ranked)
    marks = (
        Bars("other runs", place[~own], errors[~own], "faint", 0.7, across=True),
        Bars("this run", place[own], errors[own], "model", 0.7, across=True),
    )
    best = "this run is the best" if own[0] else f"{ranked[0].name} is better"
    alt, labels = f"RMSE of {name} by resolutions: {best}.", (f"RMSE of {evidence.label(name)}", "resolutions")
    return Panel(name, *labels, marks, alt, best, y_ticks=runs, y_range=(len(ranked) - 0.5, -0.5))


def _grid(rivals: list[OtherModel], name: str) -> Panel:
    """The best RMSE of every pair of resolutions; the slower one along x."""
    known = sorted({r for rival in rivals for r in rival.resolutions})
    table = np.full((len(known), len(known)), np.nan)
    for rival in rivals:
        place = known.index(min(rival.resolutions)), known.index(max(rival.resolutions))
        table[place] = np.fmin(table[place], rival.rmse[name])
    places, names, edges = np.arange(len(known), dtype=float), tuple(map(str, known)), (-0.5, len(known) - 0.5)
    best = min(rivals, key=lambda r: r.rmse[name])
    note = f"best: {', '.join(map(str, best.resolutions))} with RMSE {best.rmse[name]:.3g}"
    alt, marks = f"RMSE of {name} over pairs of resolutions; {note}.", (Heat("RMSE", places, places, table),)
    axes = {"x_ticks": names, "y_ticks": names, "x_range": edges, "y_range": edges}
    return Panel(name, "slow resolution", "fast resolution", marks, alt, note, **axes)
