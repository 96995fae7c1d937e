"""From records to cells: mean and standard error over folds of the chosen restarts, and how many failed."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.paper.config import Experiment, Method, load_experiment
from mrgpssm.paper.records import agree, read_records

FAILED = 3.0  # training deviations: an RMSE above it is three times that of predicting the mean
_load_once = functools.cache(load_experiment)


@dataclass(frozen=True)
class Cell:
    """Mean and standard error over the runs that did not fail; `failed` counts the others. No run at all is no cell."""

    mean: float
    error: float
    runs: int
    failed: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Cell":
        """Mean, and deviation of the mean s / sqrt(n), over the finite values."""
        array = np.asarray(list(values), float)
        good = array[np.isfinite(array)]
        mean = float(good.mean()) if len(good) else float("nan")
        error = float(good.std(ddof=1) / np.sqrt(len(good))) if len(good) > 1 else 0.0
        return cls(mean, error, len(array), len(array) - len(good))

    @property
    def low(self) -> float:
        """Mean less its standard error."""
        return self.mean - self.error

    @property
    def high(self) -> float:
        """Mean plus its standard error."""
        return self.mean + self.error


@dataclass(frozen=True)
class Results:
    """All records of one scale."""

    scale: str
    records: list[dict[str, Any]]

    @classmethod
    def read(cls, out: Path, scale: str) -> "Results":
        """The records under a folder."""
        return cls(scale, read_records(out, scale))

    def experiment(self, what: str) -> Experiment:
        """The experiment's config at this scale."""
        return _load_once(what, self.scale)

    def record(self, what: str, name: str) -> dict[str, Any] | None:
        """The record of a method, whichever experiment ran it, provided that its config is this one's."""
        experiment = self.experiment(what)
        method = next((m for m in experiment.methods if m.name == name), None)
        own = [r for r in self.records if r["experiment"] == what and r["name"] == name]
        if method is None:
            return next(iter(own), None)
        family = [r for r in self.records if self.experiment(r["experiment"]).problem == experiment.problem]
        return next((r for r in (*own, *family) if _matches(experiment, method, r, r in own)), None)

    def values(
        self, what: str, name: str, output: str, metric: str, *, unit: str = "training", through: bool = False
    ) -> np.ndarray | None:
        """(folds,) numbers of the chosen restarts, NaN where a run failed; None where there is no record."""
        record = self.record(what, name)
        if record is None or (through and "through" not in record):
            return None
        columns = record["members"] | (record["through"] if through else {})
        members = {key: np.array(column, str if key == "output" else float) for key, column in columns.items()}
        failed = (members["alive"] == 0) | ~(members["rmse"] <= FAILED)
        values = np.where(failed, np.nan, members[metric])
        if unit == "data" and metric in ("rmse", "crps"):
            values = values * members["output_sd"]
        elif unit == "data" and metric.startswith("nll"):  # the logarithm of a density
            values = values + np.log(members["output_sd"])
        return values[(members["output"] == output) & (members["chosen"] == 1)]

    def cell(self, what: str, name: str, output: str, metric: str, **options: Any) -> Cell | None:
        """Mean and standard error over folds; None where there is no record."""
        values = self.values(what, name, output, metric, **options)
        return None if values is None else Cell.of(values)

    def seconds(self, what: str) -> dict[str, float]:
        """Seconds of the pieces of an experiment that have a record, its shared ones included."""
        names = [m.name for m in self.experiment(what).methods] or ["cost"]
        found = {name: self.record(what, name) for name in names}
        return {name: r["seconds"]["all"] for name, r in found.items() if r is not None}


def _matches(experiment: Experiment, method: Method, record: dict[str, Any], own: bool) -> bool:
    if "members" not in record:
        return False
    if method.as_long_as is not None:  # its steps were decided by the clock
        return own
    return agree(record["config"], experiment.config(method))
