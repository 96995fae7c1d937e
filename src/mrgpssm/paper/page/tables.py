"""Tables in Markdown: ours, and the paper's beside."""

import math
from collections.abc import Sequence as SequenceOf

from mrgpssm.file.words import markdown_table
from mrgpssm.paper.config import EXPERIMENTS
from mrgpssm.paper.costs import BOUNDS, training_seconds
from mrgpssm.paper.page import published
from mrgpssm.paper.page.claims import OUTPUTS, Claim, claims, look_in, look_in_paper, relative_errors, targets
from mrgpssm.paper.page.results import Cell, Results

NOT_RUN = "not run"
ROWS = {
    "semi-synthetic": ("F", "M1", "M2", "S"),
    "engine": OUTPUTS,
    "grid": OUTPUTS,
    "sensitivity": OUTPUTS,
    "batch-vs-resolution": ("S",),
}
_SYMBOLS = {"window": "B0 + B", "inducing": "M", "rows": "T", "components": "L", "cycles": "cycles"}


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
    lowest = min((c for c in cells if c is not None and math.isfinite(c.mean)), key=lambda c: c.mean, default=None)
    return [c is not None and lowest is not None and c.low <= lowest.high for c in cells]


def side_by_side(results: Results, what: str, metric: str, *, unit: str = "training", through: bool = False) -> str:
    """One row per method, one column per output: ours, then the paper's in italics."""
    names = [m.name for m in results.experiment(what).methods]
    columns = {"method": names}
    for output in ROWS[what]:
        cells = [results.cell(what, name, output, metric, unit=unit, through=through) for name in names]
        marked = zip(cells, best(cells), strict=True)
        columns[output] = [f"**{show(cell)}**" if mark else show(cell) for cell, mark in marked]
    for output, row in published.TABLES.get(what, {}).get(metric, {}).items():
        columns[f"*paper {output}*"] = [f"*{show_paper(row[name])}*" if name in row else "" for name in names]
    return markdown_table(list(columns), zip(*columns.values(), strict=True))


def calibration(results: Results, what: str) -> str:
    """Coverage of the 50, 90 and 95 % bands and CRPS of the paper's own method, per output."""
    name = next(m.name for m in results.experiment(what).methods if m.name.startswith("MR-GPSSM"))
    metrics = ("coverage_50", "coverage_90", "coverage_95", "crps")
    rows = [[output, *(show(results.cell(what, name, output, m)) for m in metrics)] for output in ROWS[what]]
    return markdown_table([name, "in the 50 % band", "90 %", "95 %", "CRPS"], rows)


def error_ratios(results: Results, what: str) -> str:
    """Errors of the engine's methods over MR-GPSSM's, averaged over the outputs."""
    ratios = {"ours": relative_errors(look_in(results)), "*paper*": relative_errors(look_in_paper)}
    names = published.METHODS[what]
    rows = [[name, *(f"{r[name]:.2f}" if name in r else NOT_RUN for r in ratios.values())] for name in names]
    return markdown_table(["method", *ratios], rows)


def latents(results: Results, what: str) -> str:
    """What the semi-synthetic sets are made of."""
    record = results.record(what, "latents")
    if record is None:
        return NOT_RUN
    found = record["latents"].items()
    rows = [[name, str(x["resolution"]), f"{x['rmse']:.3f}", f"{x['std']:.3f}"] for name, x in found]
    return markdown_table(["latent of", "R", "RMSE to the measured output", "deviation of the latent"], rows)


def batch_times(results: Results, what: str) -> str:
    """Seconds of a fleet of all repeats by the timing piece, steps, and excluded runs, beside the paper's."""
    timing, paper = results.record(what, "timing"), published.PAPER[what]
    rows = []
    for name, *printed in zip(paper["methods"], paper["seconds"], paper["excluded"], strict=True):
        record, cell = results.record(what, name), results.cell(what, name, "S", "rmse")
        steps = seconds = failed = NOT_RUN
        if record is not None and cell is not None:
            options, failed = record["config"]["options"], str(cell.failed)
            steps = f"{options['cycles']} x {options['steps']}"
            if timing is not None:
                cost = timing["timing"][name.replace("equal time", "equal steps")]
                seconds = f"{training_seconds(options, cost):.1f}"
        rows.append([name, steps, seconds, failed, *(f"*{value}*" for value in printed)])
    return markdown_table(["method", "steps", "seconds", "excluded", "*paper seconds*", "*paper excluded*"], rows)


def growth(results: Results, what: str) -> str:
    """Measured exponents beside those of the paper's formula."""
    record = results.record(what, "cost")
    if record is None:
        return NOT_RUN
    rows = []
    for name in BOUNDS:
        g = record["growth"][name]
        pairs = ", ".join(f"{n}: {1e3 * s:.3g}" for n, s in zip(g["sizes"], g["seconds"], strict=True))
        part, size = name.split()
        exponents = (f"{g['exponent']:.2f}", f"{g['last_exponent']:.2f}", f"{g['bound']:g}")
        rows.append([part, _SYMBOLS[size], *exponents, pairs])
    header = ["cost of a", "against", "fitted exponent", "last two sizes", "formula, at most", "size: milliseconds"]
    return markdown_table(header, rows)


def claims_table(results: Results) -> str:
    """All claims: the verdict on our records, and that of the same test on the paper's own numbers."""
    rows = []
    for ours, theirs in zip(claims(look_in(results)), claims(look_in_paper), strict=True):
        printed = "no table" if theirs.holds is None else theirs.verdict
        rows.append([ours.text, ours.source, f"**{ours.verdict}**", ours.numbers, printed])
    return markdown_table(["claim", "where", "here", "numbers", "paper's own numbers"], rows)


def targets_table(results: Results) -> str:
    """This project's targets in the data's units, in training units, and with a run-in through the first half."""
    views = (look_in(results, unit="data"), look_in(results), look_in(results, through=True))
    rows = []
    for first, second, third in zip(*(targets(look) for look in views), strict=True):
        run_in = _show_target(third) if first.text.startswith("Semi-synthetic") else "does not apply"
        rows.append([first.text, _show_target(first), _show_target(second), run_in])
    return markdown_table(["target", "in the data's units", "in training units", "run-in through the first half"], rows)


def _show_target(claim: Claim) -> str:
    return NOT_RUN if claim.holds is None else f"**{'met' if claim.holds else 'not met'}** ({claim.numbers})"


def costs_table(results: Results) -> str:
    """What every piece took, where and when."""
    rows = []
    for record in sorted(results.records, key=lambda r: EXPERIMENTS.index(r["experiment"])):
        seconds, where, peak = record["seconds"], record["environment"], record.get("peak_megabytes")
        step = "" if seconds.get("step_ms") is None else f"{seconds['step_ms']:.1f}"
        numbers = [f"{seconds['all']:.0f}", step, "" if peak is None else f"{peak:,}"]
        software = [where["device"], f"JAX {where['versions']['jax']}", where["date"]]
        marks = [record["config_sha256"][:8], record["data"]["sha256"][:8]]
        rows.append([record["experiment"], record["name"], *numbers, *software, *marks])
    header = ["experiment", "piece", "seconds", "ms per step", "MB", "device", "software", "date", "config", "data"]
    return markdown_table(header, rows) if rows else NOT_RUN
