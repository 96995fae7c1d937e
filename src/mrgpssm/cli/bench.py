"""`mrgpssm bench`: the speed of training, simulation and whole fits on this machine."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mrgpssm import native
from mrgpssm.baselines.compare import methods_named
from mrgpssm.cli.flags import Json
from mrgpssm.cli.show import print_json, print_rows, say
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.file.record import write_record
from mrgpssm.sweep.fits import CASES, find_cases, tabulate_fits, time_fits
from mrgpssm.training.bench import bench as measure


def bench(
    what: Annotated[Literal["step", "fit"], typer.Argument(help="A gradient step, or whole fits.")] = "step",
    out: Annotated[Path | None, typer.Option(help="Write the record to this JSON file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Gradient steps only.")] = False,
    cases: Annotated[str, typer.Option(help=f"Fits: some of {', '.join(CASES)}.")] = ",".join(CASES),
    rivals: Annotated[str, typer.Option(help="Fits: baselines beside ours, separated by commas.")] = "trees,gru,oe",
    data_root: Annotated[Path | None, typer.Option(help="A folder that holds the files of tanks and engine.")] = None,
    as_json: Json = False,
) -> None:
    """Time a gradient step with every implementation available here, its growth with each size, and free runs.

    Or, with `fit`: the whole of `mrgpssm fit`, from CSV files to the model, beside baselines on the same data.
    """
    tell = lambda line: say(line, err=True)  # noqa: E731
    result = _time_fits(cases, rivals, data_root) if what == "fit" else measure(quick, tell)
    if out is not None:
        write_record(out, result)
    if as_json:
        print_json(result)
    elif what == "fit":
        print_rows("From data to model", *tabulate_fits(result["fits"]))
    else:
        _show_steps(result)


def _time_fits(cases: str, rivals: str, root: Path | None) -> dict[str, Any]:
    names, others = [name.strip() for name in cases.split(",") if name.strip()], ()
    if rivals.strip():
        others = methods_named(rivals)
    if not names:
        raise ConfigError(f"Name a case for --cases: {', '.join(CASES)}.")
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            found = find_cases([name], root)
        except DataError as error:
            say(f"left out: {error}", err=True)
            continue
        rows += time_fits(name, found[name], others, lambda line: say(line, err=True))
    if not rows:
        raise DataError("No case has data here; name recording, or point --data-root at the files.")
    return {"experiment": "bench fit", "native_kernel": native.ready(), "fits": rows}


def _show_steps(result: dict[str, Any]) -> None:
    rows = []
    for step in result["steps"]:
        for name, time in step["times"].items():
            what = f"{step['label']}, {step['dtype']}"
            rows.append(
                [what, name, f"{time['ms']:.1f}", f"{step['ratio_to_ours'][name]:.2f}", f"{time['first_s']:.1f}"]
            )
    print_rows("One gradient of the bound", ["step", "path", "ms", "times ours", "first call, s"], rows)
    if "growth_ms" in result:
        grown = []
        for name, times in result["growth_ms"].items():
            grown.append([name, ", ".join(f"{n}: {ms:.1f}" for n, ms in times.items())])
        print_rows("Our step in ms while one size grows", ["size", "ms"], grown)
        for run in result["free_run"]:
            say(f"Free run of one component, {run['samples']} samples: {run['us_per_step']:.1f} us a step.")
    if not result["native_kernel"]:
        say("The native kernel is not in use (no C++ compiler, another device, or MRGPSSM_NATIVE=0).")
