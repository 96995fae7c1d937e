"""docs/reproduction.md: the paper's tables with ours beside, claims, costs, and what differs. From records alone."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from string import Template

from mrgpssm.file.record import age_note
from mrgpssm.paper.page import published
from mrgpssm.paper.page.results import FAILED, Results
from mrgpssm.paper.page.tables import (
    NOT_RUN,
    batch_times,
    calibration,
    claims_table,
    costs_table,
    error_ratios,
    growth,
    latents,
    side_by_side,
    targets_table,
)

IMAGES = Path("images/reproduction")
_SMOKE = (
    "**These are smoke runs on synthetic data with a handful of steps: they show that the parts work, and nothing "
    "else.**"
)
_RMSE, _NLL = partial(side_by_side, metric="rmse"), partial(side_by_side, metric="nll")
_RUN_IN = partial(_RMSE, through=True)
# What stands above every table of an experiment, and the table.
_TABLES: dict[str, dict[str, Callable[[Results, str], str]]] = {
    "semi-synthetic": {
        "RMSE, free run from the first row of the second half:": _RMSE,
        "RMSE on the second half of a free run that starts with the first half (its inputs, not its outputs):": _RUN_IN,
        "nLL per step:": _NLL,
        "Calibration of the free runs:": calibration,
        "What the sets are made of:": latents,
    },
    "batch-vs-resolution": {
        "RMSE on set S:": _RMSE,
        "nLL per step:": _NLL,
        "Seconds of training, all repeats as one fleet, measured in one process without compilation:": batch_times,
    },
    "engine": {
        "RMSE in units of the training deviation:": _RMSE,
        "RMSE in the data's units:": partial(_RMSE, unit="data"),
        "nLL per step:": _NLL,
        "Error relative to MR-GPSSM, averaged over the outputs:": error_ratios,
        "Calibration of the free runs:": calibration,
    },
    "grid": {"RMSE:": _RMSE, "nLL per step:": _NLL},
    "sensitivity": {"RMSE:": _RMSE, "nLL:": _NLL},
    "complexity": {
        "O(τ_c (M² L T + τ_o (M² L (B0 + B) + M³ L))); one size grows at a time, in one process.": growth,
    },
}
_FIGURES = {"semi-synthetic": ("resolution-matters", "semi-synthetic-sets", "predictions", "predictions-close")}


def make_page(results: Results, figures: Iterable[str]) -> str:
    """The whole page; `figures` names those that were drawn into `images/reproduction` beside it."""
    drawn, times, latent = set(figures), results.seconds("engine"), results.record("semi-synthetic", "latents")
    sections = []
    for what in _TABLES:
        title = f"## {results.experiment(what).title}"
        source = f"Paper: {published.PAPER[what]['label']}. Config: `configs/{what}.toml`."
        pictures = [f"![{name}]({IMAGES}/{name}.png)" for name in _FIGURES.get(what, (what,)) if name in drawn]
        sections.append("\n\n".join([f"{title}\n{source}", show_tables(results, what), *pictures]))
    wanted = len(results.experiment("engine").methods)
    engine = [r for r in results.records if r["experiment"] == "engine"]
    devices = ", ".join(sorted({r["environment"]["device"] for r in engine}))
    cost = f"{sum(times.values()) / 60:.1f} minutes for {len(times)} of {wanted} fleets on {devices}"
    notes = (_SMOKE if results.scale == "smoke" else "", age_note(results.records))
    data = Counter(r["data"]["name"] for r in engine).most_common(1)
    template = Template(Path(__file__).with_name("reproduction.md.in").read_text(encoding="utf-8"))
    return template.substitute(
        scale=results.scale,
        notes="".join(f"\n{note}\n" for note in notes if note),
        claims=claims_table(results),
        targets=targets_table(results),
        cost=cost if times else NOT_RUN,
        data=data[0][0] if data else "gengine2, 13 of 22 measurements",
        rows="20,126" if latent is None else f"{latent['data']['rows']:,}",
        failed=f"{FAILED:g}",
        sections="\n\n".join(sections),
        costs=costs_table(results),
    )


def show_tables(results: Results, what: str) -> str:
    """The tables of one experiment."""
    return "\n\n".join(f"{lead}\n\n{make(results, what)}" for lead, make in _TABLES[what].items())
