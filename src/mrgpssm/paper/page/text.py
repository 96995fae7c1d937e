"""docs/reproduction.md: the paper's tables with ours beside, claims, costs, and what differs. From records alone."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from mrgpssm.file.record import age_note
from mrgpssm.file.words import markdown_table
from mrgpssm.paper.config import EXPERIMENTS
from mrgpssm.paper.page import published
from mrgpssm.paper.page.claims import Claim, claims, look_in, look_in_paper, relative_errors, targets
from mrgpssm.paper.page.results import FAILED, Results
from mrgpssm.paper.page.tables import NOT_RUN, batch_times, calibration, growth, side_by_side

IMAGES = Path("images/reproduction")
_HEAD = """# Reproduction of the paper

Generated from records by `mrgpssm reproduce all --scale {scale} --page docs/reproduction.md`; do not edit. Every number
comes from a record; what has no record is marked "not run". Cells are means (standard errors) over folds or repeats;
bold marks the best and all that overlap with it within their standard errors, as in the paper. Italics are the
paper's own numbers, from the tables named under each title.
"""
_SMOKE = """
**These are smoke runs on synthetic data with a handful of steps: they show that the parts work, and nothing else.**
"""
_SHARED = """Pieces whose milliseconds per step are above those of their likes shared the device with others: read their
seconds as upper bounds. Times that are compared (the pieces "timing" and "cost") were measured in a process of their
own, "cost" on CPU cores."""
_RUN = """## How to run it
```
mrgpssm reproduce all --scale smoke                               # embedded data, minutes on two cores
mrgpssm reproduce engine --scale paper --data ROOT --minutes 9    # ROOT holds gengine2/; repeat until none is left
mrgpssm reproduce engine --scale paper --show                     # the tables so far, from records only
mrgpssm reproduce all --scale paper --page docs/reproduction.md   # this page and its figures
```
A piece is one method as one fleet: all outputs, folds and restarts train as one compiled program. Each leaves one
record with config, seeds, data hash, versions, device, seconds, every restart's bound and metrics; finished ones are
skipped.
"""
_DIFFERS = """## What differs from the paper
- **Data**: {data}. The paper has 22 measurements, 16 to train and 6 to test on; ours are 7 and 6.
- **Semi-synthetic sets**: made from measurement 15 by the paper's recipe. The paper does not name its measurement; its
  series has 37,961 rows, ours {rows}. The sets are sums of the mean free runs of one GPSSM with D=1 per output (the
  best bound of three restarts, 600 steps).
- **nLL**: the paper does not define it. Ours is the mean per step of -log 1/S Σ N(y | x_s, σ²) over sampled paths x_s,
  in units of the training deviation. The paper's is about 30 times as large: compare its pattern only.
- **Model**: a stabilised mean x + Ax + Bu + b with |I + A| < 1 and a whitened q(f_M), windows that start from cached
  states, fast components trained before slow ones, and a learning rate that falls over the cycles. The paper's own
  configuration is in the engine table as "as published".
- **Units**: RMSE in units of the training files' deviation (the paper's normalisation), and once more in the data's own
  (standardised over all published files).
- **Failed runs** are those with values that are not finite or an RMSE above {failed:g} training deviations, three times
  that of predicting the mean. Means are over the others; the count is given.
"""


def make_page(results: Results, figures: Iterable[str]) -> str:
    """The whole page; `figures` names those that were drawn into `images/reproduction` beside it."""
    drawn = set(figures)
    head = _HEAD.format(scale=results.scale) + (_SMOKE if results.scale == "smoke" else "")
    parts = [part for part in (head, age_note(results.records), _summary(results)) if part]
    parts.append(_DIFFERS.format(data=_data(results), rows=_rows(results), failed=FAILED))
    for what, write in _SECTIONS.items():
        pictures = [f"![{name}]({IMAGES}/{name}.png)" for name in _FIGURES[what] if name in drawn]
        title = f"## {results.experiment(what).title}\nPaper: {published.LABELS[what]}. Config: `configs/{what}.toml`."
        parts.append("\n\n".join([title, *write(results), *pictures]))
    parts += [_RUN, f"## Cost\n{_SHARED}\n\n{_costs(results)}"]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def show_tables(results: Results, what: str) -> str:
    """The tables of one experiment."""
    return "\n\n".join(_SECTIONS[what](results))


def claims_table(results: Results) -> str:
    """All claims: the verdict on our records, and that of the same test on the paper's own numbers."""
    theirs = {claim.text: claim for claim in claims(look_in_paper)}
    rows = []
    for claim in claims(look_in(results)):
        printed = theirs[claim.text]
        rows.append([claim.text, claim.source, f"**{claim.verdict}**", claim.numbers,
                     "no table" if printed.holds is None else printed.verdict])  # fmt: skip
    return markdown_table(["claim", "where", "here", "numbers", "paper's own numbers"], rows)


def targets_table(results: Results) -> str:
    """This project's targets in the data's units, in training units, and with a run-in through the first half."""
    views = (look_in(results, unit="data"), look_in(results), look_in(results, through=True))
    rows = []
    for first, second, third in zip(*(targets(look) for look in views), strict=True):
        run_in = _verdict(third) if first.text.startswith("Semi-synthetic") else "does not apply"
        rows.append([first.text, _verdict(first), _verdict(second), run_in])
    return markdown_table(["target", "in the data's units", "in training units", "run-in through the first half"], rows)


