"""The paper's figures from records, as PNG (matplotlib, extra `plot`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from mrgpssm.paper.page import published
from mrgpssm.paper.page.claims import OUTPUTS, look_in, look_in_paper, relative_errors
from mrgpssm.paper.page.results import Cell, Results
from mrgpssm.paper.page.tables import GROWTH
from mrgpssm.report.figures import save_figure

_DATA, _SLOW, _FAST, _GREY, _GREEN, _PURPLE = "#2a5d9f", "#1b7f4d", "#8c8c8c", "#9a9a9a", "#1b7f4d", "#7b3fa0"
_COLOURS = {"PN": "#c8641b", "HC": "#2a5d9f", "NOx": "#7b3fa0", "Temp": "#1b7f4d"}
_COLOUR_OF = {"MR-GPSSM": _GREEN, "MC-GPSSM": "#8cc3a4", "GPSSM": "#9c77b8"}
_SUMS = {"F": ("HC", "NOx"), "M1": ("Temp", "HC"), "M2": ("NOx", "Temp"), "S": ("PN", "Temp")}
_SHOWN = ("MC-GPSSM R=[1,1]", "MC-GPSSM R=[30,30]", "MR-GPSSM R=[30,1]")
_KINDS = {"F": "fast", "M1": "mixed", "M2": "mixed", "S": "slow"}


def draw_all(results: Results, folder: Path) -> list[str]:
    """Draw every figure whose records are there; returns their names."""
    drawn = []
    for name, draw in _FIGURES.items():
        figure = draw(results)
        if figure is not None:
            save_figure(figure, folder / f"{name}.png", dpi=150)
            drawn.append(name)
    return drawn


def _blank(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def resolution_matters(results: Results) -> Figure | None:
    """Paper, fig:resolution: M1 as a whole, through a dilated window, and through a plain one."""
    traces = _latent_traces(results)
    if traces is None:
        return None
    figure = _blank(11, 2.9)
    axes = figure.subplots(1, 3)
    for axis, part in zip(axes, ("train", "dilated", "plain"), strict=True):
        _, stride, count = traces["rows"][part]
        seconds = stride * np.arange(count) * traces["dt"]
        time = seconds / 60 if part == "train" else seconds
        slow, fast = (np.array(traces["values"][name][part]) for name in ("Temp", "HC"))
        marks = {} if part == "train" else {"marker": "o", "ms": 2.5}
        axis.plot(time, fast, color=_FAST, lw=1.0, label="fast (HC)")
        axis.plot(time, slow, color=_SLOW, lw=1.4, label="slow (Temp)")
        axis.plot(time, slow + fast, color=_DATA, lw=0.9, label="set M1", **marks)
        title = "the training half" if part == "train" else f"{count} points of it, {_every(stride)}"
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel("time / min" if part == "train" else "time / s", fontsize=9)
        axis.margins(x=0.01)
        _tidy(axis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def _every(stride: int) -> str:
    return "every row" if stride == 1 else f"every {stride}th row"


def sets(results: Results) -> Figure | None:
    """Paper, figapp:simulated_data: the four sets, training and test half."""
    traces = _latent_traces(results)
    if traces is None:
        return None
    figure = _blank(10, 6.4)
    axes = figure.subplots(len(_SUMS), 1, sharex=True)
    for axis, (name, parts) in zip(axes, _SUMS.items(), strict=True):
        for half, colour in (("train", _DATA), ("test", "#c8641b")):
            first, stride, count = traces["rows"][half]
            minutes = (first + stride * np.arange(count)) * traces["dt"] / 60
            total = np.sum([traces["values"][part][half] for part in parts], axis=0)
            axis.plot(minutes, total, color=colour, lw=0.9, label="training half" if half == "train" else "test half")
        axis.set_ylabel(f"{name} ({_KINDS[name]})", fontsize=9)
        axis.margins(x=0)
        _tidy(axis)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=9, frameon=False, borderaxespad=0.1)
    axes[-1].set_xlabel("time / min", fontsize=9)
    return figure


def predictions(results: Results, part: str = "whole") -> Figure | None:
    """Paper, figapp:simulated_example: free runs over the test half, one column per method."""
    traces = _latent_traces(results)
    records = {name: results.record("semi-synthetic", name) for name in _SHOWN}
    if traces is None or any(r is None or "traces" not in r for r in records.values()):
        return None
    figure = _blank(12, 8)
    axes = figure.subplots(len(_SUMS), len(_SHOWN), sharex=True, sharey="row")
    half = "test" if part == "whole" else "close"
    first, stride, count = traces["rows"][half]
    minutes = (first + stride * np.arange(count)) * traces["dt"] / 60
    for row, (name, parts) in zip(axes, _SUMS.items(), strict=True):
        for axis, (method, record) in zip(row, records.items(), strict=True):
            run = record["traces"]["runs"][name]  # pyright: ignore[reportOptionalSubscript]
            measured = np.sum([traces["values"][p][half] for p in parts], axis=0)
            _free_run(axis, minutes, (measured - run["offset"]) / run["scale"], run[part], method)
            values = results.values("semi-synthetic", method, name, "rmse")
            error = np.nan if values is None else values[0]
            axis.set_title(f"RMSE {error:.2f}" if np.isfinite(error) else "failed", fontsize=8, loc="right", pad=2)
        row[0].set_ylabel(f"{name} ({_KINDS[name]})", fontsize=9)
    for axis, method in zip(axes[0], _SHOWN, strict=True):
        axis.set_title(method, fontsize=10, loc="left")
    for axis in axes[-1]:
        axis.set_xlabel("time / min", fontsize=9)
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def _free_run(axis: Axes, minutes: np.ndarray, measured: np.ndarray, run: dict[str, list], method: str) -> None:
    colour = _GREEN if method.startswith("MR") else _PURPLE
    mean, std = (np.array(run[key], float) for key in ("mean", "std"))
    axis.fill_between(
        minutes, mean - 1.645 * std, mean + 1.645 * std, color=colour, alpha=0.22, lw=0, label="90 % band"
    )
    axis.plot(minutes, measured, color="#222222", lw=0.7, label="test data")
    axis.plot(minutes, mean, color=colour, lw=1.0, label="free run")
    low, high = float(measured.min()), float(measured.max())
    margin = 0.35 * (high - low)
    axis.set_ylim(low - margin, high + margin)
    axis.margins(x=0)
    _tidy(axis)


def engine(results: Results) -> Figure | None:
    """Paper, fig:engine: RMSE per output, and the error relative to MR-GPSSM averaged over the outputs."""
    names = [n for n in _engine_order() if results.record("engine", n) is not None]
    if len(names) < 2:
        return None
    look = look_in(results)
    figure = _blank(12, 0.9 + 0.42 * len(names))
    axes = figure.subplots(1, 5, sharey=True)
    places = np.arange(len(names))[::-1]
    for axis, output in zip(axes, OUTPUTS, strict=False):
        cells = {n: look("engine", n, output) for n in names}
        _bars(axis, places, cells)
        printed = [published.ENGINE["rmse"][output].get(n) for n in names]
        points = [(p[0], at) for p, at in zip(printed, places, strict=True) if p is not None]
        _diamonds(axis, points)
        axis.set_title(output, fontsize=10, loc="left")
        axis.set_xlabel("RMSE", fontsize=9)
        top = max([c.high for c in cells.values() if c is not None and np.isfinite(c.mean)] + [p for p, _ in points])
        axis.set_xlim(0, 1.08 * top)
    ratios = relative_errors(look)
    axes[4].barh(places, [ratios.get(n, 0.0) for n in names], color=[_colour(n) for n in names], height=0.62)
    theirs = relative_errors(look_in_paper)
    _diamonds(axes[4], [(theirs[n], at) for n, at in zip(names, places, strict=True)])
    axes[4].axvline(1.0, color=_GREY, lw=1, zorder=0)
    axes[4].set_title("relative error, mean", fontsize=10, loc="left")
    axes[4].set_xlabel("RMSE / MR-GPSSM's", fontsize=9)
    axes[0].set_yticks(places, names, fontsize=9)
    for axis in axes:
        _tidy(axis)
    for axis in axes[1:]:
        axis.tick_params(axis="y", length=0)
    _bar_legend(figure, names)
    return figure


def _engine_order() -> tuple[str, ...]:
    """MR-GPSSM on top, then MC-GPSSM and GPSSM by falling resolution, as in the paper."""
    return ("MR-GPSSM R=[30,5,1]", "MC-GPSSM R=[30,30,30]", "MC-GPSSM R=[5,5,5]", "MC-GPSSM R=[1,1,1]",
            "GPSSM R=30", "GPSSM R=5", "GPSSM R=1")  # fmt: skip


def _diamonds(axis: Axes, points: list[tuple[float, int]]) -> None:
    """The paper's numbers."""
    axis.plot(*zip(*points, strict=True), "D", ms=4, mfc="white", mec="#222222", ls="", zorder=4)


