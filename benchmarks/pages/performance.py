"""docs/performance.md from the records of `mrgpssm bench` and of the engine fleets."""

from typing import Any

from material import find_all, text

from mrgpssm.file.record import age_note
from mrgpssm.file.words import markdown_table
from mrgpssm.sweep.fits import tabulate_fits
from mrgpssm.training.bench import FLOAT32_RATE, Size


def make_page() -> str:
    """The whole text."""
    parts = [text("performance.md")]
    for name, record in find_all("performance/*").items():
        parts += render(name, record)
    return "\n\n".join(part for part in (*parts, *fleet()) if part) + "\n"


def fleet() -> list[str]:
    """The engine fleets of `mrgpssm reproduce engine`: 4 outputs x 5 splits x 3 restarts, three components each."""
    count = Size(members=60).operations
    rows, shown = [], []
    for record in find_all("reproduce/paper/engine/m*").values():
        where, seconds = record["environment"]["device"], record["seconds"]["fit"]
        options = record["config"]["options"]
        if options["preset"] == "stable" and len(options["resolutions"]) == 3:
            shown.append(record)
            share = 9000 * count / seconds / FLOAT32_RATE[where]
            rows.append([record["name"], where, f"{seconds:.1f}", f"{100 * share:.0f} %"])
    lead = (
        "Records of `mrgpssm reproduce engine`: 60 members, 9,000 gradient steps of each, caches over 13 measurements\n"
        "and final bounds included; the first fleet of a process also compiles.\n"
        f"{count / 1e9:.0f} GFLOP a step, {9000 * count / 1e12:.0f} TFLOP a fleet."
    )
    head = ["fleet", "device", "seconds of training", "share of the float32 rate"]
    return ["## The engine fleet", lead, age_note(shown), markdown_table(head, rows), text("fleet.md")]


def render(name: str, record: dict[str, Any]) -> list[str]:
    """One record: where it was measured, and its tables."""
    where = record["environment"]
    parts = [
        f"## {name}",
        f"{where['device']}, {where['cpu_count']} cores, Python {where['python']}, JAX {where['versions']['jax']}, "
        f"{where['date']}; native kernel: {record['native_kernel']}.",
        age_note([record]),
    ]
    if "fits" in record:
        return [*parts, text("fits.md"), markdown_table(*tabulate_fits(record["fits"]))]
    parts.append(markdown_table(["step", "path", "ms", "times ours", "first call, s"], _steps(record["steps"])))
    if "growth_ms" in record:
        rows = []
        for what, times in record["growth_ms"].items():
            ordered = sorted(times.items(), key=lambda item: int(item[0]))
            rows.append([what, ", ".join(f"{n}: {ms:.1f}" for n, ms in ordered)])
        parts += ["Our step, float32, from the paper's sizes while one grows (ms):", markdown_table(["", ""], rows)]
    if "free_run" in record:
        runs = [f"{run['us_per_step']:.2f} us a step with {run['samples']} samples" for run in record["free_run"]]
        parts.append(f"Free run of one component, {record['free_run'][0]['rows']:,} rows: {'; '.join(runs)}.")
    if "peak_megabytes" in record:
        parts.append(f"Peak memory of the whole benchmark: {record['peak_megabytes']:.0f} MB.")
    if "parallel_in_time" in record:
        parts += _parallel(record["parallel_in_time"])
    return parts


def _steps(steps: list[dict[str, Any]]) -> list[list[str]]:
    """A row for every path of every step, the fastest first."""
    rows = []
    for step in steps:
        size = step["size"]
        sizes = {"N": "windows", "T": "steps", "S": "samples", "M": "inducing", "D": "latent"}
        label = f"{step['label']}, {step['dtype']} ({', '.join(f'{k}={size[name]}' for k, name in sizes.items())})"
        for path, time in sorted(step["times"].items(), key=lambda item: item[1]["ms"]):
            numbers = (f"{time['ms']:.1f}", f"{step['ratio_to_ours'][path]:.2f}", f"{time['first_s']:.1f}")
            rows.append([label, path, *numbers])
    return rows


def _parallel(runs: list[dict[str, Any]]) -> list[str]:
    """Newton's method on all steps at once against the walk."""
    rows = []
    for run in runs:
        seconds = (f"{run['walk_seconds']:.3f}", f"{run['newton_seconds']:.3f}")
        numbers = (str(run["iterations"]), f"{run['largest_difference']:.1e}")
        rows.append([str(run["samples"]), f"{run['rows']:,}", *seconds, *numbers])
    lead = (
        "Free runs parallel in time (`benchmarks/parallel_in_time.py`): Newton's method on all steps at once by\n"
        "associative scans, against the kernel that walks them one by one; a model at its starting values."
    )
    head = ["samples", "rows", "walk, s", "Newton, s", "iterations", "largest difference"]
    return [lead, markdown_table(head, rows), text("parallel.md")]
