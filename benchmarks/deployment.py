"""Deployment on real data: the exported mean model against JAX's, and a stepper against the free run.

    python benchmarks/deployment.py DATA_ROOT [--out FILE] [--model FILE]

Temp of the Bosch engine set gengine2, trained with default settings on the first fixed split. `--model` names a file
that holds the model from an earlier run of this script; where it does not exist it is written. The stepper sees the
measured outputs of the first minutes of every test measurement and then runs freely for one minute; the free run
starts at the first row, never corrected.
"""

import argparse
import ctypes
import hashlib
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm import MRGPSSM, Bands, Sequence, load, runtime
from mrgpssm.data.engine import fixed_splits, load_engine
from mrgpssm.export import c_source
from mrgpssm.file.record import write_record

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2")
STEPS, MINUTE, MINUTES, SAMPLES = 20_000, 600, (2, 3, 5, 10), 100
DRIVER = """
void walk(const double *u, double *y, int rows);
void walk(const double *u, double *y, int rows)
{
    mrgpssm_state state;
    int i;
    mrgpssm_init(&state);
    for (i = 0; i < rows; i++)
        mrgpssm_step(&state, u + i * mrgpssm_INPUTS, y + i * mrgpssm_OUTPUTS);
}
"""


def best_of(run, repeats: int = 5) -> float:
    """Least seconds of a few calls after one that compiles."""
    run()
    laps = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        laps.append(time.perf_counter() - began)
    return min(laps)


def c_walk(model: runtime.RuntimeModel, inputs: np.ndarray, folder: Path):
    """A call that walks over all inputs in compiled C, and the outputs it fills."""
    (folder / "model.c").write_text(c_source(model) + DRIVER)
    subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "model.so"))
    outputs = np.empty((len(inputs), len(model.output_names)))
    arguments = [values.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for values in (inputs, outputs)]
    return (lambda: library.walk(*arguments, len(inputs))), outputs


def exported(fitted: MRGPSSM, model: runtime.RuntimeModel, inputs: np.ndarray) -> dict[str, Any]:
    """Differences between three implementations of the mean model, and microseconds a step."""
    with tempfile.TemporaryDirectory() as folder:
        walk, outputs = c_walk(model, inputs, Path(folder))
        seconds = {"C, gcc -O2": best_of(walk)}
    jax_outputs, numpy_outputs = fitted.simulate_mean(inputs), model.simulate_mean(inputs)
    seconds["JAX"] = best_of(lambda: fitted.simulate_mean(inputs))
    seconds["NumPy"] = best_of(lambda: model.simulate_mean(inputs), 1)
    return {
        "rows": len(inputs),
        "largest_difference": {
            "C and JAX": float(np.abs(outputs - jax_outputs).max()),
            "C and NumPy": float(np.abs(outputs - numpy_outputs).max()),
        },
        "microseconds_a_step": {name: round(1e6 * s / len(inputs), 3) for name, s in seconds.items()},
    }


def stepped(model: runtime.RuntimeModel, sequence: Sequence) -> dict[str, Any]:
    """RMSE and 90 % coverage of the next minute, after so many minutes of measured outputs."""
    stepper, seen, found = model.stepper(SAMPLES), 0, {}
    free = model.stepper(SAMPLES).forecast(sequence.inputs[: MINUTE * (MINUTES[-1] + 1)])
    for minutes in MINUTES:
        for row in range(seen, minutes * MINUTE):
            stepper.update(sequence.inputs[row], sequence.outputs[row])
        seen = minutes * MINUTE
        rows = slice(seen, seen + MINUTE)
        ahead, measured = stepper.forecast(sequence.inputs[rows]), sequence.outputs[rows]
        bands = np.abs(measured - ahead.mean) <= 1.645 * ahead.std
        found[str(minutes)] = {
            "stepper": round(float(np.sqrt(np.mean((ahead.mean - measured) ** 2))), 4),
            "free_run": round(float(np.sqrt(np.mean((free.mean[rows] - measured) ** 2))), 4),
            "coverage_90": round(float(bands.mean()), 3),
        }
    return found


def online(model: runtime.RuntimeModel, tests: list[Sequence]) -> dict[str, Any]:
    """The stepper on every test measurement, their root mean squares, and what an update costs."""
    each = {s.name: stepped(model, s) for s in tests}
    cells = [cell for found in each.values() for cell in found.values()]
    overall = {kind: round(float(np.sqrt(np.mean([c[kind] ** 2 for c in cells]))), 4) for kind in
               ("stepper", "free_run")}  # fmt: skip
    costs = {}
    for samples in (2, 20, SAMPLES):
        stepper, s = model.stepper(samples), tests[0]
        began = time.perf_counter()
        for row in range(1000):
            stepper.update(s.inputs[row], s.outputs[row])
        costs[str(samples)] = round(1e3 * (time.perf_counter() - began), 1)
    wins = sum(c["stepper"] < c["free_run"] for c in cells)
    return {
        "samples": SAMPLES, "next_minute_rmse": each, "overall_rmse": overall, "better_in": f"{wins} of {len(cells)}",
        "coverage_90": round(float(np.mean([c["coverage_90"] for c in cells])), 3),
        "microseconds_an_update": costs,
    }  # fmt: skip


def main() -> None:
    """Train or load, measure, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/deployment.json"))
    parser.add_argument("--model", type=Path, default=None)
    arguments = parser.parse_args()
    split = fixed_splits()[0]
    if arguments.model is None or not arguments.model.exists():
        recordings = load_engine("gengine2", split.train, ["Temp"], arguments.root)
        fitted = MRGPSSM((30, 5, 1), bands=Bands(folds=0)).fit(recordings, progress=True)
        if arguments.model is not None:
            fitted.save(arguments.model)
    else:
        fitted = load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(Path(folder) / "temp.mrgpssm")
        data = (Path(folder) / "temp.mrgpssm").read_bytes()
    model, tests = runtime.parse(data, "temp"), load_engine("gengine2", split.test, ["Temp"], arguments.root)
    inputs = np.ascontiguousarray(np.concatenate([s.inputs for s in tests])[:STEPS])
    record = {
        "experiment": "deployment, engine Temp, first split",
        "options": fitted.fitted_.spec.to_json(),
        "model_sha256": hashlib.sha256(data).hexdigest(),
        "output_sd": float(model.output_sd[0]),
        "export": exported(fitted, model, inputs),
        "stepper": online(model, tests),
    }
    write_record(arguments.out, record)
    print(record["export"], {k: v for k, v in record["stepper"].items() if k != "next_minute_rmse"})


if __name__ == "__main__":
    main()
