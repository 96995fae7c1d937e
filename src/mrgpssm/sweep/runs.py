"""The runs of a sweep: their ids, their records, and how they are packed into fleets."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.file.record import digest, read_record
from mrgpssm.spec import Spec
from mrgpssm.sweep.config import SweepConfig, SweepDataset

FORMAT = 1
SHOWN = ("rmse", "nrmse", "crps", "coverage_90")  # scores that tables show


@dataclass(frozen=True)
class Run:
    """One model: a dataset, a split, an output, and options (the seed is one of them)."""

    id: str
    dataset: str
    split: str
    output: str
    spec: Spec


@dataclass(frozen=True)
class Pack:
    """Runs that train as one program: the same dataset, and options that differ in the seed alone."""

    dataset: SweepDataset
    spec: Spec
    runs: tuple[Run, ...]


Loaded = dict[str, tuple[list[Sequence], list[Sequence]]]


def load_splits(dataset: SweepDataset) -> Loaded:
    """Training and test sequences of every split; each file is read once."""
    columns = Columns(dataset.inputs, dataset.outputs, dataset.time, dataset.dt)
    cache: dict[str, list[Sequence]] = {}

    def read(files: tuple[str, ...]) -> list[Sequence]:
        for file in files:
            if file not in cache:
                cache[file] = read_sequences([file], columns, gaps=dataset.gaps)  # pyright: ignore[reportArgumentType]
        return [sequence for file in files for sequence in cache[file]]

    return {split.name: (read(split.train), read(split.test)) for split in dataset.splits}


def fingerprint(sequences: Iterable[Sequence], output: str) -> str:
    """SHA-256 of the data of a run: inputs, one output, names and sampling."""
    sha = hashlib.sha256()
    for s in sequences:
        sha.update(json.dumps([s.input_names, output, s.dt, s.inputs.shape]).encode())
        for array in (s.inputs, s.outputs[:, s.output_names.index(output)], s.clock()):
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def make_runs(config: SweepConfig) -> tuple[list[Run], dict[str, SweepDataset]]:
    """Every combination of dataset, split, output and options; equal runs are merged."""
    runs: dict[str, Run] = {}
    for dataset in config.datasets:
        for split, (train, test) in load_splits(dataset).items():
            for output in dataset.outputs:
                data = [fingerprint(half, output) for half in (train, test)]
                for spec in config.specs:
                    identity = [FORMAT, spec.to_json(), data, config.samples]
                    name = digest(identity)[:20]
                    runs.setdefault(name, Run(name, dataset.name, split, output, spec))
    return list(runs.values()), {d.name: d for d in config.datasets}


def record_path(directory: Path, run: Run) -> Path:
    """DIRECTORY/runs/ID.json."""
    return directory / "runs" / f"{run.id}.json"


def find_record(directory: Path, run: Run) -> dict[str, Any] | None:
    """A run's record, or None where there is none that is whole and this run's; such a run is made again."""
    record = read_record(record_path(directory, run))
    return record if record is not None and _is_complete(record, run) else None


def without_record(directory: Path, runs: Iterable[Run]) -> list[Run]:
    """The runs that have no record on the disk."""
    return [run for run in runs if find_record(directory, run) is None]


def _is_complete(record: dict[str, Any], run: Run) -> bool:
    """Whether a record has this run's settings, its names, and either all scores that tables show or a failure."""
    own = {"format": FORMAT, "id": run.id, "output": run.output, "options": run.spec.to_json()}
    if any(record.get(key) != value for key, value in own.items()):
        return False
    if not all(isinstance(record.get(key), str) for key in ("dataset", "split")):
        return False
    scores, failure = record.get("scores"), record.get("failure")
    if failure is not None:
        return isinstance(failure, str) and scores is None
    return isinstance(scores, dict) and all(isinstance(scores.get(name), float) for name in SHOWN)


def packs(runs: Iterable[Run], datasets: dict[str, SweepDataset], fleet: int) -> list[Pack]:
    """Fleets of at most `fleet` models, of equal size where possible, because every size is compiled separately.

    A run with several restarts counts as several models.
    """
    groups: dict[tuple[str, Spec], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.dataset, run.spec.change(seed=0)), []).append(run)
    made = []
    for (name, spec), members in groups.items():
        most = max(1, fleet // spec.training.restarts)
        each = -(-len(members) // -(-len(members) // most))
        made += [Pack(datasets[name], spec, tuple(members[i : i + each])) for i in range(0, len(members), each)]
    return made
