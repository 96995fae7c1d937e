"""The paper's figures from records, as PNG (matplotlib, extra `plot`)."""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from mrgpssm.paper.costs import BOUNDS
from mrgpssm.paper.page import published
from mrgpssm.paper.page.claims import OUTPUTS, look_in, look_in_paper, relative_errors
from mrgpssm.paper.page.results import Results
from mrgpssm.report.figures import save_figure

_BLUE, _GREEN, _PURPLE, _ORANGE = "#2a5d9f", "#1b7f4d", "#7b3fa0", "#c8641b"
_INK, _GREY = "#222222", "#9a9a9a"
_COLOURS = {"PN": _ORANGE, "HC": _BLUE, "NOx": _PURPLE, "Temp": _GREEN}
_COLOUR_OF = {"MR-GPSSM": _GREEN, "MC-GPSSM": "#8cc3a4", "GPSSM": "#9c77b8"}
_SUMS = {"F": ("HC", "NOx"), "M1": ("Temp", "HC"), "M2": ("NOx", "Temp"), "S": ("PN", "Temp")}
_SHOWN = ("MC-GPSSM R=[1,1]", "MC-GPSSM R=[30,30]", "MR-GPSSM R=[30,1]")
_KINDS = {"F": "fast", "M1": "mixed", "M2": "mixed", "S": "slow"}
_DIAMOND: dict[str, Any] = {"marker": "D", "ms": 4, "mfc": "white", "mec": _INK, "ls": ""}  # the paper's numbers
_SIZES = {
    "window": "B0 + B",
    "inducing": "inducing points M",
    "rows": "rows T",
    "components": "components L",
    "cycles": "cycles",
}


def draw_all(results: Results, folder: Path) -> list[str]:
    """Draw every figure whose records are there; returns their names."""
    drawn = []
    for name, draw in _FIGURES.items():
        figure = draw(results)
        if figure is not None:
            save_figure(figure, folder / f"{name}.png", dpi=150)
            drawn.append(name)
    return drawn


