"""What `MRGPSSM()` without arguments reaches: engine data and classic sets, one record per split, set and seed.

    python benchmarks/default.py engine DATA_ROOT [--splits 0 1 2 3 4] [--out results/default]
    python benchmarks/default.py classic DATA_ROOT [--seeds 5] [--out results/default]
    python benchmarks/default.py demo . [--sets M1 M2] [--seeds 1] [--out results/default]
    python benchmarks/default.py parts DATA_ROOT --splits 0 --model MODEL [--only "no trees"] [--out results/default]

Engine: the four outputs of a fixed split, trained on its training files alone, judged on all rows of its test files,
each a free run from its first row. Classic sets: the first half trains and warms the state up, the second is run.
Every record holds the SHA-256 of the model file, and the same fit with one part taken away at a time; `parts` does the
latter for a model that was trained before.
"""

import argparse
import hashlib
import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from baselines import CLASSIC, Case, classic_case, digest, engine_case, plain

from mrgpssm import MRGPSSM, load
from mrgpssm.data.synthetic import two_scales
from mrgpssm.file.record import read_record, write_record
from mrgpssm.prediction.fitted import FittedModel, model_bytes
from mrgpssm.spec import arrange


def without(fitted: FittedModel) -> dict[str, FittedModel]:
    """The fitted model, and what is left of it without one of its parts."""
    found = {"default": fitted, "one restart": replace(fitted, ensemble=fitted.ensemble[:1])}
    whole = np.ones(len(fitted.output_names))
    for name, title in (("static", "static part"), ("trees", "trees")):
        part = getattr(fitted, name)
        if part is not None:
            found[f"no {title}"] = replace(fitted, **{name: None})
            alone: dict[str, Any] = {"static": None, "trees": None, name: replace(part, shares=whole)}
            found[f"{title} alone"] = replace(fitted, **alone)
    if fitted.static is not None and fitted.trees is not None:
        found["no instantaneous part"] = replace(fitted, static=None, trees=None)
    if fitted.noise is not None:
        found["Gaussian noise"] = replace(fitted, noise=None)
    return found


def fit(case: Case, seed: int, run_dir: Path | None = None) -> tuple[MRGPSSM, float]:
    """The default on the training half alone; cut short in a folder, it goes on there."""
    begun = time.perf_counter()
    model = MRGPSSM(**arrange(seed=seed)).fit(case.train, run_dir=run_dir)
    return model, time.perf_counter() - begun


def describe(case: Case, model: MRGPSSM, seconds: float) -> dict:
    """What every record holds."""
    fitted = model.fitted_
    return {
        "experiment": "default",
        "set": case.name,
        "train": [s.name for s in case.train],
        "test": [s.name for s in case.test],
        "data_sha256": digest(case.train + case.test),
        "model_sha256": hashlib.sha256(model_bytes(fitted)).hexdigest(),
        "options": fitted.spec.to_json(),
        "chosen": list(model.chosen_),
        "fit_seconds": round(seconds, 1),
        "shares": {name: [round(float(s), 4) for s in part.shares] for name, part in fitted.blend.parts.items()},
        "left_out": None if model.validation_scores_ is None else plain(model.validation_scores_),
    }


def engine(root: Path, number: int, out: Path) -> None:
    """One split."""
    path = out / f"engine-{number}.json"
    if path.exists():
        return
    case = engine_case(root, number)
    model, seconds = fit(case, 0, out / f"run-{number}")
    record = describe(case, model, seconds) | {"parts": {}}
    for name, variant in without(model.fitted_).items():
        model.fitted_ = variant
        record["parts"][name] = plain(model.score(case.test))
        write_record(path, record)
        print(case.name, name, {k: v["rmse"] for k, v in record["parts"][name].items()}, round(seconds), flush=True)


def parts(root: Path, number: int, path: Path, only: list[str] | None, out: Path) -> None:
    """What the record of a split lacks, from the model that it is of: scores without each of its parts."""
    case, model, place = engine_case(root, number), load(path), out / f"engine-{number}.json"
    record = read_record(place)
    if record is None or record["model_sha256"] != hashlib.sha256(path.read_bytes()).hexdigest():
        raise SystemExit(f"{place} holds no record of the model {path}; fit the split with `default.py engine` first.")
    for name, variant in without(model.fitted_).items():
        if name in record["parts"] or (only and name not in only):
            continue
        model.fitted_ = variant
        record["parts"][name] = plain(model.score(case.test))
        write_record(place, record)
        print(case.name, name, {k: v["rmse"] for k, v in record["parts"][name].items()}, flush=True)


def demo(kind: str, seed: int, out: Path) -> None:
    """One of the demo's systems: the default beside the paper's settings, and the true components in both."""
    path = out / f"demo-{kind}-{seed}.json"
    if path.exists():
        return
    train, test = two_scales(kind, seed=seed), two_scales(kind, seed=seed + 1000)
    record = {
        "experiment": "default, demo",
        "data": {"set": kind, "seed": seed, "test_seed": seed + 1000},
        "models": {},
    }
    for name, model in (("default", MRGPSSM()), ("fixed", MRGPSSM((30, 1)))):
        begun = time.perf_counter()
        model.fit(train.sequence)
        seconds = round(time.perf_counter() - begun, 1)
        run = model.simulate(test.sequence)
        learned = {part: values for part, values in run.components.items() if part not in ("static", "trees")}
        found = {
            true: {part: round(float(np.corrcoef(values[:, 0], mine[:, 0])[0, 1]), 4) for part, mine in learned.items()}
            for true, values in test.components.items()
        }
        about = {"scores": plain(model.score(test.sequence)), "fit_seconds": seconds, "correlations": found}
        record["models"][name] = about | {"chosen": list(model.chosen_), "options": model.fitted_.spec.to_json()}
        print(kind, seed, name, about, flush=True)
    write_record(path, record)


def classic(root: Path, name: str, seeds: int, out: Path) -> None:
    """One set, all seeds."""
    case = classic_case(root, name)
    test = case.test[0]
    for seed in range(seeds):
        path = out / f"{name}-{seed}.json"
        if path.exists():
            continue
        model, seconds = fit(case, seed)
        record = describe(case, model, seconds) | {"seed": seed, "parts": {}}
        for part, variant in without(model.fitted_).items():
            model.fitted_ = variant
            run = model.simulate(test.inputs, warmup=case.warmup)
            inside = (test.outputs >= run.quantile(0.05)) & (test.outputs <= run.quantile(0.95))
            rmse = float(np.sqrt(np.mean((run.mean - test.outputs) ** 2)))
            record["parts"][part] = {"rmse": round(rmse, 5), "coverage_90": round(float(inside.mean()), 4)}
        write_record(path, record)
        print(name, seed, {k: v["rmse"] for k, v in record["parts"].items()}, round(seconds), flush=True)


def main() -> None:
    """Whatever has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["engine", "classic", "demo", "parts"])
    parser.add_argument("root", type=Path)
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/default"))
    given = parser.parse_args()
    if given.task == "engine":
        for number in given.splits:
            engine(given.root, number, given.out)
    elif given.task == "parts":
        parts(given.root, given.splits[0], given.model, given.only, given.out)
    elif given.task == "demo":
        for kind, seed in itertools.product(given.sets or ("M1", "M2"), range(given.seeds)):
            demo(kind, seed, given.out)
    else:
        for name in given.sets or CLASSIC:
            classic(given.root, name, given.seeds, given.out)


if __name__ == "__main__":
    main()
