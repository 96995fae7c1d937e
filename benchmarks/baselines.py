"""All baselines on the engine's five fixed splits, the classic sets and three sets of nonlinearbenchmark.org.

    python benchmarks/baselines.py DATA_ROOT [--sets classic nonlinear engine] [--methods trees gru arx ...]
                                   [--splits 0 1 2 3 4] [--out results/baselines]

One record per set, split and method. Every method is tuned and trained on the training files alone and then runs
freely: over each engine test file from its first row, over the second half of a classic set after a warm-up on the
first half, over a test record of a nonlinear set after a warm-up on its first n rows, which are not scored. No other
test output is seen. Records that are there already are skipped. The GRU of all engine splits and outputs is one fleet:
one program on one device, and `fit_seconds` is the whole fleet's.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mrgpssm import Sequence
from mrgpssm.baselines import GRU, METHODS, AbstractBaseline
from mrgpssm.baselines.gru import fit_together
from mrgpssm.data import cut_warmup
from mrgpssm.data.datasets import load_dataset
from mrgpssm.data.engine import PAPER_OUTPUTS, fixed_splits, load_engine
from mrgpssm.data.nonlinear import load_benchmark
from mrgpssm.file.record import read_record, write_record
from mrgpssm.sweep.benchmark import hash_sequences, round_scores

SETS = ("classic", "nonlinear", "engine")
CLASSIC = ("ballbeam", "dryer", "gas_furnace")
Stretch = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """What one record is about; `warmup` is the stretch just before the only test sequence.

    Where test sequences have a warm-up each, `warmups` holds these, and every sequence is scored by itself.
    """

    name: str
    train: list[Sequence]
    test: list[Sequence]
    warmup: Stretch | None
    warmups: tuple[Stretch, ...] = ()


def engine_case(root: Path, number: int) -> Case:
    """One fixed split, the paper's four outputs."""
    split = fixed_splits()[number]
    halves = (load_engine("gengine2", part, PAPER_OUTPUTS, root) for part in (split.train, split.test))
    return Case(f"engine-{number}", *halves, None)


def classic_case(root: Path, name: str) -> Case:
    """First half trains and warms up, second half tests."""
    halves = load_dataset(name, root)
    first = halves["train"][0]
    return Case(name, halves["train"], halves["test"], (first.inputs, first.outputs))


def nonlinear_case(root: Path, name: str) -> Case:
    """A set of nonlinearbenchmark.org; the first rows of every test recording warm up, the others are scored."""
    split = load_benchmark(name, root)
    cuts = [cut_warmup(test.sequence, test.initialisation) for test in split.tests]
    warmups = tuple((past.inputs, past.outputs) for past, _ in cuts if past is not None)
    return Case(NONLINEAR[name], split.train, [rest for _, rest in cuts], None, warmups)


NONLINEAR = {"tanks": "cascaded_tanks", "coupled-drives": "coupled_drives", "silverbox": "silverbox"}


def score(case: Case, model: AbstractBaseline) -> pd.DataFrame:
    """One row per output, or one per test sequence where these have a warm-up each."""
    if not case.warmups:
        return model.score(case.test, case.warmup)
    tables = [model.score(s, warmup) for s, warmup in zip(case.test, case.warmups, strict=True)]
    return pd.concat(tables).set_axis([s.name for s in case.test])


def normalised(scores: pd.DataFrame, sd: np.ndarray) -> pd.DataFrame:
    """Scores in units of the training data's deviation."""
    scaled = scores.copy()
    for key in ("rmse", "crps"):
        scaled[key] /= sd
    for key in ("nll", "nll_gaussian"):
        scaled[key] -= np.log(sd)
    return scaled


def judge(case: Case, method: str, model: AbstractBaseline, seconds: float, path: Path, **more) -> None:
    """Score a fitted model on the test half and write its record."""
    scores = score(case, model)
    content = {
        "experiment": "baselines",
        "set": case.name,
        "method": method,
        "train": [s.name for s in case.train],
        "test": [s.name for s in case.test],
        "data_sha256": hash_sequences(case.train + case.test),
        "options": model.get_params(),
        "chosen": model.describe_choice(),
        "fit_seconds": round(seconds, 1),
        "scores": round_scores(scores),
        "scores_normalised": round_scores(normalised(scores, model.scaling_.output_sd)),
    }
    write_record(path, content | more)
    print(case.name, method, scores["rmse"].round(4).to_dict(), scores["coverage_90"].round(3).to_dict(), flush=True)


def members(case: Case, model: AbstractBaseline) -> dict:
    """For an ensemble, the scores of its members on their own."""
    if not isinstance(model, GRU):
        return {}
    alone = [score(case, m)["rmse"].round(5).to_dict() for m in model.members()]
    return {"member_rmse": alone}


def single(case: Case, method: str, folder: Path) -> None:
    """Fit one method to one case, unless its record is there."""
    path = folder / f"{case.name}-{method}.json"
    if path.exists():
        return
    begun = time.perf_counter()
    model = METHODS[method]().fit(case.train, progress=False)
    judge(case, method, model, time.perf_counter() - begun, path, **members(case, model))


def engine_fleet(root: Path, splits: list[int], folder: Path) -> None:
    """The GRUs of all outputs, splits, candidates and restarts as one program, unless their records are there."""
    paths = {n: folder / f"engine-{n}-gru.json" for n in splits}
    cases = {n: engine_case(root, n) for n, path in paths.items() if not path.exists()}
    if not cases:
        return
    begun = time.perf_counter()
    models = fit_together([GRU() for _ in cases], [case.train for case in cases.values()])
    seconds = time.perf_counter() - begun
    for (n, case), model in zip(cases.items(), models, strict=True):
        judge(case, "gru", model, seconds, paths[n], **members(case, model), fleet=[f"engine-{k}" for k in cases])


def summary(folder: Path) -> None:
    """Means over the engine's splits, and all other sets, in the data's units, from the records alone."""
    rows = []
    for record in filter(None, map(read_record, sorted(folder.glob("*.json")))):
        group = "engine" if record["set"].startswith("engine") else record["set"]
        rows += [{"set": group, "output": k, "method": record["method"], **v} for k, v in record["scores"].items()]
    if rows:
        keys = ["rmse", "nll", "nll_gaussian", "crps", "coverage_50", "coverage_90", "coverage_95"]
        grouped = pd.DataFrame(rows).groupby(["set", "output", "method"])[keys]
        print(grouped.mean().join(grouped.size().rename("records")).round(4).to_string())


def main() -> None:
    """Run what is asked for and has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", nargs="*", type=int, default=list(range(5)), choices=range(5))
    parser.add_argument("--out", type=Path, default=Path("results/baselines"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in CLASSIC if "classic" in arguments.sets else ():
        for method in arguments.methods:
            single(classic_case(arguments.root, name), method, arguments.out)
    for name in NONLINEAR if "nonlinear" in arguments.sets else ():
        for method in arguments.methods:
            single(nonlinear_case(arguments.root, name), method, arguments.out)
    for number in arguments.splits if "engine" in arguments.sets else ():
        for method in arguments.methods:
            if method != "gru":
                single(engine_case(arguments.root, number), method, arguments.out)
    if "engine" in arguments.sets and "gru" in arguments.methods:
        engine_fleet(arguments.root, arguments.splits, arguments.out)
    summary(arguments.out)


if __name__ == "__main__":
    main()
