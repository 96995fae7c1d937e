"""Sections drawn for print (matplotlib, extra `plot`): one file per section."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from mrgpssm.file import write_atomic
from mrgpssm.file.words import drawable
from mrgpssm.report.chart import Band, Bars, Heat, Line, Mark, Panel, Points, Rule, Section, pieces
from mrgpssm.report.diagnostics.thinning import bucket_rows, thin_edge, thin_line, thin_time
from mrgpssm.report.palette import DIVERGING_LIGHT, LIGHT, SEQUENTIAL

_POINTS = 4000
_COLUMNS = 3


def write_figures(sections: list[Section], folder: Path, kind: str = "pdf") -> list[Path]:
    """Draw every section that has panels to `folder/key.kind`."""
    paths = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a name may hold letters that the font has not
        for section in sections:
            if section.panels:
                paths.append(folder / f"{section.key}.{kind}")
                save_figure(draw(section), paths[-1], dpi=150)
    return paths


def save_figure(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure whole, in the format that the path ends in; `options` are those of `Figure.savefig`."""
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix(".") or "png", **options)
    write_atomic(path, drawn.getvalue())


def draw(section: Section) -> Figure:
    """All panels of a section: wide ones one below the other, others side by side."""
    panels = section.panels
    columns = 1 if any(p.wide for p in panels) else min(_COLUMNS, len(panels))
    if len(panels) % 2 == 0 and columns == _COLUMNS and len(panels) % _COLUMNS:
        columns = 2
    rows = -(-len(panels) // columns)
    width = 10.0 if columns == 1 and panels[0].wide else 3.7 * columns
    figure = Figure(figsize=(width, 0.4 + 2.9 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(drawable(section.title), x=0.01, ha="left", fontsize=12, fontweight="bold")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        draw_panel(axis, panel)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    _legend(figure, list(axes[: len(panels)]))
    return figure


def draw_panel(axis: Axes, panel: Panel) -> None:
    """One panel on one pair of axes."""
    for mark in panel.marks:
        _draw(axis, panel, mark)
    axis.set_title(f"{drawable(panel.title)}\n", fontsize=10, loc="left", fontweight="bold")
    axis.text(0, 1.03, drawable(panel.note), transform=axis.transAxes, fontsize=7.5, color=LIGHT["muted"])
    axis.set_xlabel(drawable(panel.x_label), fontsize=8.5)
    axis.set_ylabel(drawable(panel.y_label), fontsize=8.5)
    axis.tick_params(labelsize=8)
    axis.set_xscale("log" if panel.log_x else "linear")
    axis.set_yscale("log" if panel.log_y else "linear")
    axis.margins(x=0.01 if panel.long else 0.03)
    axis.spines[["top", "right"]].set_visible(False)
    if panel.x_range:
        axis.set_xlim(*panel.x_range)
    if panel.y_range:
        axis.set_ylim(*panel.y_range)
    for ticks, place in ((panel.x_ticks, axis.set_xticks), (panel.y_ticks, axis.set_yticks)):
        if ticks:
            place(list(ticks.positions), [drawable(label) for label in ticks.labels])


def _legend(figure: Figure, axes: list[Axes]) -> None:
    """One legend for all panels, above them, so that it hides nothing."""
    found = {str(h.get_label()): h for axis in axes for h in axis.get_legend_handles_labels()[0]}
    if len(found) > 1:
        columns = min(len(found), max(int(figure.get_figwidth() // 1.6), 1))
        figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
        )


def _draw(axis: Axes, panel: Panel, mark: Mark) -> None:
    label = drawable(mark.name)
    match mark:
        case Line():
            x, y = _thin(panel, mark)
            style = "steps-mid" if mark.steps else "default"
            dashes = (0, (4, 2)) if mark.dash else "-"
            axis.plot(x, y, color=LIGHT[mark.role], lw=0.8 * mark.width, ls=dashes, drawstyle=style, label=label)
        case Band():
            x, low, high = _thin_band(panel, mark)
            axis.fill_between(x, low, high, color=LIGHT[mark.role], alpha=mark.alpha, lw=0, label=label)
        case Bars():
            bars, colour = (axis.barh if mark.across else axis.bar), LIGHT[mark.role]
            bars(mark.position, mark.value, mark.width, color=colour, alpha=mark.alpha, label=label)
        case Points():
            size, edge = mark.size**2 / 2, LIGHT[mark.role]
            fill = "none" if mark.hollow else edge
            edges = edge if mark.hollow else "none"
            axis.scatter(mark.x, mark.y, size, fill, alpha=mark.alpha, edgecolors=edges, label=label)
        case Heat():
            _heat(axis, mark)
        case Rule():
            along = axis.axhline if mark.axis == "y" else axis.axvline
            along(mark.value, color=LIGHT[mark.role], lw=0.9, ls=(0, (4, 2)), label=label)


def _heat(axis: Axes, mark: Heat) -> None:
    colours = LinearSegmentedColormap.from_list("report", DIVERGING_LIGHT if mark.diverging else SEQUENTIAL)
    edge = float(np.nanmax(np.abs(mark.z))) or 1.0
    low, high = (-edge, edge) if mark.diverging else (None, None)
    mesh = axis.pcolormesh(
        mark.x, mark.y, mark.z, cmap=colours, shading="nearest", rasterized=True, vmin=low, vmax=high
    )
    axis.figure.colorbar(mesh, ax=axis, label=drawable(mark.name))  # pyright: ignore[reportAttributeAccessIssue]


def _thin(panel: Panel, mark: Line) -> tuple[np.ndarray, np.ndarray]:
    if not panel.long:
        return mark.x, mark.y
    bucket = bucket_rows(len(mark.x), _POINTS)
    parts = pieces(panel, len(mark.x))
    time = _join([thin_time(mark.x[p], bucket) for p in parts], repeat=True)
    return time, _join([thin_line(mark.y[p], bucket) for p in parts])


def _thin_band(panel: Panel, mark: Band) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not panel.long:
        return mark.x, mark.low, mark.high
    bucket = bucket_rows(len(mark.x), _POINTS)
    parts = pieces(panel, len(mark.x))
    return (
        _join([thin_time(mark.x[p], bucket) for p in parts], repeat=True),
        _join([thin_edge(mark.low[p], bucket, upper=False) for p in parts]),
        _join([thin_edge(mark.high[p], bucket, upper=True) for p in parts]),
    )


def _join(parts: list[np.ndarray], repeat: bool = False) -> np.ndarray:
    """Recordings joined with a NaN after each, so that no line connects them; times repeat their last value instead."""
    return np.concatenate([np.append(p, p[-1] if repeat else np.nan) for p in parts])
