"""A fleet of four against four single fits, in one process: seconds of training, compilation not counted.

python benchmarks/fleet.py [--out results/fleet.json]
"""

import argparse
import time
from pathlib import Path
from typing import Any

from mrgpssm import MRGPSSM
from mrgpssm.data.synthetic import two_scales
from mrgpssm.file.record import write_record
from mrgpssm.spec import arrange

OPTIONS: dict[str, Any] = {
    "resolutions": (30, 1),
    "inducing": 30,
    "windows": 12,
    "samples": 8,
    "cycles": 2,
    "steps": 50,
    "folds": 0,
}


def seconds(restarts: int, repeats: int) -> float:
    """Time of `repeats` fits after one that compiles."""
    data = two_scales("M1", seed=0).sequence
    MRGPSSM(**arrange(**OPTIONS, restarts=restarts)).fit(data, progress=False)
    start = time.perf_counter()
    for seed in range(repeats):
        MRGPSSM(**arrange(**OPTIONS, restarts=restarts, seed=seed)).fit(data, progress=False)
    return time.perf_counter() - start


def main() -> None:
    """Measure both and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/fleet.json"))
    arguments = parser.parse_args()
    single, fleet = seconds(1, 4), seconds(4, 1)
    write_record(
        arguments.out,
        {
            "experiment": "fleet of 4 against 4 single fits",
            "options": OPTIONS,
            "single_x4_seconds": round(single, 2),
            "fleet_seconds": round(fleet, 2),
            "ratio": round(fleet / single, 3),
        },
    )
    print(f"four single fits {single:.1f} s, a fleet of four {fleet:.1f} s, ratio {fleet / single:.2f}")


if __name__ == "__main__":
    main()
