"""docs/performance.md from the records of `mrgpssm bench`.

python benchmarks/performance.py
"""

import json
from pathlib import Path
from typing import Any

from gpu import FLOAT32_RATE, operations

from mrgpssm.file.record import age_note
from mrgpssm.training.bench import Size

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"


def main() -> None:
    """Render all records."""
    parts = [text("head")] + [
        render(path.stem, json.loads(path.read_text())) for path in sorted(RECORDS.glob("*.json"))
    ]
    (ROOT / "docs" / "performance.md").write_text("\n".join([*parts, fleet()]))


def text(name: str) -> str:
    """What a person wrote, beside what a machine measured."""
    return (ROOT / "benchmarks" / "text" / f"{name}.md").read_text()


def age(records: list[dict[str, Any]]) -> list[str]:
    """A line and a blank one where records are older than the code, else none."""
    note = age_note(records)
    return [note, ""] if note else []


def fleet() -> str:
    """The engine fleets of `mrgpssm reproduce engine`: 4 outputs x 5 splits x 3 restarts, three components each."""
    count = operations(Size(members=60))
    rows, shown = [], []
    for path in sorted((ROOT / "results" / "reproduce" / "paper" / "engine").glob("m*.json")):
        record = json.loads(path.read_text())
        where, seconds = record["environment"]["device"], record["seconds"]["fit"]
        options = record["config"]["options"]
        if options["preset"] == "stable" and len(options["resolutions"]) == 3:
            shown.append(record)
            share = 9000 * count / seconds / FLOAT32_RATE[where]
            rows.append(f"| {record['name']} | {where} | {seconds:.1f} | {100 * share:.0f} % |")
    lines = [
        "## The engine fleet",
        "",
        "Records of `mrgpssm reproduce engine`: 60 members, 9,000 gradient steps of each, caches over 13 measurements",
        "and final bounds included; the first fleet of a process also compiles.",
        f"{count / 1e9:.0f} GFLOP a step, {9000 * count / 1e12:.0f} TFLOP a fleet.",
        "",
        *age(shown),
        "| fleet | device | seconds of training | share of the float32 rate |",
        "|---|---|---|---|",
        *rows,
        "",
        text("fleet"),
    ]
    return "\n".join(lines)


def render(name: str, record: dict[str, Any]) -> str:
    """One record as tables."""
    where = record["environment"]
    lines = [
        f"## {name}",
        "",
        f"{where['device']}, {where['cpu_count']} cores, Python {where['python']}, JAX {where['versions']['jax']}, "
        f"{where['date']}; native kernel: {record['native_kernel']}.",
        "",
        *age([record]),
        "| step | path | ms | times ours | first call, s |",
        "|---|---|---|---|---|",
    ]
    for step in record["steps"]:
        size = step["size"]
        label = (f"{step['label']}, {step['dtype']} (N={size['windows']}, T={size['steps']}, S={size['samples']}, "
                 f"M={size['inducing']}, D={size['latent']})")  # fmt: skip
        for path, time in sorted(step["times"].items(), key=lambda item: item[1]["ms"]):
            ratio = step["ratio_to_ours"][path]
            lines.append(f"| {label} | {path} | {time['ms']:.1f} | {ratio:.2f} | {time['first_s']:.1f} |")
    if "growth_ms" in record:
        lines += ["", "Our step, float32, from the paper's sizes while one grows (ms):", "", "| | |", "|---|---|"]
        for what, times in record["growth_ms"].items():
            ordered = sorted(times.items(), key=lambda item: int(item[0]))
            lines.append(f"| {what} | {', '.join(f'{n}: {ms:.1f}' for n, ms in ordered)} |")
    if "free_run" in record:
        runs = [f"{run['us_per_step']:.2f} us a step with {run['samples']} samples" for run in record["free_run"]]
        lines += ["", f"Free run of one component, {record['free_run'][0]['rows']:,} rows: {'; '.join(runs)}."]
    if "peak_megabytes" in record:
        lines += ["", f"Peak memory of the whole benchmark: {record['peak_megabytes']:.0f} MB."]
    if "parallel_in_time" in record:
        lines += parallel(record["parallel_in_time"])
    return "\n".join(lines) + "\n"


def parallel(runs: list[dict[str, Any]]) -> list[str]:
    """Newton's method on all steps at once against the walk."""
    rows = [
        f"| {run['samples']} | {run['rows']:,} | {run['walk_seconds']:.3f} | {run['newton_seconds']:.3f} | "
        f"{run['iterations']} | {run['largest_difference']:.1e} |"
        for run in runs
    ]
    return [
        "",
        "Free runs parallel in time (`benchmarks/parallel_in_time.py`): Newton's method on all steps at once by",
        "associative scans, against the kernel that walks them one by one; a model at its starting values.",
        "",
        "| samples | rows | walk, s | Newton, s | iterations | largest difference |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        text("parallel"),
    ]


if __name__ == "__main__":
    main()