def _bar_legend(figure: Figure, names: list[str]) -> None:
    """What the colours mean, and the diamonds."""
    kinds = [k for k in _COLOUR_OF if any(n.startswith(k) for n in names)]
    handles: list[Any] = [Patch(color=_COLOUR_OF[k], label=f"{k}, ours ± standard error") for k in kinds]
    handles.append(Line2D([], [], marker="D", ms=4, mfc="white", mec="#222222", ls="", label="the paper's"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9, frameon=False)


def _bars(axis: Axes, places: np.ndarray, cells: dict[str, Cell | None]) -> None:
    for at, (name, cell) in zip(places, cells.items(), strict=True):
        if cell is None or not np.isfinite(cell.mean):
            axis.text(
                0.02,
                at,
                "diverged" if cell else "not run",
                va="center",
                fontsize=8,
                transform=axis.get_yaxis_transform(),
            )
            continue
        axis.barh(
            at, cell.mean, xerr=cell.error, color=_colour(name), height=0.62, ecolor="#222222", error_kw={"lw": 1}
        )
    own = next(iter(cells.values()))
    if own is not None:
        axis.axvline(own.mean, color=_GREY, lw=1, zorder=0)


def _colour(name: str) -> str:
    return next(colour for kind, colour in _COLOUR_OF.items() if name.startswith(kind))


def grid(results: Results) -> Figure | None:
    """Paper, figapp:gridsearch: RMSE and nLL of GPSSM against its resolution."""
    names = [m.name for m in results.experiment("grid").methods if results.record("grid", m.name) is not None]
    if len(names) < 2:
        return None
    figure = _blank(10, 3.6)
    axes = figure.subplots(1, 2)
    resolutions = [int(name.split("=")[1]) for name in names]
    for axis, metric, label in zip(axes, ("rmse", "nll"), ("RMSE", "nLL per step"), strict=True):
        for output in OUTPUTS:
            cells = [results.cell("grid", name, output, metric) for name in names]
            means, errors = np.array([(c.mean, c.error) for c in cells if c is not None]).T
            axis.errorbar(resolutions, means, yerr=errors, color=_COLOURS[output], marker="o", ms=4, lw=1.3, capsize=2,
                          label=output)  # fmt: skip
        axis.set_ylabel(label, fontsize=9)
        axis.set_xlabel("resolution R", fontsize=9)
        axis.set_xticks(resolutions)
        _tidy(axis)
    axes[0].set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def sensitivity(results: Results) -> Figure | None:
    """Paper, table:sensitivity as a picture: RMSE of every set of resolutions, the paper's as diamonds."""
    names = [n for n in published.SENSITIVITY_METHODS if results.record("sensitivity", n) is not None]
    if len(names) < 2:
        return None
    figure = _blank(11, 1.0 + 0.4 * len(names))
    axes = figure.subplots(1, 4, sharey=True)
    places = np.arange(len(names))[::-1]
    for axis, output in zip(axes, OUTPUTS, strict=True):
        cells = {n: results.cell("sensitivity", n, output, "rmse") for n in names}
        _bars(axis, places, cells)
        numbers = [published.SENSITIVITY["rmse"][output][n] for n in names]
        points = [(p[0], at) for p, at in zip(numbers, places, strict=True) if p is not None]
        _diamonds(axis, points)
        axis.set_title(output, fontsize=10, loc="left")
        axis.set_xlabel("RMSE", fontsize=9)
        _tidy(axis)
    axes[0].set_yticks(places, [n.removeprefix("MR-GPSSM ") for n in names], fontsize=9)
    for axis in axes[1:]:
        axis.tick_params(axis="y", length=0)
    _bar_legend(figure, names)
    return figure


def complexity(results: Results) -> Figure | None:
    """Cost against every size, with the slope of the paper's formula through the last point."""
    record = results.record("complexity", "cost")
    if record is None:
        return None
    names = {"window": "B0 + B", "inducing": "inducing points M", "rows": "rows T", "components": "components L",
             "cycles": "cycles"}  # fmt: skip
    figure = _blank(11, 5.6)
    axes = figure.subplots(2, 3)
    for axis, name in zip(axes.T.ravel(), GROWTH, strict=True):
        g = record["growth"][name]
        part, size = name.split()
        sizes, ms = np.array(g["sizes"], float), 1e3 * np.array(g["seconds"])
        axis.loglog(sizes, ms, "o-", color=_DATA, lw=1.3, ms=4, label="measured")
        axis.loglog(
            sizes, ms[-1] * (sizes / sizes[-1]) ** g["bound"], "--", color=_GREY, lw=1, label="the formula's slope"
        )
        axis.set_title(f"{part}: exponent {g['exponent']:.2f}, formula {g['bound']:g}", fontsize=9, loc="left")
        axis.set_xlabel(names[size], fontsize=9)
        axis.set_ylabel("ms", fontsize=9)
        axis.set_xticks(sizes)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_minor_locator(NullLocator())
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        _tidy(axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return figure


def _latent_traces(results: Results) -> dict[str, Any] | None:
    record = results.record("semi-synthetic", "latents")
    return None if record is None else record["traces"]


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
