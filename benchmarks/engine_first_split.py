"""Real data: the first fixed split of the Bosch engine set gengine2, default settings, one restart.

    python benchmarks/engine_first_split.py DATA_ROOT [--out FILE] [--only NAME ...] [--outputs Temp ...]

DATA_ROOT holds `gengine2/raw_0000NN_measurement_000000.csv`. Every model is trained on the split's
seven training files and runs freely over its six test files from their first row. 13 of the 22 published measurements
are at hand, so the numbers are not the paper's experiment; `preset="paper"` is run as it comes.
"""

import argparse
import hashlib
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np

from mrgpssm import MRGPSSM, FitError
from mrgpssm.data.engine import PAPER_OUTPUTS as OUTPUTS
from mrgpssm.data.engine import Split, fixed_splits, load_engine
from mrgpssm.file.record import write_record
from mrgpssm.spec import arrange

PAPER = {"preset": "paper", "window_start": "initial", "order": "given", "anneal": 1.0}
RUNS = {
    "MR-GPSSM R=[30,5,1]": (OUTPUTS, {"resolutions": (30, 5, 1)}),
    "GPSSM R=1": (("NOx", "Temp"), {"resolutions": (1,), "latent_dim": 6}),
    "GPSSM R=30": (("NOx", "Temp"), {"resolutions": (30,), "latent_dim": 6}),
    "MR-GPSSM R=[30,5,1], paper preset": (("NOx", "Temp"), {"resolutions": (30, 5, 1), **PAPER}),
    "GPSSM R=1, paper preset": (("NOx", "Temp"), {"resolutions": (1,), "latent_dim": 6, **PAPER}),
}


def run(root: Path, split: Split, outputs: tuple[str, ...], options: dict) -> dict:
    """Train, then score on the host: one long free run is a chain of small steps, which a CPU does faster."""
    start = time.perf_counter()
    try:
        model = MRGPSSM(**arrange(**options, folds=0)).fit(
            load_engine("gengine2", split.train, outputs, root), progress=False
        )
    except FitError as error:
        return {"outputs": list(outputs), "failed": str(error), "options": options}
    seconds = time.perf_counter() - start
    cpu = jax.devices("cpu")[0]
    model.fitted_ = replace(model.fitted_, ensemble=jax.device_put(model.fitted_.ensemble, cpu))
    with jax.default_device(cpu):
        scores = model.score(load_engine("gengine2", split.test, outputs, root), samples=40)
    return {
        "options": options,
        "fit_seconds": round(seconds, 1),
        "skipped_steps": model.skipped_.tolist(),
        "bounds": model.bounds_.tolist(),
        "scores": {
            name: {k: round(float(v), 4) for k, v in row.items()} for name, row in scores.to_dict("index").items()
        },
    }


def main() -> None:
    """Run what is asked for and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/engine-first-split.json"))
    parser.add_argument("--only", nargs="*", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--outputs", nargs="*", default=list(OUTPUTS), choices=OUTPUTS)
    arguments = parser.parse_args()
    split = fixed_splits()[0]
    digest = hashlib.sha256()
    for sequence in load_engine("gengine2", sorted(split.train + split.test), OUTPUTS, arguments.root):
        digest.update(np.ascontiguousarray(sequence.outputs).tobytes())
    results = {}
    for name in arguments.only:
        outputs, options = RUNS[name]
        chosen = tuple(output for output in outputs if output in arguments.outputs)
        results[name] = run(arguments.root, split, chosen, options)
        print(name, json.dumps(results[name]), flush=True)
        record = {
            "experiment": "engine, first split, free run",
            "split": asdict(split),
            "outputs_sha256": digest.hexdigest(),
            "models": results,
        }
        write_record(arguments.out, record)


if __name__ == "__main__":
    main()
