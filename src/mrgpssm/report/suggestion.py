"""Why these resolutions: the time scales and the coherence of every output (matplotlib, extra `plot`)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mrgpssm.advice.suggest import Advice, Suggestion
from mrgpssm.file.words import drawable
from mrgpssm.report.figures import save_figure

MOST_OUTPUTS = 6
_ALONE, _CORNER = "#222222", "#888888"
_TICKS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_SCALES = ("#7b3fa0", "#1b7f4d", "#c8641b")  # slow to fast
_INPUTS = ("#2a6fb0", "#d9a514", "#a02f3f", "#3fa0a0", "#5a4fcf", "#8a7a1f", "#d06fa8", "#444444")


def suggestion_figure(suggestion: Suggestion, path: Path) -> None:
    """Per output, slowest first: explained variance over the time constant, and coherence with each input.

    At most six outputs are drawn: the slowest ones.
    """
    ranked = sorted(suggestion.per_output, key=lambda a: a.speed if a.scales else -1.0, reverse=True)[:MOST_OUTPUTS]
    figure = Figure(figsize=(11, 1.2 + 2.3 * len(ranked)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(ranked), 2, squeeze=False, sharex="col")
    for (left, right), advice in zip(axes, ranked, strict=True):
        _scales(left, advice)
        _coherence(right, advice)
    axes[-1, 0].set_xlabel("time constant / s")
    axes[-1, 1].set_xlabel("frequency / Hz")
    axes[0, 1].legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, ncols=4, fontsize=8, frameon=False)
    lines = {line.get_label(): line for axis in axes[:, 0] for line in axis.get_lines() if line.get_label()[0] != "_"}
    figure.legend(lines.values(), lines.keys(), loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    listed = ", ".join(map(str, suggestion.resolutions))
    title = f"resolutions {listed}; window {suggestion.window}, buffer {suggestion.buffer} steps"
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    save_figure(figure, path, dpi=130)


def _scales(axis: Axes, advice: Advice) -> None:
    """The fit of a single lag, and the effect of moving each chosen scale while the others stay fixed."""
    e = advice.evidence
    axis.semilogx(e.grid, e.single, color=_ALONE, lw=1.2, label="one lag alone")
    for i, (scale, profile, colour) in enumerate(zip(advice.scales, e.profiles, _SCALES, strict=False)):
        if len(advice.scales) > 1:
            known = np.isfinite(profile)
            label = "one of the chosen lags moved, the others fixed" if i == 0 else None
            axis.semilogx(e.grid[known], profile[known], color=colour, lw=1.2, label=label)
        axis.axvline(scale.seconds, color=colour, lw=1.4, ls=(0, (4, 2)))
        late = np.log(scale.seconds / e.grid[0]) > 0.8 * np.log(e.grid[-1] / e.grid[0])
        label = f"{scale.seconds:.2g} s" if scale.seconds < 100 else f"{scale.seconds:.0f} s"
        axis.annotate(
            label,
            (scale.seconds, 0.03),
            xycoords=("data", "axes fraction"),
            xytext=(-4 if late else 4, 0),
            textcoords="offset points",
            ha="right" if late else "left",
            fontsize=8,
            color=colour,
        )
    _explained_axis(axis, min(float(e.single.min()), e.explained), e.explained)
    axis.set_ylabel("explained")
    found = ", ".join(map(str, advice.resolutions)) if advice.scales else "no scale found"
    axis.set_title(f"{drawable(advice.output)}: R = {found}  ({e.explained:.0%} explained)", fontsize=10, loc="left")
    axis.margins(x=0.02)


def _explained_axis(axis: Axes, low: float, high: float) -> None:
    """Explained variance r drawn at -log(1 - r): equal heights are equal factors of what is left unexplained."""
    axis.set_yscale("function", functions=(lambda r: -np.log10(np.maximum(1 - r, 1e-9)), lambda x: 1 - 10.0**-x))
    bottom, top = max(low, -0.5), min(max(high, 0.1), 0.9999)
    axis.set_ylim(1 - (1 - bottom) * 1.15, 1 - (1 - top) * 0.8)
    ticks = [t for t in _TICKS if axis.get_ylim()[0] <= t <= axis.get_ylim()[1]]
    axis.set_yticks(ticks, [f"{t:.1%}" if t > 0.99 else f"{t:.0%}" for t in ticks])


def _coherence(axis: Axes, advice: Advice) -> None:
    """Coherence with each input; dashed, the corner frequency 1 / (2π τ) of each scale."""
    e = advice.evidence
    for i, name in enumerate(e.inputs):
        axis.semilogx(e.frequency, e.coherence[:, i], color=_INPUTS[i % len(_INPUTS)], lw=1.1, label=drawable(name))
    for scale in advice.scales:
        corner = 1 / (2 * np.pi * scale.seconds)
        if e.frequency[0] <= corner <= e.frequency[-1]:
            axis.axvline(corner, color=_CORNER, lw=1.0, ls=(0, (4, 2)))
    axis.set_ylim(0, 1.02)
    axis.set_ylabel("coherence")
    axis.margins(x=0.02)
