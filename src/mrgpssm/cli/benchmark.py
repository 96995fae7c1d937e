"""`mrgpssm benchmark`: the sets of nonlinearbenchmark.org by their official protocol."""

from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import Json, Quiet
from mrgpssm.cli.show import print_json, print_rows, say
from mrgpssm.data.nonlinear import BENCHMARKS, find_benchmark, load_benchmark
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.sweep.benchmark import record_benchmark, tabulate_benchmarks


def benchmark(
    sets: Annotated[list[str], typer.Argument(help=f"Some of {', '.join(BENCHMARKS)}; or all.")],
    data_root: Annotated[Path | None, typer.Option(help="A folder that holds the files, anywhere below it.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fits of every set, with seeds 0, 1 and so on.")] = 1,
    blend: Annotated[bool, typer.Option("--blend", help="Fit Blend() instead of MRGPSSM().")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the records and models.")] = Path("benchmark"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn from the training recordings without arguments, run freely over the test recordings, and score.

    Of a test recording the inputs and the first rows' outputs are used. Records that are there are not made again.
    """
    if "all" in sets and len(sets) > 1:
        raise ConfigError("all is every set whose files are found; name it alone.")
    splits = {}
    for name in BENCHMARKS if "all" in sets else dict.fromkeys(sets):
        find_benchmark(name)
        try:
            splits[name] = load_benchmark(name, data_root)
        except DataError as error:
            if "all" not in sets:
                raise
            say(f"left out: {error}", err=True)
    if not splits:
        raise DataError("No benchmark's files were found; point --data-root at their folder.")
    records = []
    for name, split in splits.items():
        for seed in range(seeds):
            if not quiet:
                say(f"{find_benchmark(name).title}, seed {seed}", err=True)
            records.append(record_benchmark(name, split, blend, seed, out, not quiet))
    table = tabulate_benchmarks(records)
    if as_json:
        print_json({"records": str(out), "scores": table})
        return
    rows = [
        [
            r["set"],
            r["test"],
            r["output"],
            f"{r['rmse']:.4g} {r['unit']}",
            f"{r['least']:.4g} to {r['most']:.4g}",
            f"{r['nll']:.3g}",
            f"{r['crps']:.3g}",
            f"{100 * r['coverage_90']:.0f}",
        ]
        for r in table
    ]
    columns = ["set", "test", "output", "RMSE", "range", "nLL", "CRPS", "90 % cover"]
    print_rows(f"{table[0]['method']}, free runs, seeds: {seeds}", columns, rows)
    say(f"Records and models are in {out}.")
