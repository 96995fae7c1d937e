"""docs/experiments.md: what was tried to beat the baselines, from records and from what a person wrote."""

from typing import Any

import numpy as np
from material import find, find_all, text

from mrgpssm.file.record import age_note
from mrgpssm.file.words import markdown_table

OUTPUTS = ("PN", "HC", "NOx", "Temp")
OURS = {"": "`MRGPSSM()`", "blend-": "`Blend()`"}
MIXED = "first form of `MRGPSSM()`, with static parts inside"
TITLES = {
    "plain": "R=[30,5,1]",
    "plain-10-3-1": "R=[10,3,1]",
    "filters": "R=[30,5,1], filters 10, 60, 300",
    "filters-10-3-1": "R=[10,3,1], the same filters",
    "filters-5-5-5": "R=[5,5,5], the same filters",
    "four-filters": "R=[30,5,1], filters 10, 60, 300, 1500",
    "filters-delay-5": "R=[30,5,1], filters, inputs delayed by 5",
    "filters-delays-3-8": "R=[30,5,1], filters, inputs delayed by 3 and 8",
    "filters-latent-4": "R=[30,5,1], filters, 4 latent dimensions",
}
BASELINES = {
    "trees": "boosted trees",
    "gru": "GRU",
    "oe": "output-error model",
    "subspace": "subspace state-space model",
    "arx": "linear ARX",
    "static": "static polynomial",
}
LINEAR = ("oe", "subspace", "arx")
CLASSIC = {"ballbeam": ("ball and beam", 0.0487), "dryer": ("dryer", 0.105), "gas_furnace": ("gas furnace", 1.17)}
NONLINEAR = {
    "cascaded_tanks": ("cascaded tanks", "V"),
    "coupled_drives": ("coupled drives", "ticks/s"),
    "silverbox": ("Silverbox", "mV"),
}
SEEDS = 5
READ: dict[str, dict[str, Any]] = {}  # the records that the page has read, by their names
TRAINING = {
    "filters-latent-4": "as it is",
    "natural": "natural gradients",
    "finetune": "8 cycles, then 2 of fine-tuning",
}
TWO = (0, 3)
COSTS = ("static", "trees", "noise", "scores")


def make_page() -> str:
    """The whole text."""
    records = {name: read(f"options/engine-{name}") for name in TITLES}
    ours = {name: record["outputs"] for name, record in records.items()}
    parts = [
        text("experiments.md"),
        "## `MRGPSSM()` and `Blend()` on the engine\n" + default_table() + "\n\n" + bands_table(),
        "## `MRGPSSM()` on classic sets\n" + classic_table(),
        systems_section(),
        "## Linear models on sets of nonlinearbenchmark.org\n"
        + text("experiments-linear.md")
        + "\n\n"
        + linear_table(),
        "## `MRGPSSM()` on the demo's systems\n" + demo_table(),
        text("experiments-default.md"),
        "## Part by part: what was left out of training decides\n" + chosen_table(records),
        "## Part by part: test files\n" + rmse_table(ours) + "\n\n" + noise_table(ours),
        "## Part by part: the first form of `MRGPSSM()`\n" + parts_table() + "\n\n" + cost_table(),
        "## Other ways to train\n" + training_table(),
        text("experiments-log.md"),
    ]
    parts.insert(1, age_note(READ.values()))
    return "\n\n".join(part for part in parts if part) + "\n"


def read(name: str) -> dict[str, Any]:
    """A record; the page says how old those are that it has read."""
    return READ.setdefault(name, find(name))


def default(output: str, kind: str = "") -> list[dict]:
    """The scores of `MRGPSSM()` on every split; with "blend-" those of `Blend()`, with "mixed-" of its first form."""
    part = "blend" if kind == "blend-" else "default"
    return [read(f"default/{kind}engine-{n}")["parts"][part][output] for n in range(5)]


def baseline(method: str, output: str) -> list[dict]:
    """The scores of a baseline on every split."""
    return [read(f"baselines/engine-{n}-{method}")["scores"][output] for n in range(5)]


def default_table() -> str:
    """Mean RMSE of both defaults, and how often each is at or below each baseline."""
    rows = [[f"**{name}**", *(f"**{_mean(default(o, kind)):.3f}**" for o in OUTPUTS)] for kind, name in OURS.items()]
    for method, title in BASELINES.items():
        wins = {o: ", ".join(str(_wins(default(o, kind), method, o)) for kind in OURS) for o in OUTPUTS}
        rows.append([title, *(f"{_mean(baseline(method, o)):.3f} ({wins[o]})" for o in OUTPUTS)])
    rows.append([MIXED, *(f"{_mean(default(o, 'mixed-')):.3f}" for o in OUTPUTS)])
    return markdown_table(["RMSE (splits of 5 on which each of ours is at or below)", *OUTPUTS], rows)


