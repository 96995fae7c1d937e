"""A sweep's runs: who they are, which of them are done, and how they are packed into fleets."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.options import Options
from mrgpssm.sweep.config import Dataset, SweepConfig

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """One model: a dataset, a split, an output, and options (the seed is one of them)."""

    id: str
    dataset: str
    split: str
    output: str
    options: Options


@dataclass(frozen=True)
class Pack:
    """Runs that train as one program: the same dataset, and options that differ in the seed alone."""

    dataset: Dataset
    options: Options
    runs: tuple[Run, ...]


Loaded = dict[str, tuple[list[Sequence], list[Sequence]]]


def load_splits(dataset: Dataset) -> Loaded:
    """Training and test sequences of every split; a file that several splits name is read once."""
    columns = Columns(dataset.inputs, dataset.outputs, dataset.time, dataset.dt)
    cache: dict[str, list[Sequence]] = {}

    def read(files: tuple[str, ...]) -> list[Sequence]:
        for file in files:
            if file not in cache:
                cache[file] = read_sequences([file], columns, gaps=dataset.gaps)  # pyright: ignore[reportArgumentType]
        return [sequence for file in files for sequence in cache[file]]

    return {split.name: (read(split.train), read(split.test)) for split in dataset.splits}


def fingerprint(sequences: Iterable[Sequence], output: str) -> str:
    """SHA-256 of what a run sees of its data: inputs, one output, names and sampling."""
    sha = hashlib.sha256()
    for s in sequences:
        sha.update(json.dumps([s.input_names, output, s.dt, s.inputs.shape]).encode())
        parts = (s.inputs, s.outputs[:, s.output_names.index(output)], s.clock())
        for array in parts:
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def make_runs(config: SweepConfig) -> tuple[list[Run], dict[str, Dataset]]:
    """Every dataset x split x output x options; runs that ask for the same are one."""
    runs: dict[str, Run] = {}
    for dataset in config.datasets:
        for split, (train, test) in load_splits(dataset).items():
            for output in dataset.outputs:
                data = [fingerprint(half, output) for half in (train, test)]
                for options in config.options:
                    identity = [FORMAT, options.to_json(), data, config.samples]
                    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:20]
                    runs.setdefault(name, Run(name, dataset.name, split, output, options))
    return list(runs.values()), {d.name: d for d in config.datasets}


def record_path(directory: Path, run: Run) -> Path:
    """DIRECTORY/runs/ID.json."""
    return directory / "runs" / f"{run.id}.json"


def read_record(path: Path) -> dict[str, Any] | None:
    """A record, or None where there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def packs(runs: Iterable[Run], datasets: dict[str, Dataset], fleet: int) -> list[Pack]:
    """Fleets of at most `fleet` models, of equal size where possible: every size is a program of its own.

    A run with several restarts is as many models.
    """
    groups: dict[tuple[str, Options], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.dataset, replace(run.options, seed=0)), []).append(run)
    made = []
    for (name, options), members in groups.items():
        most = max(1, fleet // options.restarts)
        each = -(-len(members) // -(-len(members) // most))
        made += [Pack(datasets[name], options, tuple(members[i : i + each])) for i in range(0, len(members), each)]
    return made
