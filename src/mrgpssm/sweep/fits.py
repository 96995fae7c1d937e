"""How fast from file to model: the command `mrgpssm fit` without options, timed beside baselines on the same data.

Each case is written as CSV files. `mrgpssm fit` then runs in a process of its own, twice: first with no compiled
programs at hand, then with those that the first run has kept. Baselines are timed in this process, with their search
and without reading files. All are scored in free runs over the same test recordings.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrgpssm.baselines import METHODS
from mrgpssm.blend.load import load
from mrgpssm.data import Sequence, cut_warmup
from mrgpssm.data.engine import fixed_splits, load_engine
from mrgpssm.data.nonlinear import load_benchmark
from mrgpssm.data.synthetic import two_scales
from mrgpssm.data.tables import csv_bytes
from mrgpssm.errors import ConfigError, FitError

OURS, AGAIN = "MRGPSSM()", "MRGPSSM(), programs kept"
_ROWS, _TEST_ROWS = 6_000, 6_000


@dataclass(frozen=True)
class FitCase:
    """Training and test recordings, and the first rows of a test recording whose outputs set the state."""

    train: list[Sequence]
    test: list[Sequence]
    warmup_rows: int = 0


def _make_recording(_: Path | None) -> FitCase:
    """One recording of 6,000 rows of a system with a fast and a slow part; another one tests."""
    train, test = (two_scales("M1", seed=seed, length=rows) for seed, rows in ((0, _ROWS), (1, _TEST_ROWS)))
    return FitCase([train.sequence], [test.sequence])


def _load_tanks(root: Path | None) -> FitCase:
    """The cascaded tanks by their official split."""
    split = load_benchmark("tanks", root)
    return FitCase(split.train, [test.sequence for test in split.tests], split.tests[0].initialisation)


def _load_engine(root: Path | None) -> FitCase:
    """One output of an engine: the temperature, in the first fixed split."""
    split = fixed_splits()[0]
    train, test = (load_engine("gengine2", part, ("Temp",), root) for part in (split.train, split.test))
    return FitCase(train, test)


CASES: dict[str, Callable[[Path | None], FitCase]] = {
    "recording": _make_recording,
    "tanks": _load_tanks,
    "engine": _load_engine,
}


def time_fits(name: str, case: FitCase, rivals: Iterable[str], report: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row for every method: seconds from data to model, and the RMSE of every output."""
    rows: list[dict[str, Any]] = []

    def note(method: str, seconds: float, errors: pd.Series) -> None:
        scores = {str(output): round(float(error), 5) for output, error in errors.items()}
        rows.append({"case": name, "method": method, "seconds": round(seconds, 1), "rmse": scores})
        report(f"{name}: {method}, {seconds:.0f} s, RMSE {', '.join(f'{e:.4g}' for e in scores.values())}")

    with tempfile.TemporaryDirectory() as folder:
        for method in (OURS, AGAIN):
            model, seconds = _fit_files(case, Path(folder), "first" if method == OURS else "second")
            note(method, seconds, model.score(case.test, warmup_rows=case.warmup_rows)["rmse"])
    for rival in rivals:
        began = time.perf_counter()
        model = METHODS[rival]().fit(case.train, progress=False)
        note(rival, time.perf_counter() - began, _score_rival(model, case))
    return rows


def tabulate_fits(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table: seconds, also as multiples of ours, and test errors."""
    own = {row["case"]: row["seconds"] for row in rows if row["method"] == OURS}
    table = []
    for row in rows:
        times = (f"{row['seconds']:.0f}", f"{row['seconds'] / own[row['case']]:.2f}")
        errors = ", ".join(f"{output} {error:.4g}" for output, error in row["rmse"].items())
        table.append([row["case"], row["method"], *times, errors])
    return ["case", "method", "seconds", "times ours", "test RMSE"], table


def find_cases(names: Iterable[str], root: Path | None) -> dict[str, FitCase]:
    """The cases of these names, with their data."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise ConfigError(f"There is no case {unknown[0]!r}; choose from {', '.join(CASES)}.")
    return {name: CASES[name](root) for name in names}


def _fit_files(case: FitCase, folder: Path, run: str) -> tuple[Any, float]:
    """The model that `mrgpssm fit` leaves, and the seconds of the whole command."""
    first = case.train[0]
    for number, s in enumerate(case.train):
        columns = np.hstack([s.inputs, s.outputs])
        table = pd.DataFrame(columns, columns=pd.Index([*first.input_names, *first.output_names]))
        (folder / f"{number}.csv").write_bytes(csv_bytes(table))
    command = [sys.executable, "-m", "mrgpssm", "fit", "--quiet", "--run-dir", str(folder / run), "--dt", str(first.dt)]
    command += ["--inputs", ",".join(first.input_names), "--outputs", ",".join(first.output_names)]
    command += [flag for number in range(len(case.train)) for flag in ("--data", str(folder / f"{number}.csv"))]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise FitError(f"mrgpssm fit stopped: {done.stderr.strip().splitlines()[-1] if done.stderr else 'no reason'}")
    return load(folder / run), time.perf_counter() - began


def _score_rival(model: Any, case: FitCase) -> pd.Series:
    """The RMSE of a baseline over all test recordings; a warm-up belongs to one recording."""
    if not case.warmup_rows:
        return model.score(case.test)["rmse"]
    past, rest = cut_warmup(case.test[0], case.warmup_rows)
    return model.score(rest, warmup=past)["rmse"]
