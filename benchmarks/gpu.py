"""What a GPU makes of it: the 60-member engine fleet, twice; a gradient step of every path; free runs of 10^6 steps.

python benchmarks/gpu.py ROOT --out results/performance/NAME.json     (ROOT holds gengine2/)
"""

import argparse
import time
from pathlib import Path
from typing import Any

from parallel_in_time import measure

from mrgpssm import native
from mrgpssm.arrays.precision import floating_point
from mrgpssm.file.record import device_name, write_record
from mrgpssm.paper.config import load_experiment
from mrgpssm.paper.fleet import make_problem_fleet
from mrgpssm.paper.problems import engine_problem
from mrgpssm.training import begin, fit_fleet
from mrgpssm.training.bench import FLOAT32_RATE, PAPER, Size, compare, free_run


def fleet(root: str) -> dict[str, Any]:
    """MR-GPSSM on 4 outputs x 5 splits x 3 restarts, 9,000 steps each, caches and final bounds included."""
    method = next(m for m in load_experiment("engine", "paper").methods if m.spec.structure.resolutions == (30, 5, 1))
    options, seconds = method.spec, []
    with floating_point(options.structure.precision):
        problem = engine_problem("paper", root)
        for _ in range(2):
            made = make_problem_fleet(options, problem, method.observation_sd)
            start = time.perf_counter()
            fit_fleet(made.plan, begin(made.plan, made.ssm), lambda _: None)
            seconds.append(round(time.perf_counter() - start, 2))
    members = int(made.plan.tasks.columns.shape[0])
    steps = options.training.cycles * options.training.steps * len(options.structure.resolutions)
    total = steps * Size(members=members).operations
    rate = FLOAT32_RATE.get(device_name())
    return {
        "members": members,
        "steps": steps,
        "first_seconds": seconds[0],
        "second_seconds": seconds[1],
        "operations": total,
        "share_of_float32_rate": None if rate is None else round(total / seconds[1] / rate, 3),
    }


def main() -> None:
    """All of it as one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    record: dict[str, Any] = {"experiment": "gpu", "native_kernel": native.ready(), "steps": []}
    for label, size, dtype in (
        ("paper", PAPER, "float32"),
        ("paper, 60 members", Size(members=60), "float32"),
        ("paper", PAPER, "float64"),
    ):
        record["steps"].append({"label": label} | compare(size, dtype))
        print(label, dtype, record["steps"][-1]["ratio_to_ours"], flush=True)
        write_record(arguments.out, record)
    record["free_run"] = [free_run(samples, 1_000_000) for samples in (20, 100)]
    record["parallel_in_time"] = []
    print(record["free_run"], flush=True)
    for samples, rows in ((1, 10_000), (1, 1_000_000), (20, 1_000_000)):
        record["parallel_in_time"].append(measure(samples, rows))
        print(record["parallel_in_time"][-1], flush=True)
        write_record(arguments.out, record)
    record["fleet"] = fleet(arguments.root)
    print(record["fleet"], flush=True)
    write_record(arguments.out, record)


if __name__ == "__main__":
    main()
