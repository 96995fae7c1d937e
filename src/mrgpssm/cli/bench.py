"""`mrgpssm bench`: the speed of training and simulation on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import Json
from mrgpssm.cli.show import print_json, print_rows, say
from mrgpssm.file.record import write_record
from mrgpssm.training.bench import bench as measure


def bench(
    out: Annotated[Path | None, typer.Option(help="Write the record to this JSON file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Gradient steps only.")] = False,
    as_json: Json = False,
) -> None:
    """Time a gradient step with every implementation available here, its growth with each size, and free runs."""
    result = measure(quick, lambda line: say(line, err=True))
    if out is not None:
        write_record(out, result)
    if as_json:
        print_json(result)
        return
    rows = []
    for step in result["steps"]:
        for name, time in step["times"].items():
            what = f"{step['label']}, {step['dtype']}"
            rows.append(
                [what, name, f"{time['ms']:.1f}", f"{step['ratio_to_ours'][name]:.2f}", f"{time['first_s']:.1f}"]
            )
    columns = ["step", "path", "ms", "times ours", "first call, s"]
    print_rows("One gradient of the bound", columns, rows)
    if not quick:
        grown = []
        for name, times in result["growth_ms"].items():
            grown.append([name, ", ".join(f"{n}: {ms:.1f}" for n, ms in times.items())])
        print_rows("Our step in ms while one size grows", ["size", "ms"], grown)
        for run in result["free_run"]:
            say(f"Free run of one component, {run['samples']} samples: {run['us_per_step']:.1f} us a step.")
    if not result["native_kernel"]:
        say("The native kernel is not in use (no C++ compiler, another device, or MRGPSSM_NATIVE=0).")