def bands_table() -> str:
    """nLL, CRPS and coverage of both defaults and the two strong baselines."""
    rows = [[f"**{name}**", *(_bands(default(o, kind)) for o in OUTPUTS)] for kind, name in OURS.items()]
    rows += [[BASELINES[m], *(_bands(baseline(m, o)) for o in OUTPUTS)] for m in ("trees", "gru")]
    rows.append([MIXED, *(_bands(default(o, "mixed-")) for o in OUTPUTS)])
    return markdown_table(["nLL / CRPS / share in the 90 % band", *OUTPUTS], rows)


def classic_table() -> str:
    """Mean and range over seeds, beside the baselines."""
    rows = []
    for name, (title, target) in CLASSIC.items():
        found = [read(f"default/{stem}")["parts"]["default"] for stem in find_all(f"default/{name}-*")]
        first = [read(f"default/mixed-{name}-{seed}")["parts"]["default"]["rmse"] for seed in range(SEEDS)]
        errors, inside = [scores["rmse"] for scores in found], np.mean([scores["coverage_90"] for scores in found])
        digits = 4 if np.mean(errors) < 0.5 else 3
        cells = [f"{np.mean(errors):.{digits}f}", f"{min(errors):.{digits}f} to {max(errors):.{digits}f}"]
        cells += [f"{len(errors)}", f"{100 * inside:.0f} %", f"{np.mean(first):.{digits}f}"]
        for method in ("trees", "gru", *LINEAR):
            (scores,) = read(f"baselines/{name}-{method}")["scores"].values()
            cells.append(f"{scores['rmse']:.{digits}f}")
        rows.append([title, *cells, f"{target:g}"])
    head = ["RMSE", "`MRGPSSM()`", "range", "seeds", "in the 90 % band", "first form, 5 seeds"]
    return markdown_table([*head, "boosted trees", "GRU", "output error", "subspace", "ARX", "asked for"], rows)


def systems_section() -> str:
    """The default beside a linear model on every made-up system, means over the seeds; nothing without records."""
    found: dict[str, list[dict[str, Any]]] = {}
    for stem in find_all("systems/*"):
        record = read(f"systems/{stem}")
        found.setdefault(record["set"], []).append(record)
    rows = []
    for name, records in found.items():
        ours, linear = ([r["scores"]["y1"]["rmse"] for r in records], [r["linear"] for r in records])
        inside = np.mean([r["scores"]["y1"]["coverage_90"] for r in records])
        starts = " and ".join(sorted({describe_start(r["options"]) for r in records}))
        cells = [f"{np.mean(ours):.3g}", f"{np.mean(linear):.3g}", f"{np.mean(ours) / np.mean(linear):.2f}"]
        rows.append([name, *cells, f"{100 * inside:.0f} %", starts, f"{len(records)}"])
    head = ["", "`MRGPSSM()`", "linear model", "ratio", "in the 90 % band", "what it chose", "seeds"]
    about = "## Made-up systems\n" + text("experiments-systems.md")
    return f"{about}\n\n{markdown_table(head, rows)}" if rows else ""


def describe_start(options: dict[str, Any]) -> str:
    """What the trials chose, in a few words."""
    if options["start"] == "preset":
        return "the preset start"
    return "a linear start" if options["cycles"] else "the linear model"


def linear_table() -> str:
    """RMSE of the linear baselines on every test recording, and the share in their 90 % bands."""
    rows = []
    for name, (title, unit) in NONLINEAR.items():
        found = [read(f"baselines/{name}-{method}")["scores"] for method in LINEAR]
        for test in found[0]:
            about = title if len(found[0]) == 1 else f"{title}, {test}"
            cells = (f"{s[test]['rmse']:.3g} ({100 * s[test]['coverage_90']:.0f} %)" for s in found)
            rows.append([f"{about}, {unit}", *cells])
    return markdown_table(["RMSE (share in the 90 % band)", *(BASELINES[m] for m in LINEAR)], rows)


def demo_table() -> str:
    """The default beside the paper's settings: error on a fresh recording, and how well true components are met."""
    rows = []
    for file in find_all("default/demo-*"):
        record = read(f"default/{file}")
        for name, title in (("default", "`MRGPSSM()`"), ("fixed", "`MRGPSSM((30, 1))`")):
            found = record["models"][name]
            (scores,) = found["scores"].values()
            best = [f"{max(values.values()):.3f}" for _, values in sorted(found["correlations"].items(), reverse=True)]
            cells = [
                f"{scores['rmse']:.3f}",
                f"{100 * scores['coverage_90']:.0f} %",
                *best,
                f"{found['fit_seconds']:.0f} s",
            ]
            rows.append([f"{record['data']['set']}, {title}", *cells])
    head = ["a fresh recording", "RMSE", "in the 90 % band", "correlation, slow part", "fast part", "training"]
    return markdown_table(head, rows)


