"""What `MRGPSSM()` costs on this machine, part by part: one output of one engine split, fitted from beginning to end.

    python benchmarks/cost.py DATA_ROOT [--output Temp] [--split 0] [--out results/default]

Seconds are of this process by the clock: training of all members (restarts and folds train side by side, so that one
costs its share), free runs over unseen data, learned noise and scores from these. The
record also holds the scores on the test files.
"""

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path
from unittest import mock

from baselines import engine_case

from mrgpssm import MRGPSSM
from mrgpssm.data.sequence import take_outputs
from mrgpssm.estimator import estimator, unseen
from mrgpssm.file.record import write_record
from mrgpssm.sweep.benchmark import hash_sequences, round_scores

TIMED = {
    "training": (estimator, "fit_fleet"),
    "runs": (unseen, "keep_runs"),
    "noise": (unseen, "learn_noise"),
    "scores": (unseen, "score_runs"),
}


def main() -> None:
    """One fit, one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--output", default="Temp")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/default"))
    given = parser.parse_args()
    case = engine_case(given.root, given.split)
    train, test = ([take_outputs(s, [given.output]) for s in some] for some in (case.train, case.test))
    seconds: dict[str, float] = defaultdict(float)

    def timed(name, function):
        def call(*args, **more):
            begun = time.perf_counter()
            try:
                return function(*args, **more)
            finally:
                seconds[name] += time.perf_counter() - begun

        return call

    for name, (module, *functions) in TIMED.items():
        for function in functions:
            mock.patch.object(module, function, timed(name, getattr(module, function))).start()
    begun = time.perf_counter()
    model = MRGPSSM().fit(train)
    whole = time.perf_counter() - begun
    mock.patch.stopall()
    options = model.fitted_.spec
    record = {
        "experiment": "default, cost",
        "set": case.name,
        "output": given.output,
        "train": [s.name for s in train],
        "data_sha256": hash_sequences(train + test),
        "cores": len(os.sched_getaffinity(0)),
        "options": options.to_json(),
        "chosen": list(model.chosen_),
        "members": options.training.restarts + options.bands.folds,
        "fit_seconds": round(whole, 1),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
    }
    path = given.out / f"cost-{given.split}-{given.output}.json"
    write_record(path, record)
    print(record["fit_seconds"], record["seconds"], flush=True)
    if model.validation_scores_ is not None:
        record |= {"unseen": round_scores(model.validation_scores_)}
    write_record(path, record | {"test": round_scores(model.score(test))})


if __name__ == "__main__":
    main()
