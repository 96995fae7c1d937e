"""`MRGPSSM()` on made-up systems (tests/systems.py), beside the best linear model: one record per system and seed.

    python benchmarks/systems.py [NAMES] [--seeds 0 1] [--out results/systems]

4,000 rows train. A fresh recording of 3,000 rows is run freely after a warm-up of 50.
"""

import argparse
import itertools
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from systems import SYSTEMS, make

from mrgpssm import MRGPSSM, Training
from mrgpssm.data import Scaling, Sequence
from mrgpssm.data.ranges import Recording
from mrgpssm.file.record import write_record
from mrgpssm.sweep.benchmark import describe_fit, round_scores
from mrgpssm.training.linear.subspace import identify

ROWS, TEST_ROWS, WARMUP, TEST_SEED = 4000, 3000, 50, 1000


def linear_error(train: Sequence, test: Sequence) -> float:
    """The error of a subspace model whose order was chosen on rows left out."""
    scaling = Scaling.fit([train])
    own, other = (Recording(scaling.inputs(s.inputs), scaling.outputs(s.outputs)) for s in (train, test))
    if (found := identify([own])) is None:
        raise ValueError(f"{train.name}: no linear model was found.")
    run = found.model.run(other.inputs[WARMUP:], other.rows(slice(WARMUP)))
    return float(np.sqrt(np.mean((run - other.outputs[WARMUP:]) ** 2)) * scaling.output_sd[0])


def record(name: str, seed: int, out: Path) -> None:
    """One system and seed, where there is no record yet."""
    path = out / f"{name}-{seed}.json"
    if path.exists():
        return
    train, test = make(name, seed, ROWS), make(name, seed + TEST_SEED, TEST_ROWS)
    begun = time.perf_counter()
    model = MRGPSSM(training=Training(seed=seed)).fit(train)
    about = describe_fit(model, [train], [test], time.perf_counter() - begun)
    scores = round_scores(model.score(test, warmup_rows=WARMUP))
    linear = round(linear_error(train, test), 5)
    write_record(path, {"experiment": "systems", "set": name, "seed": seed, "scores": scores, "linear": linear} | about)
    print(name, seed, scores["y1"]["rmse"], linear, scores["y1"]["coverage_90"], flush=True)


def main() -> None:
    """Whatever has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--out", type=Path, default=Path("results/systems"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for seed, name in itertools.product(given.seeds, given.names):
        record(name, seed, given.out)


if __name__ == "__main__":
    main()
