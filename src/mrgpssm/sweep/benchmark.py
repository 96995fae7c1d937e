"""Public benchmarks by their official protocol: learn without arguments, warm up, run freely, score, keep a record."""

import hashlib
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrgpssm.blend import Blend
from mrgpssm.blend.files import blend_bytes
from mrgpssm.blend.load import load
from mrgpssm.data import Sequence
from mrgpssm.data.nonlinear import BenchmarkSplit, find_benchmark
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.file import make_directory, write_json
from mrgpssm.file.record import read_record, write_record
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.spec import Training

SCORED = ("rmse", "nll", "crps", "coverage_50", "coverage_90")


def record_benchmark(
    name: str, split: BenchmarkSplit, blend: bool, seed: int, out: Path, progress: bool = True
) -> dict[str, Any]:
    """The record of one set and seed: that in `out`, else a new one.

    The model is left beside its record. A fit that was cut short goes on where it stood.
    """
    stem = f"{'blend-' if blend else ''}{name}-{seed}"
    path, run = out / f"{stem}.json", out / f"run-{stem}"
    if (there := read_record(path) if path.exists() else None) is not None:
        return there
    make_directory(out)
    model, about = _fit(split, blend, seed, run, progress)
    scores = {
        test.sequence.name: model.score(test.sequence, warmup_rows=test.initialisation).filter(SCORED)
        for test in split.tests
    }
    model.save(out / f"{stem}.mrgpssm")
    content = {
        "experiment": "benchmark",
        "set": name,
        "seed": seed,
        "unit": find_benchmark(name).unit,
        "warmup_rows": {test.sequence.name: test.initialisation for test in split.tests},
        "scores": {test: round_scores(table) for test, table in scores.items()},
        **about,
    }
    write_record(path, content)
    shutil.rmtree(run, ignore_errors=True)
    return read_record(path) or content


def _fit(
    split: BenchmarkSplit, blend: bool, seed: int, run: Path, progress: bool
) -> tuple[MRGPSSM | Blend, dict[str, Any]]:
    """The model and what its record says of the fit; both are read where an earlier call has left them."""
    about = run / "about.json"
    if (there := read_record(about) if about.exists() else None) is not None:
        return load(run), there
    model, begun = Blend(seed=seed) if blend else MRGPSSM(training=Training(seed=seed)), time.perf_counter()
    model.fit(split.train, run_dir=run, progress=progress)
    tests = [test.sequence for test in split.tests]
    found = describe_fit(model, split.train, tests, time.perf_counter() - begun)
    write_json(about, found)
    return model, found


def describe_fit(model: MRGPSSM | Blend, train: list[Sequence], test: list[Sequence], seconds: float) -> dict[str, Any]:
    """What a record says of a fit: its data, its options and why they were chosen, its time, and its shares."""
    own = model.parts_["mrgpssm"] if isinstance(model, Blend) else model
    data = blend_bytes(model.fitted_) if isinstance(model, Blend) else model_bytes(model.fitted_)
    left_out = model.validation_scores_
    return {
        "method": "Blend()" if isinstance(model, Blend) else "MRGPSSM()",
        "train": [s.name for s in train],
        "test": [s.name for s in test],
        "data_sha256": hash_sequences([*train, *test]),
        "model_sha256": hashlib.sha256(data).hexdigest(),
        "options": own.fitted_.spec.to_json(),  # pyright: ignore[reportAttributeAccessIssue]
        "chosen": list(model.chosen_),
        "fit_seconds": round(seconds, 1),
        "shares": model.shares_.round(4).to_dict("index") if isinstance(model, Blend) else {},
        "left_out": None if left_out is None else round_scores(left_out),
    }


def tabulate_benchmarks(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the seeds of every set, test and output, and the range of the RMSE."""
    found: dict[tuple[str, ...], list[dict[str, float]]] = {}
    for r in records:
        for test, table in r["scores"].items():
            for output, values in table.items():
                found.setdefault((r["method"], r["set"], r["unit"], test, output), []).append(values)
    rows = []
    for place, seeds in found.items():
        errors = [values["rmse"] for values in seeds]
        about = dict(zip(("method", "set", "unit", "test", "output"), place, strict=True))
        means = {name: float(np.mean([values[name] for values in seeds])) for name in SCORED}
        rows.append(about | means | {"least": min(errors), "most": max(errors), "seeds": len(seeds)})
    return rows


def hash_sequences(sequences: list[Sequence]) -> str:
    """SHA-256 over all inputs and outputs."""
    found = hashlib.sha256()
    for s in sequences:
        found.update(np.ascontiguousarray(np.hstack([s.inputs, s.outputs])).tobytes())
    return found.hexdigest()


def round_scores(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """A table of scores as rounded JSON numbers."""
    return {str(k): {c: round(float(v), 5) for c, v in row.items()} for k, row in table.to_dict("index").items()}
