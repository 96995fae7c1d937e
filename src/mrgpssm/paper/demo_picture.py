"""The demo as a picture (matplotlib, extra `plot`)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mrgpssm.paper.demo import MULTI, Demo
from mrgpssm.report.figures import save_figure

_MEASURED, _OURS, _SLOW, _FAST = "#222222", "#1b7f4d", "#7b3fa0", "#c8641b"


def demo_figure(demo: Demo, path: Path) -> None:
    """Free run with bands, where single resolutions fail, and true against learned components."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, 2, width_ratios=(2, 1))
    long, short = slice(0, 12_000), slice(6_000, 6_600)
    _run(axes[0, 0], demo, MULTI, long, _OURS)
    _run(axes[0, 1], demo, MULTI, short, _OURS)
    _run(axes[1, 0], demo, "GPSSM R=1", long, _FAST)
    _run(axes[1, 1], demo, "GPSSM R=30", short, _SLOW)
    slow, fast = demo.test.components
    _component(axes[2, 0], demo, slow, 0, long, _SLOW)
    _component(axes[2, 1], demo, fast, 1, short, _FAST)
    for axis in (axes[0, 0], axes[2, 0]):
        axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, fontsize=9, ncols=3, frameon=False)
    for axis in axes[2]:
        axis.set_xlabel("time / s")
    save_figure(figure, path, dpi=130)


def _run(axis: Axes, demo: Demo, name: str, rows: slice, colour: str) -> None:
    entry = demo.entries[name]
    run, t = entry.forecast, entry.forecast.time[rows]
    low, high = run.quantile(0.05)[rows, 0], run.quantile(0.95)[rows, 0]
    axis.fill_between(t, low, high, color=colour, alpha=0.25, lw=0, label="90 % band")
    axis.plot(t, demo.test.sequence.outputs[rows, 0], color=_MEASURED, lw=0.8, label="measured")
    axis.plot(t, run.mean[rows, 0], color=colour, lw=1.0, label="free run")
    axis.set_title(f"{name}: RMSE {entry.scores['rmse']:.2f}", fontsize=10, loc="left")
    axis.set_ylabel("y")
    axis.margins(x=0)


def _component(axis: Axes, demo: Demo, name: str, index: int, rows: slice, colour: str) -> None:
    run = demo.entries[MULTI].forecast
    learned = list(run.components.values())[index][:, 0]
    true = demo.test.components[name][:, 0]
    t = run.time[rows]
    axis.plot(t, (true - np.mean(true))[rows], color=_MEASURED, lw=1.0, label="true")
    axis.plot(t, (learned - np.mean(learned))[rows], color=colour, lw=1.2, label="learned")
    tau = demo.test.time_constants[name]
    title = f"{'slow' if tau > 10 else 'fast'} component (τ = {tau:g} s): correlation {demo.correlations[name]:.3f}"
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_ylabel("contribution to y")
    axis.margins(x=0)
