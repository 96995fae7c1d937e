"""What `MRGPSSM()` and `Blend()` reach without arguments: one record per model, split or set, and seed.

    python benchmarks/default.py engine DATA_ROOT [--splits 0 1 2 3 4] [--models model blend] [--whole]
    python benchmarks/default.py classic DATA_ROOT [--seeds 5] [--models model blend] [--out results/default]
    python benchmarks/default.py demo . [--sets M1 M2] [--seeds 1] [--out results/default]

Engine: the four outputs of a fixed split, trained on its training files alone, judged on all rows of its test files,
each a free run from its first row. Classic sets: the first half trains and warms the state up, the second is run.
Records of `Blend()` are called blend-*. Every record holds the SHA-256 of the model file, and scores of what is left
with one part taken away, or of each part of the blend alone; with --whole these wait for a later call.
"""

import argparse
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from baselines import CLASSIC, Case, classic_case, engine_case

from mrgpssm import MRGPSSM, Blend, load
from mrgpssm.blend import Simulator
from mrgpssm.blend.simulator import call
from mrgpssm.data.synthetic import two_scales
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.file.record import write_record
from mrgpssm.spec import arrange
from mrgpssm.sweep.benchmark import describe_fit, round_scores

Model = MRGPSSM | Blend
TITLES = {"model": "", "blend": "blend-"}


def variants(model: Model) -> dict[str, Simulator]:
    """The model, and what is left of it; of a blend, each of its parts."""
    if isinstance(model, Blend):
        return {"blend": model, **{f"{name} alone": part for name, part in model.parts_.items()}}
    fitted = model.fitted_
    found = {"default": fitted, "one restart": replace(fitted, ensemble=fitted.ensemble[:1])}
    if fitted.noise is not None:
        found["Gaussian noise"] = replace(fitted, noise=None)
    return {name: from_fitted(variant) for name, variant in found.items()}


def fit(case: Case, kind: str, seed: int, run_dir: Path | None = None) -> tuple[Model, float]:
    """The default on the training half alone; cut short in a folder, it goes on there."""
    begun = time.perf_counter()
    model = Blend(seed=seed) if kind == "blend" else MRGPSSM(**arrange(seed=seed))
    model.fit(case.train, run_dir=run_dir)
    return model, time.perf_counter() - begun


def describe(case: Case, model: Model, seconds: float) -> dict:
    """What every record holds."""
    kind = "blend" if isinstance(model, Blend) else "default"
    return {"experiment": kind, "set": case.name, **describe_fit(model, case.train, case.test, seconds)}


def engine(root: Path, number: int, kind: str, out: Path, whole: bool) -> None:
    """One split, in a folder of its own; scores that a record has are not made again."""
    stem = f"{TITLES[kind]}engine-{number}"
    path, run = out / f"{stem}.json", out / f"run-{stem}"
    case = engine_case(root, number)
    if path.exists():
        record, model = json.loads(path.read_text()), load(run) if run.exists() else None
    else:
        model, seconds = fit(case, kind, 0, run)
        record = describe(case, model, seconds) | {"parts": {}}
    found = [] if model is None else list(variants(model).items())
    for name, variant in found[:1] if whole else found:
        if name not in record["parts"]:
            record["parts"][name] = round_scores(variant.score(case.test))
            write_record(path, record)
            print(stem, name, {k: v["rmse"] for k, v in record["parts"][name].items()}, flush=True)


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
        found = {
            true: {
                part: round(float(np.corrcoef(values[:, 0], mine[:, 0])[0, 1]), 4)
                for part, mine in run.components.items()
            }
            for true, values in test.components.items()
        }
        about = {"scores": round_scores(model.score(test.sequence)), "fit_seconds": seconds, "correlations": found}
        record["models"][name] = about | {"chosen": list(model.chosen_), "options": model.fitted_.spec.to_json()}
        print(kind, seed, name, about, flush=True)
    write_record(path, record)


def classic(root: Path, name: str, kind: str, seeds: int, out: Path) -> None:
    """One set, all seeds."""
    case = classic_case(root, name)
    test = case.test[0]
    for seed in range(seeds):
        path = out / f"{TITLES[kind]}{name}-{seed}.json"
        if path.exists():
            continue
        model, seconds = fit(case, kind, seed)
        record = describe(case, model, seconds) | {"seed": seed, "parts": {}}
        for part, variant in variants(model).items():
            run = call(variant.simulate, test, warmup=case.warmup)
            inside = (test.outputs >= run.quantile(0.05)) & (test.outputs <= run.quantile(0.95))
            rmse = float(np.sqrt(np.mean((run.mean - test.outputs) ** 2)))
            record["parts"][part] = {"rmse": round(rmse, 5), "coverage_90": round(float(inside.mean()), 4)}
        write_record(path, record)
        print(path.stem, {k: v["rmse"] for k, v in record["parts"].items()}, round(seconds), flush=True)


def main() -> None:
    """Whatever has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["engine", "classic", "demo"])
    parser.add_argument("root", type=Path)
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--models", nargs="*", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--whole", action="store_true", help="score the whole model alone; parts wait")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/default"))
    given = parser.parse_args()
    if given.task == "engine":
        for number, kind in itertools.product(given.splits, given.models):
            engine(given.root, number, kind, given.out, given.whole)
    elif given.task == "demo":
        for kind, seed in itertools.product(given.sets or ("M1", "M2"), range(given.seeds)):
            demo(kind, seed, given.out)
    else:
        for name, kind in itertools.product(given.sets or CLASSIC, given.models):
            classic(given.root, name, kind, given.seeds, given.out)


if __name__ == "__main__":
    main()
