"""The same 48 small runs as one fleet and one by one, without workers: seconds, start and compilation included.

    python benchmarks/sweep.py [--out results/sweep.json]

Two outputs x two splits x twelve seeds of a synthetic system, two resolutions, 6,000 steps each. Each way has a fresh
process and no cache of compiled programs; both train the same models, and the record says how far their errors differ.
Seconds of the clock grow with what else the machine does, seconds of the processor hardly: the record has both, and the
load before and after.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from mrgpssm.data.synthetic import four_outputs
from mrgpssm.file.record import write_record
from mrgpssm.spec import sort_options
from mrgpssm.sweep.config import SweepConfig, read_sweep
from mrgpssm.sweep.runs import find_record, make_runs

MODEL = {"resolutions": [10, 1], "inducing": 8, "samples": 4, "windows": 4, "window": 10, "buffer": 2, "cycles": 10,
         "steps": 300}  # fmt: skip
OUTPUTS, SEEDS, ROWS = ("a", "b", "c", "d"), 12, 1200


def tables(folder: Path) -> dict:
    """Three recordings as files, two splits, two outputs."""
    names = []
    for number, file in enumerate(("one", "two", "three")):
        s = four_outputs(seed=number, length=ROWS, names=OUTPUTS)
        names = list(s.input_names)
        pd.DataFrame(np.hstack([s.inputs, s.outputs]), columns=[*names, *OUTPUTS]).to_csv(
            folder / f"{file}.csv", index=False
        )
    splits = [{"train": ["one.csv"], "test": ["three.csv"]}, {"train": ["two.csv"], "test": ["three.csv"]}]
    dataset = {"name": "synthetic", "inputs": names, "outputs": ["a", "b"], "dt": 0.1, "split": splits}
    return {"dataset": [dataset], **sort_options(MODEL), "grid": {"seed": list(range(SEEDS))}}


def timed(config: Path) -> tuple[float, float]:
    """Seconds of a sweep in a process of its own, by the clock and by the processor."""
    began, used = time.perf_counter(), _processor()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    subprocess.run([sys.executable, "-m", "mrgpssm", "sweep", str(config), "--serial"], check=True, env=environment)
    return time.perf_counter() - began, _processor() - used


def _processor() -> float:
    """Processor seconds of all processes that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def errors(config: SweepConfig) -> dict[str, float]:
    """The error of every run, by its id."""
    records = [find_record(config.directory, run) for run in make_runs(config)[0]]
    return {r["id"]: r["scores"]["rmse"] for r in records if r is not None}


def toml(given: dict, fleet: int) -> str:
    """The sweep as a file; JSON lists and texts are TOML's, too."""
    dataset = {k: v for k, v in given["dataset"][0].items() if k != "split"}
    tables = [(f"[{title}]", table) for title, table in sort_options(MODEL).items()]
    parts = [("[sweep]", {"fleet": fleet, "directory": f"by-{fleet}"}), *tables, ("[grid]", given["grid"])]
    parts += [("[[dataset]]", dataset)] + [("[[dataset.split]]", split) for split in given["dataset"][0]["split"]]
    return "\n".join("\n".join([head, *(f"{k} = {json.dumps(v)}" for k, v in table.items())]) for head, table in parts)


def main() -> None:
    """Measure both and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/sweep.json"))
    parser.add_argument("--fleet", type=int, default=48)
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder, found = Path(name), {}
        given = tables(folder)
        for fleet in (arguments.fleet, 1):
            path = folder / f"by-{fleet}.toml"
            path.write_text(toml(given, fleet))
            found[fleet] = *timed(path), errors(read_sweep(path))
    (packed, packed_cpu, ours), (single, single_cpu, theirs) = found[arguments.fleet], found[1]
    gaps = [abs(ours[run] - theirs[run]) / theirs[run] for run in theirs]
    record = {
        "experiment": "48 runs as fleets against one by one", "options": MODEL, "runs": len(theirs),
        "fleet": arguments.fleet, "fleet_seconds": round(packed, 1), "one_by_one_seconds": round(single, 1),
        "ratio": round(packed / single, 3), "fleet_processor_seconds": round(packed_cpu, 1),
        "one_by_one_processor_seconds": round(single_cpu, 1), "processor_ratio": round(packed_cpu / single_cpu, 3),
        "load": [round(before, 2), round(os.getloadavg()[0], 2)],
        "largest_relative_difference_of_rmse": float(f"{max(gaps):.2g}"),
        "median_relative_difference_of_rmse": float(f"{np.median(gaps):.2g}"),
    }  # fmt: skip
    write_record(arguments.out, record)
    print(record)


if __name__ == "__main__":
    main()
