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
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from mrgpssm import Sequence
from mrgpssm.baselines import GRU, METHODS, AbstractBaseline
from mrgpssm.baselines.gru import fit_together
from mrgpssm.data.datasets import load_dataset
from mrgpssm.data.engine import PAPER_OUTPUTS, fixed_splits, load_engine
from mrgpssm.file.record import read_record, write_record

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


def tanks(root: Path) -> Case:
    """Cascaded tanks: two recordings of 1,024 rows, in volts; 50 rows warm up."""
    table = pd.read_csv(root / "nonlinear" / "cascaded_tanks.csv")
    train, test = ((table[[f"u{part}"]].to_numpy(), table[[f"y{part}"]].to_numpy()) for part in ("Est", "Val"))
    return _nonlinear("cascaded_tanks", [train], {"test": test}, 4.0, 50)


def drives(root: Path) -> Case:
    """Coupled drives, uniform input: the first 400 of 500 rows of two recordings train, in ticks/s; 10 rows warm up."""
    table = pd.read_csv(root / "nonlinear" / "coupled_drives_uniform.csv")
    both = [(table[[f"u1{k}"]].to_numpy(), table[[f"z1{k}"]].to_numpy()) for k in (1, 2)]
    tests = {f"z1{k}": (u[400:], y[400:]) for k, (u, y) in enumerate(both, 1)}
    return _nonlinear("coupled_drives", [(u[:400], y[:400]) for u, y in both], tests, 0.02, 10)


def silverbox(root: Path) -> Case:
    """Silverbox, in mV: the first 75 % of the multisines train; the rest, the arrow, and its first 32,000 rows test."""
    signals = loadmat(root / "nonlinear" / "silverbox_SNLS80mV.mat")
    u, y = signals["V1"].T.astype(float), 1000 * signals["V2"].T.astype(float)
    cut = 40650 + (127400 - 40650) * 3 // 4
    ranges = {"multisine": (cut, 127400), "arrow": (100, 40575), "arrow, no extrapolation": (100, 32100)}
    tests = {name: (u[a:b], y[a:b]) for name, (a, b) in ranges.items()}
    return _nonlinear("silverbox", [(u[40650:cut], y[40650:cut])], tests, 1 / 610.35, 50)


NONLINEAR = {"cascaded_tanks": tanks, "coupled_drives": drives, "silverbox": silverbox}


def _nonlinear(name: str, train: list[Stretch], tests: dict[str, Stretch], dt: float, n: int) -> Case:
    """The first n rows of every test recording warm up, the others are scored."""
    learned = [Sequence(u, y, dt, name=f"{name}, {k}") for k, (u, y) in enumerate(train, 1)]
    scored = [Sequence(u[n:], y[n:], dt, name=test) for test, (u, y) in tests.items()]
    return Case(name, learned, scored, None, tuple((u[:n], y[:n]) for u, y in tests.values()))


def score(case: Case, model: AbstractBaseline) -> pd.DataFrame:
    """One row per output, or one per test sequence where these have a warm-up each."""
    if not case.warmups:
        return model.score(case.test, case.warmup)
    tables = [model.score(s, warmup) for s, warmup in zip(case.test, case.warmups, strict=True)]
    return pd.concat(tables).set_axis([s.name for s in case.test])


def digest(sequences: list[Sequence]) -> str:
    """SHA-256 over all inputs and outputs."""
    found = hashlib.sha256()
    for s in sequences:
        found.update(np.ascontiguousarray(np.hstack([s.inputs, s.outputs])).tobytes())
    return found.hexdigest()


def normalised(scores: pd.DataFrame, sd: np.ndarray) -> pd.DataFrame:
    """Scores in units of the training data's deviation."""
    scaled = scores.copy()
    for key in ("rmse", "crps"):
        scaled[key] /= sd
    for key in ("nll", "nll_gaussian"):
        scaled[key] -= np.log(sd)
    return scaled


def plain(table: pd.DataFrame) -> dict:
    """A table as rounded JSON numbers."""
    return {str(k): {c: round(float(v), 5) for c, v in row.items()} for k, row in table.to_dict("index").items()}


def judge(case: Case, method: str, model: AbstractBaseline, seconds: float, path: Path, **more) -> None:
    """Score a fitted model on the test half and write its record."""
    scores = score(case, model)
    content = {
        "experiment": "baselines",
        "set": case.name,
        "method": method,
        "train": [s.name for s in case.train],
        "test": [s.name for s in case.test],
        "data_sha256": digest(case.train + case.test),
        "options": model.get_params(),
        "chosen": model.describe_choice(),
        "fit_seconds": round(seconds, 1),
        "scores": plain(scores),
        "scores_normalised": plain(normalised(scores, model.scaling_.output_sd)),
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
    for load in NONLINEAR.values() if "nonlinear" in arguments.sets else ():
        for method in arguments.methods:
            single(load(arguments.root), method, arguments.out)
    for number in arguments.splits if "engine" in arguments.sets else ():
        for method in arguments.methods:
            if method != "gru":
                single(engine_case(arguments.root, number), method, arguments.out)
    if "engine" in arguments.sets and "gru" in arguments.methods:
        engine_fleet(arguments.root, arguments.splits, arguments.out)
    summary(arguments.out)


if __name__ == "__main__":
    main()
