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
from mrgpssm.report.chart import Band, Bars, Heat, Line, Mark, Panel, Points, Rule, Section
from mrgpssm.report.palette import DIVERGING_LIGHT, LIGHT, SEQUENTIAL
from mrgpssm.report.thinning import thin

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
        _draw(axis, thin(panel, mark, _POINTS) if panel.long and isinstance(mark, Line | Band) else mark)
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
            place(range(len(ticks)), [drawable(label) for label in ticks])


def _legend(figure: Figure, axes: list[Axes]) -> None:
    """One legend for all panels, above them, so that it hides nothing."""
    found = {str(h.get_label()): h for axis in axes for h in axis.get_legend_handles_labels()[0]}
    if len(found) > 1:
        columns = min(len(found), max(int(figure.get_figwidth() // 1.6), 1))
        figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
        )


def _draw(axis: Axes, mark: Mark) -> None:
    label = drawable(mark.name)
    match mark:
        case Line():
            style = "steps-mid" if mark.steps else "default"
            dashes = (0, (4, 2)) if mark.dash else "-"
            axis.plot(
                mark.x, mark.y, color=LIGHT[mark.role], lw=0.8 * mark.width, ls=dashes, drawstyle=style, label=label
            )
        case Band():
            look = {"color": LIGHT[mark.role], "alpha": mark.alpha, "lw": 0, "label": label}
            axis.fill_between(mark.x, mark.low, mark.high, **look)
        case Bars():
            bars, colour = (axis.barh if mark.across else axis.bar), LIGHT[mark.role]
            bars(mark.x, mark.y, mark.width, color=colour, alpha=mark.alpha, label=label)
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