def chosen_table(records: dict) -> str:
    """Mean RMSE over left-out training files, what options are chosen by; and what a fleet of 100 models took."""
    rows = []
    for name, title in TITLES.items():
        seconds = records[name]["fit_seconds"]
        errors = (f"{np.mean(records[name]['outputs'][o]['left_out_rmse']):.3f}" for o in OUTPUTS)
        rows.append([title, *errors, "" if seconds is None else f"{seconds:.0f} s"])
    return markdown_table(["RMSE", *OUTPUTS, "100 models"], rows)


def rmse_table(ours: dict) -> str:
    """Single models and ensembles; how often an ensemble is at or below the trees."""
    rows = []
    for name, title in TITLES.items():
        single = (f"{np.mean(ours[name][o]['single_rmse']):.3f}" for o in OUTPUTS)
        rows.append([f"{title}, one model", *single])
    for name, title in TITLES.items():
        cells = (ours[name][o]["ensemble"] for o in OUTPUTS)
        wins = (f"{_mean(s):.3f} ({_wins(s, 'trees', o)})" for s, o in zip(cells, OUTPUTS, strict=True))
        rows.append([f"{title}, ensemble of 3", *wins])
    return markdown_table(["RMSE (splits of 5 at or below the trees)", *OUTPUTS], rows)


def noise_table(ours: dict) -> str:
    """nLL, CRPS and coverage with Gaussian and learned noise."""
    rows = []
    for name in ("plain", "filters"):
        for kind, title in (("ensemble", "Gaussian noise"), ("student", 'noise="student"')):
            cells = [ours[name][o][kind] for o in OUTPUTS]
            rows.append([f"{TITLES[name]}, {title}", *(_bands(scores) for scores in cells)])
    return markdown_table(["nLL / CRPS / share in the 90 % band", *OUTPUTS], rows)


def parts_table() -> str:
    """The first form of the default with one part taken away at a time, same models, means over the splits."""
    records = [read(f"default/mixed-engine-{n}") for n in range(5)]
    names = [name for name in records[0]["parts"] if all(name in r["parts"] for r in records)]
    cells = {name: [[r["parts"][name][o] for r in records] for o in OUTPUTS] for name in names}
    rows = [[name, *(f"{_mean(scores):.3f}" for scores in cells[name])] for name in names]
    return markdown_table(["RMSE", *OUTPUTS], rows)


def training_table() -> str:
    """Other ways to train, on the two splits that they were run on."""
    kept = {name: read(f"options/engine-{name}") for name in TRAINING}
    rows = []
    for kind, title in (("left_out_rmse", "left out"), ("ensemble", "test, ensemble of 3")):
        for name, about in TRAINING.items():
            every = len(kept[name]["outputs"]["PN"]["ensemble"]) == 5
            cells = []
            for o in OUTPUTS:
                values = kept[name]["outputs"][o][kind]
                each = [v if isinstance(v, float) else v["rmse"] for v in values]
                per = len(each) // (5 if every else len(TWO))
                chosen = [each[per * s : per * (s + 1)] for s in TWO] if every else [each]
                cells.append(f"{np.mean(np.concatenate(chosen)):.3f}")
            rows.append([f"{about}, {title}", *cells])
    return markdown_table(["RMSE, first and fourth split", *OUTPUTS], rows)


def cost_table() -> str:
    """Where the time of one output goes on a machine without a GPU."""
    rows = []
    for file in find_all("default/cost-*"):
        r = read(f"default/{file}")
        each = r["seconds"]["training"] / r["members"]
        about = f"{r['output']}, split {r['set'].split('-')[-1]}, {r['cores']} cores"
        rows.append(
            [
                about,
                f"{r['fit_seconds'] / 60:.1f} min",
                f"{each:.0f} s",
                *(f"{r['seconds'].get(k, 0):.0f} s" for k in COSTS),
            ]
        )
    head = ["one output", "in all", "one member", "static part", "trees", "noise", "scores"]
    return markdown_table(head, rows)


def _mean(scores: list[dict]) -> float:
    return float(np.mean([s["rmse"] for s in scores]))


def _wins(scores: list[dict], method: str, output: str) -> int:
    return sum(s["rmse"] <= t["rmse"] for s, t in zip(scores, baseline(method, output), strict=True))


def _bands(scores: list[dict]) -> str:
    nll, crps, inside = (np.mean([s[k] for s in scores]) for k in ("nll", "crps", "coverage_90"))
    return f"{nll:.2f} / {crps:.3f} / {100 * inside:.0f} %"
