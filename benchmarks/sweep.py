"""The same 48 small runs as fleets and one by one, in one process and without workers: seconds, compilation included.

    python benchmarks/sweep.py [--out results/sweep.json]

Two outputs x two splits x twelve seeds of a synthetic system, two resolutions. Both ways train the same models and
leave the same records; the largest difference between their errors is in the record.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from mrgpssm.data.synthetic import four_outputs
from mrgpssm.experiments.record import write_record
from mrgpssm.sweep.config import SweepConfig, make_sweep
from mrgpssm.sweep.engine import Workers, run_sweep
from mrgpssm.sweep.runs import make_runs, read_record, record_path

MODEL = {"resolutions": [10, 1], "inducing": 12, "samples": 5, "windows": 5, "window": 20, "buffer": 5, "cycles": 2,
         "steps": 50}  # fmt: skip
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
    return {"dataset": [dataset], "model": MODEL, "grid": {"seed": list(range(SEEDS))}}


def timed(config: SweepConfig) -> tuple[float, dict[str, float]]:
    """Seconds of a sweep, and the error of every run."""
    began = time.perf_counter()
    run_sweep(config, Workers(serial=True), print)
    seconds = time.perf_counter() - began
    records = [read_record(record_path(config.directory, run)) for run in make_runs(config)[0]]
    return seconds, {r["id"]: r["scores"]["rmse"] for r in records if r is not None}


def main() -> None:
    """Measure both and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/sweep.json"))
    parser.add_argument("--fleet", type=int, default=48)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, found = Path(name), {}
        given = tables(folder)
        for fleet in (arguments.fleet, 1):
            config = make_sweep(given | {"sweep": {"fleet": fleet, "directory": f"by-{fleet}"}}, folder, "benchmark")
            found[fleet] = timed(config)
    (packed, ours), (single, theirs) = found[arguments.fleet], found[1]
    gaps = [abs(ours[run] - theirs[run]) / theirs[run] for run in theirs]
    record = {
        "experiment": "48 runs as fleets against one by one", "options": MODEL, "runs": len(theirs),
        "fleet": arguments.fleet, "fleet_seconds": round(packed, 1), "one_by_one_seconds": round(single, 1),
        "ratio": round(packed / single, 3), "largest_relative_difference_of_rmse": float(f"{max(gaps):.2g}"),
        "median_relative_difference_of_rmse": float(f"{np.median(gaps):.2g}"),
    }  # fmt: skip
    write_record(arguments.out, record)
    print(record)


if __name__ == "__main__":
    main()
