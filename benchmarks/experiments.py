"""docs/experiments.md: what was tried to beat the baselines, from records and from what a person wrote.

python benchmarks/experiments.py
"""

import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
OUTPUTS = ("PN", "HC", "NOx", "Temp")
TARGETS = {"PN": 0.45, "HC": 0.285, "NOx": 0.13, "Temp": 0.11}
TITLES = {
    "plain": "R=[30,5,1]",
    "plain-10-3-1": "R=[10,3,1]",
    "filters": "R=[30,5,1], filters 10, 60, 300",
    "filters-10-3-1": "R=[10,3,1], the same filters",
    "filters-5-5-5": "R=[5,5,5], the same filters",
}
BASELINES = {"trees": "boosted trees", "arx": "linear ARX", "static": "static polynomial"}


def main() -> None:
    """Write the page."""
    folder = ROOT / "results" / "options"
    ours = {name: json.loads((folder / f"engine-{name}.json").read_text())["outputs"] for name in TITLES}
    parts = [
        (ROOT / "benchmarks" / "text" / "experiments.md").read_text().rstrip(),
        "## What was left out of training decides\n" + chosen_table(ours),
        "## Test files: the mean\n" + rmse_table(ours),
        "## Test files: the bands\n" + bands_table(ours),
        (ROOT / "benchmarks" / "text" / "experiments-log.md").read_text().rstrip(),
    ]
    (ROOT / "docs" / "experiments.md").write_text("\n\n".join(parts) + "\n")


def chosen_table(ours: dict) -> str:
    """Mean RMSE over left-out training files: what options are chosen by."""
    rows = [
        [title, *(f"{np.mean(ours[name][o]['left_out_rmse']):.3f}" for o in OUTPUTS)] for name, title in TITLES.items()
    ]
    return table(["RMSE", *OUTPUTS], rows)


def rmse_table(ours: dict) -> str:
    """Single models, ensembles and baselines; how often an ensemble is at or below the trees."""
    rows = []
    for name, title in TITLES.items():
        single = (f"{np.mean(ours[name][o]['single_rmse']):.3f}" for o in OUTPUTS)
        rows.append([f"{title}, one model", *single])
    for name, title in TITLES.items():
        rows.append([f"{title}, ensemble of 3", *(_against_trees(ours[name][o]["ensemble"], o) for o in OUTPUTS)])
    for method, title in BASELINES.items():
        rows.append([title, *(f"{np.mean([s['rmse'] for s in baseline(method, o)]):.3f}" for o in OUTPUTS)])
    rows.append(["asked for", *(f"{TARGETS[o]:g}" for o in OUTPUTS)])
    return table(["RMSE (splits of 5 at or below the trees)", *OUTPUTS], rows)


def bands_table(ours: dict) -> str:
    """nLL, CRPS and coverage with Gaussian and learned noise, beside the trees."""
    rows = []
    for name in ("plain", "filters"):
        for kind, title in (("ensemble", "Gaussian noise"), ("student", 'noise="student"')):
            cells = [ours[name][o][kind] for o in OUTPUTS]
            rows.append([f"{TITLES[name]}, {title}", *(_bands(scores) for scores in cells)])
    rows.append(["boosted trees, calibrated quantiles", *(_bands(baseline("trees", o)) for o in OUTPUTS)])
    return table(["nLL / CRPS / share in the 90 % band", *OUTPUTS], rows)


def baseline(method: str, output: str) -> list[dict]:
    """The scores of a baseline on every split."""
    paths = (ROOT / "results" / "baselines" / f"engine-{n}-{method}.json" for n in range(5))
    return [json.loads(path.read_text())["scores"][output] for path in paths]


def _against_trees(scores: list[dict], output: str) -> str:
    wins = sum(s["rmse"] <= t["rmse"] for s, t in zip(scores, baseline("trees", output), strict=True))
    return f"{np.mean([s['rmse'] for s in scores]):.3f} ({wins})"


def _bands(scores: list[dict]) -> str:
    nll, crps, inside = (np.mean([s[k] for s in scores]) for k in ("nll", "crps", "coverage_90"))
    return f"{nll:.2f} / {crps:.3f} / {100 * inside:.0f} %"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
