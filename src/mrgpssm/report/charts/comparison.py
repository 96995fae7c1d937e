"""Other starts and other resolutions: how much the result depends on the seed and on the choice of resolutions."""

import numpy as np

from mrgpssm.report.chart import Bars, Heat, Panel, Points, Section, Ticks
from mrgpssm.report.evidence import OtherModel, RunEvidence, score


def restart_spread(evidence: RunEvidence) -> Section:
    """Bounds of all restarts of every model, relative to the best."""
    key, title, bounds = "restarts", "Was it luck? Restarts", evidence.learned.bounds
    if bounds.shape[1] < 2:
        why = (
            "The run had one random start, so the spread between starts is unknown; train with restarts = 3 to see it."
        )
        return Section(key, title, "", missing=why)
    below = np.where(np.isfinite(bounds), bounds.max(axis=1, keepdims=True) - bounds, np.nan)
    names = tuple(", ".join(evidence.output_names[k] for k in group) for group in evidence.learned.groups)
    rows, _ = np.nonzero(np.isfinite(below))
    values = below[np.isfinite(below)]
    lost = int(np.sum(~np.isfinite(below)))
    given_up = f", {lost} given up" if lost else ""
    note = f"{bounds.shape[1]} starts each, up to {values.max():,.0f} nats apart{given_up}"
    mixed = evidence.learned.mixed
    best = np.sort(below, axis=1)[:, :mixed]  # those that were given up come last
    kept = np.repeat(np.arange(len(names), dtype=float), mixed)
    marks = (
        Points("a start", values, rows.astype(float), "model", 10.0, 0.6),
        Points("kept", best.ravel(), kept, "residual", 10.0),
    )
    ticks = Ticks(tuple(float(i) for i in range(len(names))), names)
    panel = Panel(
        title="All restarts",
        x_label="bound below the best / nats",
        y_label="output",
        marks=marks,
        note=note,
        y_ticks=ticks,
        y_range=(len(names) - 0.5, -0.5),
        alt=f"Spread of the lower bounds of restarts: {note}.",
    )
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
        return Section(key, title, "", missing=why)
    panels = []
    for name, found in zip(evidence.output_names, score(evidence), strict=True):
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
    place = np.arange(len(ranked), dtype=float)
    own = np.array([r.name == "this run" for r in ranked])
    errors = np.array([r.rmse[name] for r in ranked])
    labels = tuple(f"{r.name} ({', '.join(map(str, r.resolutions))})" for r in ranked)
    best = "this run is the best" if own[0] else f"{ranked[0].name} is better"
    marks = (
        Bars("other runs", place[~own], errors[~own], "faint", 0.7, across=True),
        Bars("this run", place[own], errors[own], "model", 0.7, across=True),
    )
    return Panel(
        title=name,
        x_label=f"RMSE of {evidence.label(name)}",
        y_label="resolutions",
        marks=marks,
        note=best,
        y_ticks=Ticks(tuple(map(float, place)), labels),
        y_range=(len(ranked) - 0.5, -0.5),
        alt=f"RMSE of {name} by resolutions: {best}.",
    )


def _grid(rivals: list[OtherModel], name: str) -> Panel:
    """The best RMSE of every pair of resolutions; the slower one along x."""
    known = sorted({r for rival in rivals for r in rival.resolutions})
    table = np.full((len(known), len(known)), np.nan)
    for rival in rivals:
        x, y = known.index(max(rival.resolutions)), known.index(min(rival.resolutions))
        table[y, x] = np.nanmin([table[y, x], rival.rmse[name]])
    ticks = Ticks(tuple(float(i) for i in range(len(known))), tuple(map(str, known)))
    places = np.arange(len(known), dtype=float)
    best = min(rivals, key=lambda r: r.rmse[name])
    note = f"best: {', '.join(map(str, best.resolutions))} with RMSE {best.rmse[name]:.3g}"
    return Panel(
        title=name,
        x_label="slow resolution",
        y_label="fast resolution",
        marks=(Heat("RMSE", places, places, table),),
        note=note,
        x_ticks=ticks,
        y_ticks=ticks,
        alt=f"RMSE of {name} over pairs of resolutions; {note}.",
        x_range=(-0.5, len(known) - 0.5),
        y_range=(-0.5, len(known) - 0.5),
    )
