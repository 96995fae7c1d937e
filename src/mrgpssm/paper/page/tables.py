"""Tables as rows of text: ours, and the paper's beside."""

import math
from collections.abc import Sequence as SequenceOf

from mrgpssm.file.words import markdown_table
from mrgpssm.paper.page import published
from mrgpssm.paper.page.results import Cell, Results

NOT_RUN = "not run"
ROWS = {
    "semi-synthetic": ("F", "M1", "M2", "S"),
    "engine": ("PN", "HC", "NOx", "Temp"),
    "grid": ("PN", "HC", "NOx", "Temp"),
    "sensitivity": ("PN", "HC", "NOx", "Temp"),
    "batch-vs-resolution": ("S",),
}


GROWTH = ("step inducing", "step window", "sweep inducing", "sweep rows", "fit components", "fit cycles")


def show(cell: Cell | None, digits: int = 3) -> str:
    """Mean (standard error), and what failed."""
    if cell is None:
        return NOT_RUN
    if cell.failed == cell.runs:
        return f"diverged ({cell.failed} of {cell.runs})"
    error = f"{cell.error:.{digits}f}" if cell.runs - cell.failed > 1 else "one run"
    text = f"{cell.mean:.{digits}f} ({error})"
    return text if not cell.failed else f"{text}, {cell.failed} of {cell.runs} diverged"


def show_paper(number: published.Number) -> str:
    """The paper's cell, as printed."""
    return "> 1000" if number is None else f"{number[0]:.2f} ({number[1]:.2f})"


def best(cells: SequenceOf[Cell | None]) -> list[bool]:
    """The lowest mean, and all whose mean ± standard error overlaps with its (the paper's rule for bold)."""
    known = [c for c in cells if c is not None and math.isfinite(c.mean)]
    if not known:
        return [False] * len(cells)
    lowest = min(known, key=lambda c: c.mean)
    return [c is not None and math.isfinite(c.mean) and c.low <= lowest.high for c in cells]


def side_by_side(results: Results, what: str, metric: str, *, unit: str = "training", through: bool = False) -> str:
    """One row per method, one column per output: ours, then the paper's in italics."""
    outputs, printed = ROWS[what], published.TABLES.get(what, {}).get(metric, {})
    names = [m.name for m in results.experiment(what).methods]
    columns = {}
    for output in outputs:
        cells = [results.cell(what, name, output, metric, unit=unit, through=through) for name in names]
        columns[output] = [_bold(show(c), mark) for c, mark in zip(cells, best(cells), strict=True)]
    header = ["method", *outputs] + ([f"*paper {output}*" for output in outputs] if printed else [])
    rows = []
    for index, name in enumerate(names):
        row = [name, *(columns[output][index] for output in outputs)]
        if printed:
            row += [f"*{show_paper(printed[o][name])}*" if name in printed[o] else "" for o in outputs]
        rows.append(row)
    return markdown_table(header, rows)


def calibration(results: Results, what: str) -> str:
    """Coverage of the 50, 90 and 95 % bands and CRPS of the paper's own method, per output."""
    name = next(m.name for m in results.experiment(what).methods if m.name.startswith("MR-GPSSM"))
    rows = []
    for output in ROWS[what]:
        cells = [results.cell(what, name, output, m) for m in ("coverage_50", "coverage_90", "coverage_95", "crps")]
        rows.append([output, *(show(c) for c in cells)])
    return markdown_table([name, "in the 50 % band", "90 %", "95 %", "CRPS"], rows)


def batch_times(results: Results) -> str:
    """Seconds of a fleet of all repeats by the timing piece, steps, and excluded runs, beside the paper's."""
    timing = results.record("batch-vs-resolution", "timing")
    rows = []
    for method in results.experiment("batch-vs-resolution").methods:
        record = results.record("batch-vs-resolution", method.name)
        cell = results.cell("batch-vs-resolution", method.name, "S", "rmse")
        steps = NOT_RUN
        if record is not None:
            options = record["config"]["options"]
            steps = f"{options['cycles']} x {options['steps']}"
        seconds = NOT_RUN
        if timing is not None and record is not None:
            seconds = f"{_seconds(timing['timing'], method.name, record['config']['options']):.1f}"
        failed = NOT_RUN if cell is None else str(cell.failed)
        printed = published.BATCH_SECONDS[method.name], published.BATCH_EXCLUDED[method.name]
        rows.append([method.name, steps, seconds, failed, *(f"*{value}*" for value in printed)])
    return markdown_table(["method", "steps", "seconds", "excluded", "*paper seconds*", "*paper excluded*"], rows)


def growth(results: Results) -> str:
    """Measured exponents beside those of the paper's formula."""
    record = results.record("complexity", "cost")
    if record is None:
        return NOT_RUN
    rows = []
    for name in GROWTH:
        g = record["growth"][name]
        pairs = ", ".join(f"{n}: {1e3 * s:.3g}" for n, s in zip(g["sizes"], g["seconds"], strict=True))
        part, size = name.split()
        size = {"window": "B0 + B", "inducing": "M", "rows": "T", "components": "L", "cycles": "cycles"}[size]
        exponents = (f"{g['exponent']:.2f}", f"{g['last_exponent']:.2f}", f"{g['bound']:g}")
        rows.append([part, size, *exponents, pairs])
    header = ["cost of a", "against", "fitted exponent", "last two sizes", "formula, at most", "size: milliseconds"]
    return markdown_table(header, rows)


def _seconds(timing: dict[str, dict[str, float]], name: str, options: dict) -> float:
    """Turns x (steps x seconds of a step + seconds of a sweep), compilation not counted."""
    cost = timing[name.replace("equal time", "equal steps")]
    turns = options["cycles"] * len(options["resolutions"])
    return turns * (options["steps"] * cost["step_seconds"] + cost["sweep_seconds"])


def _bold(text: str, mark: bool) -> str:
    return f"**{text}**" if mark else text