def _blank(width: float, height: float, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    """A figure and its axes (rows, columns), one of them flat where there is only one."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **options)


def _label(axis: Axes, *, title: str = "", x: str = "", y: str = "", size: int = 10) -> None:
    if title:
        axis.set_title(title, fontsize=size, loc="left")
    axis.set_xlabel(x, fontsize=9)
    axis.set_ylabel(y, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def _add_legend(figure: Figure, handles: list[Any], columns: int) -> None:
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)


def _latent_traces(results: Results) -> dict[str, Any] | None:
    record = results.record("semi-synthetic", "latents")
    return None if record is None else record["traces"]


def _minutes(traces: dict[str, Any], part: str) -> np.ndarray:
    first, stride, count = traces["rows"][part]
    return (first + stride * np.arange(count)) * traces["dt"] / 60


def _sum(traces: dict[str, Any], name: str, part: str) -> np.ndarray:
    return np.sum([traces["values"][latent][part] for latent in _SUMS[name]], axis=0)


def resolution_matters(results: Results) -> Figure | None:
    """Paper, fig:resolution: M1 as a whole, through a dilated window, and through a plain one."""
    traces = _latent_traces(results)
    if traces is None:
        return None
    figure, axes = _blank(11, 2.9, 1, 3)
    for axis, part in zip(axes, ("train", "dilated", "plain"), strict=True):
        _, stride, count = traces["rows"][part]
        time, unit, title, marks = stride * np.arange(count) * traces["dt"], "s", f"{count} points of it, every ", {}
        if part == "train":
            time, unit, title = time / 60, "min", "the training half"
        else:
            title += "row" if stride == 1 else f"{stride}th row"
            marks = {"marker": "o", "ms": 2.5}
        slow, fast = (np.array(traces["values"][name][part]) for name in ("Temp", "HC"))
        axis.plot(time, fast, color="#8c8c8c", lw=1.0, label="fast (HC)")
        axis.plot(time, slow, color=_GREEN, lw=1.4, label="slow (Temp)")
        axis.plot(time, slow + fast, color=_BLUE, lw=0.9, label="set M1", **marks)
        axis.margins(x=0.01)
        _label(axis, title=title, x=f"time / {unit}")
    _add_legend(figure, axes[0].get_legend_handles_labels()[0], 3)
    return figure


def sets(results: Results) -> Figure | None:
    """Paper, figapp:simulated_data: the four sets, training and test half."""
    traces = _latent_traces(results)
    if traces is None:
        return None
    figure, axes = _blank(10, 6.4, len(_SUMS), 1, sharex=True)
    for axis, name in zip(axes, _SUMS, strict=True):
        for half, colour, label in (("train", _BLUE, "training half"), ("test", _ORANGE, "test half")):
            axis.plot(_minutes(traces, half), _sum(traces, name, half), color=colour, lw=0.9, label=label)
        axis.margins(x=0)
        _label(axis, y=f"{name} ({_KINDS[name]})")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=9, frameon=False, borderaxespad=0.1)
    axes[-1].set_xlabel("time / min", fontsize=9)
    return figure


def predictions(results: Results, part: str = "whole") -> Figure | None:
    """Paper, figapp:simulated_example: free runs over the test half, one column per method."""
    traces = _latent_traces(results)
    records = [results.record("semi-synthetic", name) for name in _SHOWN]
    runs = [record["traces"]["runs"] for record in records if record is not None and "traces" in record]
    if traces is None or len(runs) < len(_SHOWN):
        return None
    figure, axes = _blank(12, 8, len(_SUMS), len(_SHOWN), sharex=True, sharey="row")
    half = "test" if part == "whole" else "close"
    for row, name in zip(axes, _SUMS, strict=True):
        for axis, method, found in zip(row, _SHOWN, runs, strict=True):
            run = found[name]
            measured = (_sum(traces, name, half) - run["offset"]) / run["scale"]
            _draw_run(axis, _minutes(traces, half), measured, run[part], _GREEN if method.startswith("MR") else _PURPLE)
            values = results.values("semi-synthetic", method, name, "rmse")
            error = np.nan if values is None else values[0]
            axis.set_title(f"RMSE {error:.2f}" if np.isfinite(error) else "failed", fontsize=8, loc="right", pad=2)
            _label(axis)
        row[0].set_ylabel(f"{name} ({_KINDS[name]})", fontsize=9)
    for top, bottom, method in zip(axes[0], axes[-1], _SHOWN, strict=True):
        top.set_title(method, fontsize=10, loc="left")
        bottom.set_xlabel("time / min", fontsize=9)
    _add_legend(figure, axes[0, -1].get_legend_handles_labels()[0], 3)
    return figure


def _draw_run(axis: Axes, minutes: np.ndarray, measured: np.ndarray, run: dict[str, list], colour: str) -> None:
    mean, band = np.array(run["mean"], float), 1.645 * np.array(run["std"], float)
    axis.fill_between(minutes, mean - band, mean + band, color=colour, alpha=0.22, lw=0, label="90 % band")
    axis.plot(minutes, measured, color=_INK, lw=0.7, label="test data")
    axis.plot(minutes, mean, color=colour, lw=1.0, label="free run")
    low, high = float(measured.min()), float(measured.max())
    margin = 0.35 * (high - low)
    axis.set_ylim(low - margin, high + margin)
    axis.margins(x=0)


def engine(results: Results) -> Figure | None:
    """Paper, fig:engine: RMSE per output, and the error relative to MR-GPSSM averaged over the outputs."""
    names = [n for n in published.PAPER["engine"]["figure"] if results.record("engine", n) is not None]
    if len(names) < 2:
        return None
    figure, axes = _blank(12, 0.9 + 0.42 * len(names), 1, 5, sharey=True)
    places = np.arange(len(names))[::-1]
    axes[0].set_yticks(places, names)
    for axis, top in zip(axes, _compare(results, "engine", names, figure, axes), strict=False):
        axis.set_xlim(0, 1.08 * top)
    ours, theirs = relative_errors(look_in(results)), relative_errors(look_in_paper)
    axes[4].barh(places, [ours.get(n, 0.0) for n in names], color=[_find_colour(n) for n in names], height=0.62)
    axes[4].plot([theirs[n] for n in names], places, zorder=4, **_DIAMOND)
    axes[4].axvline(1.0, color=_GREY, lw=1, zorder=0)
    _label(axes[4], title="relative error, mean", x="RMSE / MR-GPSSM's")
    return figure


def sensitivity(results: Results) -> Figure | None:
    """Paper, table:sensitivity as a picture: RMSE of every set of resolutions, the paper's as diamonds."""
    names = [n for n in published.METHODS["sensitivity"] if results.record("sensitivity", n) is not None]
    if len(names) < 2:
        return None
    figure, axes = _blank(11, 1.0 + 0.4 * len(names), 1, 4, sharey=True)
    _compare(results, "sensitivity", names, figure, axes)
    axes[0].set_yticks(np.arange(len(names))[::-1], [n.removeprefix("MR-GPSSM ") for n in names], fontsize=9)
    return figure


def _compare(results: Results, what: str, names: list[str], figure: Figure, axes: SequenceOf[Axes]) -> list[float]:
    """RMSE of methods as bars, the paper's as diamonds, and one axis per output; returns the largest of each."""
    tops = []
    for axis, output in zip(axes, OUTPUTS, strict=False):
        values = []
        for at, name in zip(np.arange(len(names))[::-1], names, strict=True):
            cell, printed = results.cell(what, name, output, "rmse"), published.TABLES[what]["rmse"][output].get(name)
            if cell is None or not np.isfinite(cell.mean):
                text, place = "diverged" if cell else "not run", axis.get_yaxis_transform()
                axis.text(0.02, at, text, va="center", fontsize=8, transform=place)
            else:
                style: dict[str, Any] = {"color": _find_colour(name), "height": 0.62, "ecolor": _INK}
                axis.barh(at, cell.mean, xerr=cell.error, error_kw={"lw": 1}, **style)
                values.append(cell.high)
            if cell is not None and name == names[0]:
                axis.axvline(cell.mean, color=_GREY, lw=1, zorder=0)
            if printed is not None:
                axis.plot(printed[0], at, zorder=4, **_DIAMOND)
                values.append(printed[0])
        tops.append(max(values))
        _label(axis, title=output, x="RMSE")
    for axis in axes[1:]:
        axis.tick_params(axis="y", length=0)
    kinds = [k for k in _COLOUR_OF if any(n.startswith(k) for n in names)]
    handles = [Patch(color=_COLOUR_OF[k], label=f"{k}, ours ± standard error") for k in kinds]
    _add_legend(figure, [*handles, Line2D([], [], label="the paper's", **_DIAMOND)], len(kinds) + 1)
    return tops


def _find_colour(name: str) -> str:
    return next(colour for kind, colour in _COLOUR_OF.items() if name.startswith(kind))


def grid(results: Results) -> Figure | None:
    """Paper, figapp:gridsearch: RMSE and nLL of GPSSM against its resolution."""
    names = [m.name for m in results.experiment("grid").methods if results.record("grid", m.name) is not None]
    if len(names) < 2:
        return None
    figure, axes = _blank(10, 3.6, 1, 2)
    resolutions = [int(name.split("=")[1]) for name in names]
    style: dict[str, Any] = {"marker": "o", "ms": 4, "lw": 1.3, "capsize": 2}
    for axis, metric, label in zip(axes, ("rmse", "nll"), ("RMSE", "nLL per step"), strict=True):
        for output in OUTPUTS:
            cells = [results.cell("grid", name, output, metric) for name in names]
            means, errors = np.array([(c.mean, c.error) for c in cells if c is not None]).T
            axis.errorbar(resolutions, means, yerr=errors, color=_COLOURS[output], label=output, **style)
        axis.set_xticks(resolutions)
        _label(axis, x="resolution R", y=label)
    axes[0].set_ylim(bottom=0)
    _add_legend(figure, axes[0].get_legend_handles_labels()[0], 4)
    return figure


def complexity(results: Results) -> Figure | None:
    """Cost against every size, with the slope of the paper's formula through the last point."""
    record = results.record("complexity", "cost")
    if record is None:
        return None
    figure, axes = _blank(11, 5.6, 2, 3)
    for axis, name in zip(axes.T.ravel(), BOUNDS, strict=True):
        g = record["growth"][name]
        part, size = name.split()
        sizes, ms = np.array(g["sizes"], float), 1e3 * np.array(g["seconds"])
        slope = ms[-1] * (sizes / sizes[-1]) ** g["bound"]
        axis.loglog(sizes, ms, "o-", color=_BLUE, lw=1.3, ms=4, label="measured")
        axis.loglog(sizes, slope, "--", color=_GREY, lw=1, label="the formula's slope")
        axis.set_xticks(sizes)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_minor_locator(NullLocator())
            scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        title = f"{part}: exponent {g['exponent']:.2f}, formula {g['bound']:g}"
        _label(axis, title=title, x=_SIZES[size], y="ms", size=9)
    _add_legend(figure, axes[0, 0].get_legend_handles_labels()[0], 2)
    return figure


_FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "resolution-matters": resolution_matters,
    "semi-synthetic-sets": sets,
    "predictions": predictions,
    "predictions-close": lambda results: predictions(results, "close"),
    "engine": engine,
    "grid": grid,
    "sensitivity": sensitivity,
    "complexity": complexity,
}
