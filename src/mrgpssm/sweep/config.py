"""What a sweep is told: a TOML file of datasets, splits and options.

    [sweep]
    directory = "sweep"        # one record a run, the results and the figure
    fleet = 16                 # at most so many models train as one program

    [[dataset]]
    name = "engine"
    inputs = ["speed", "load"]
    outputs = ["NOx", "Temp"]  # one run for each
    time = "t"                 # or dt = 0.1
    [[dataset.split]]          # may be repeated
    train = ["a.csv", "b.csv"]
    test = ["c.csv"]

    [model]                    # options that all runs share; [training] and [bands] likewise
    inducing = 40

    [grid]                     # every combination of these, any option of a fit
    resolutions = [[30, 1], [1]]
    seed = [0, 1, 2]

Instead of [grid], or beside it, [[run]] lists single combinations.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrgpssm.errors import ConfigError
from mrgpssm.file import read_toml
from mrgpssm.spec import SECTIONS, Spec, read_spec

_SWEEP = {"directory": str, "fleet": int, "samples": int, "keep_models": bool}
_DATASET = {"name": str, "inputs": list, "outputs": list, "time": str, "dt": float, "gaps": str, "split": list}


@dataclass(frozen=True)
class SweepSplit:
    """Files for training and files for testing."""

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True)
class SweepDataset:
    """Tables with common columns, and how they are split."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    time: str | None
    dt: float | None
    gaps: str
    splits: tuple[SweepSplit, ...]


@dataclass(frozen=True)
class SweepConfig:
    """Datasets and checked options; every dataset is run with every option on each split and output."""

    directory: Path
    fleet: int
    samples: int
    keep_models: bool
    datasets: tuple[SweepDataset, ...]
    specs: tuple[Spec, ...]


def read_sweep(path: Path) -> SweepConfig:
    """Read and check the file of a sweep; its paths are relative to its folder."""
    return make_sweep(read_toml(path), path.parent, str(path))


def make_sweep(tables: dict[str, Any], home: Path, where: str) -> SweepConfig:
    """A sweep from its tables; `where` is what messages call the source."""
    _known(tables, ("sweep", "dataset", *SECTIONS, "grid", "run"), f"{where}: unknown section")
    sweep = _table(tables.get("sweep", {}), _SWEEP, f"{where}: [sweep]")
    datasets = tables.get("dataset", [])
    if not isinstance(datasets, list) or not datasets:
        raise ConfigError(f"{where}: there is no [[dataset]]; a sweep needs at least one.")
    found = tuple(_dataset(d, home, f"{where}: dataset {i + 1}") for i, d in enumerate(datasets))
    if len({d.name for d in found}) != len(found):
        raise ConfigError(f"{where}: two datasets have the same name; give each its own.")
    fleet, samples = sweep.get("fleet", 16), sweep.get("samples", 100)
    if fleet < 1 or samples < 2:
        raise ConfigError(f"{where}: [sweep] fleet must be at least 1 and samples at least 2.")
    directory = home / sweep.get("directory", "sweep")
    shared = read_spec(tables, where)
    specs = tuple(_spec(shared, given, where) for given in _combinations(tables, where))
    return SweepConfig(directory, fleet, samples, sweep.get("keep_models", False), found, specs)


def _combinations(tables: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """All combinations of the grid and all listed runs."""
    grid, listed = tables.get("grid"), tables.get("run", [])
    for name, values in (grid or {}).items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{where}: [grid] {name} must be a list of values; got {values!r}.")
    if not isinstance(listed, list):
        raise ConfigError(f"{where}: write [[run]], with two brackets, for a list of runs.")
    crossed = [dict(zip(grid or {}, values, strict=True)) for values in itertools.product(*(grid or {}).values())]
    if grid is None and listed:  # the listed runs are all there is
        crossed = []
    return [*crossed, *listed]


def _spec(shared: Spec, given: dict[str, Any], where: str) -> Spec:
    try:
        spec = shared.change(**given).complete()
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if spec.structure.joint:
        raise ConfigError(f"{where}: joint is not for sweeps, which run every output by itself; leave it out.")
    single = (spec.bands.folds, spec.training.early_stopping, spec.training.refit)
    if any(single) or spec.bands.noise != "gaussian":
        raise ConfigError(
            f"{where}: folds, refit, noise and early_stopping are for single fits; a sweep has its own splits."
        )
    return spec


def _dataset(given: Any, home: Path, where: str) -> SweepDataset:
    table = _table(given, _DATASET, where)
    lists = {key: _strings(table.get(key), f"{where}: {key}") for key in ("inputs", "outputs")}
    splits = table.get("split", [])
    if not splits:
        raise ConfigError(f"{where}: there is no [[dataset.split]] with its train and test files.")
    return SweepDataset(
        name=table.get("name", "data"),
        **lists,
        time=table.get("time"),
        dt=table.get("dt"),
        gaps=table.get("gaps", "split"),
        splits=tuple(_split(s, i, home, f"{where}, split {i + 1}") for i, s in enumerate(splits)),
    )


def _split(given: Any, number: int, home: Path, where: str) -> SweepSplit:
    table = _table(given, {"name": str, "train": list, "test": list}, where)
    halves = {
        key: tuple(str(home / f) for f in _strings(table.get(key), f"{where}: {key}")) for key in ("train", "test")
    }
    return SweepSplit(table.get("name", str(number + 1)), **halves)


def _table(given: Any, kinds: dict[str, type], where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a table of keys and values; got {given!r:.60}.")
    _known(given, tuple(kinds), f"{where}: unknown key")
    for key, value in given.items():
        kind = (int, float) if kinds[key] is float else kinds[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kinds[key] is not bool):
            raise ConfigError(f"{where}: {key} must be of type {kinds[key].__name__}; got {value!r:.60}.")
    return given


def _known(given: dict[str, Any], known: tuple[str, ...], message: str) -> None:
    for key in given:
        if key not in known:
            raise ConfigError(f"{message} {key!r}; known are {', '.join(known)}.")


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
        raise ConfigError(f"{where} must be a list of texts, at least one; got {value!r:.60}.")
    return tuple(value)