def _verdict(claim: Claim) -> str:
    return NOT_RUN if claim.holds is None else f"**{'met' if claim.holds else 'not met'}** ({claim.numbers})"


def _summary(results: Results) -> str:
    minutes = sum(results.seconds("engine").values()) / 60
    done, wanted = len(results.seconds("engine")), len(results.experiment("engine").methods)
    cost = f"{minutes:.1f} minutes for {done} of {wanted} fleets on {_devices(results, 'engine')}" if done else NOT_RUN
    return "\n\n".join(
        ["## Does it hold?", claims_table(results), "## Targets of this project", targets_table(results),
         f"The whole `engine` experiment, training, judging and compiling: {cost}."]
    )  # fmt: skip


def _engine(results: Results) -> list[str]:
    ratios = {"ours": relative_errors(look_in(results)), "*paper*": relative_errors(look_in_paper)}
    rows = [[n, *(f"{r[n]:.2f}" if n in r else NOT_RUN for r in ratios.values())] for n in published.ENGINE_METHODS]
    return [
        "RMSE in units of the training deviation:", side_by_side(results, "engine", "rmse"),
        "RMSE in the data's units:", side_by_side(results, "engine", "rmse", unit="data"),
        "nLL per step:", side_by_side(results, "engine", "nll"),
        "Error relative to MR-GPSSM, averaged over the outputs:", markdown_table(["method", *ratios], rows),
        "Calibration of the free runs:", calibration(results, "engine"),
    ]  # fmt: skip


def _semi_synthetic(results: Results) -> list[str]:
    return [
        "RMSE, free run from the first row of the second half:", side_by_side(results, "semi-synthetic", "rmse"),
        "RMSE on the second half of a free run that starts with the first half (its inputs, not its outputs):",
        side_by_side(results, "semi-synthetic", "rmse", through=True),
        "nLL per step:", side_by_side(results, "semi-synthetic", "nll"),
        "Calibration of the free runs:", calibration(results, "semi-synthetic"),
        "What the sets are made of:", _latents(results),
    ]  # fmt: skip


def _latents(results: Results) -> str:
    record = results.record("semi-synthetic", "latents")
    if record is None:
        return NOT_RUN
    rows = [
        [name, str(x["resolution"]), f"{x['rmse']:.3f}", f"{x['std']:.3f}"] for name, x in record["latents"].items()
    ]
    return markdown_table(["latent of", "R", "RMSE to the measured output", "deviation of the latent"], rows)


def _sensitivity(results: Results) -> list[str]:
    return ["RMSE:", side_by_side(results, "sensitivity", "rmse"), "nLL:", side_by_side(results, "sensitivity", "nll")]


def _grid(results: Results) -> list[str]:
    return ["RMSE:", side_by_side(results, "grid", "rmse"), "nLL per step:", side_by_side(results, "grid", "nll")]


def _batches(results: Results) -> list[str]:
    what = "batch-vs-resolution"
    return [
        "RMSE on set S:", side_by_side(results, what, "rmse"), "nLL per step:", side_by_side(results, what, "nll"),
        "Seconds of training, all repeats as one fleet, measured in one process without compilation:",
        batch_times(results),
    ]  # fmt: skip


def _complexity(results: Results) -> list[str]:
    formula = "O(τ_c (M² L T + τ_o (M² L (B0 + B) + M³ L))); one size grows at a time, in one process."
    return [formula, growth(results)]


_SECTIONS = {
    "semi-synthetic": _semi_synthetic,
    "batch-vs-resolution": _batches,
    "engine": _engine,
    "grid": _grid,
    "sensitivity": _sensitivity,
    "complexity": _complexity,
}
_FIGURES = {
    "semi-synthetic": ("resolution-matters", "semi-synthetic-sets", "predictions", "predictions-close"),
    "batch-vs-resolution": (),
    "engine": ("engine",),
    "grid": ("grid",),
    "sensitivity": ("sensitivity",),
    "complexity": ("complexity",),
}


def _data(results: Results) -> str:
    names = [r["data"]["name"] for r in results.records if r["experiment"] == "engine"]
    return Counter(names).most_common(1)[0][0] if names else "gengine2, 13 of 22 measurements"


def _rows(results: Results) -> str:
    record = results.record("semi-synthetic", "latents")
    return "20,126" if record is None else f"{record['data']['rows']:,}"


def _devices(results: Results, what: str) -> str:
    return ", ".join(sorted({r["environment"]["device"] for r in results.records if r["experiment"] == what}))


def _costs(results: Results) -> str:
    rows = []
    for what in EXPERIMENTS:
        for record in results.records:
            if record["experiment"] == what:
                seconds, env = record["seconds"], record["environment"]
                step, peak = seconds.get("step_ms"), record.get("peak_megabytes")
                rows.append([what, record["name"], f"{seconds['all']:.0f}", "" if step is None else f"{step:.1f}",
                             "" if peak is None else f"{peak:,}", env["device"], f"JAX {env['versions']['jax']}",
                             env["date"], record["config_sha256"][:8], record["data"]["sha256"][:8]])  # fmt: skip
    header = ["experiment", "piece", "seconds", "ms per step", "MB", "device", "software", "date", "config", "data"]
    return markdown_table(header, rows) if rows else NOT_RUN
