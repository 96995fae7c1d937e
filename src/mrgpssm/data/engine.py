"""The Bosch engine sets: measurements as sequences, and the splits into training and test measurements."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrgpssm.data.datasets import Dataset, data_root, dataset, find_file, how_to_get, load_sequence, measurement_file
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError

ENGINES = ("gengine1", "gengine2")
PAPER_OUTPUTS = ("PN", "HC", "NOx", "Temp")
# The measurements of gengine2 by design of experiment, and how many of each group test (supplement E.3 of the paper).
GROUPS = {
    "G0": (4, 8, 9, 16),  # standard design mixed with test-bench drives
    "G1": (10, 11, 17, 18),  # low gradients
    "G2": (3, 7, 12, 13),  # others, never tested on
    "G3": (0, 5, 14, 15, 19),  # standard design in four segments of speed and torque
    "G4": (1, 2, 6, 20),  # standard design
    "G5": (21,),  # real driving on the road
}
TESTED = {"G0": 1, "G1": 2, "G3": 1, "G4": 1, "G5": 1}
_FIXED = (
    ((3, 4, 6, 7, 12, 17, 19), (1, 8, 10, 11, 15, 21)),
    ((1, 3, 7, 8, 10, 12, 19), (4, 6, 11, 15, 17, 21)),
    ((1, 3, 7, 8, 12, 17, 19), (4, 6, 10, 11, 15, 21)),
    ((3, 4, 6, 7, 11, 12, 15), (1, 8, 10, 17, 19, 21)),
    ((3, 4, 6, 7, 10, 12, 19), (1, 8, 11, 15, 17, 21)),
)


@dataclass(frozen=True)
class Split:
    """Measurements for training and measurements for testing; they do not overlap."""

    train: tuple[int, ...]
    test: tuple[int, ...]

    def __post_init__(self):
        both = sorted(set(self.train) & set(self.test))
        if both:
            raise DataError(f"Measurement {both[0]} is in both halves of a split; let it either train or test.")
        if not (self.train and self.test):
            raise DataError("A split needs at least one measurement to train on and one to test on.")


def load_engine(
    name: str, measurements: Iterable[int], outputs: Iterable[str] | None = None, root: str | Path | None = None
) -> list[Sequence]:
    """The given measurements in that order, with all inputs and the chosen outputs (None: all outputs)."""
    entry = dataset(name)
    if name not in ENGINES:
        raise DataError(
            f"{name} is not an engine set; load_dataset loads it. The engine sets are {' and '.join(ENGINES)}."
        )
    numbers = _check_numbers(entry, measurements)
    chosen = _outputs(entry, outputs)
    paths = {n: find_file(entry, measurement_file(n), root) for n in numbers}
    missing = [n for n, path in paths.items() if path is None]
    if missing:
        raise DataError(
            f"{name}: measurement {', '.join(map(str, missing))} ({measurement_file(missing[0])}"
            f"{' ...' if len(missing) > 1 else ''}) is not under {data_root(root)}; {how_to_get(entry)}."
        )
    return [
        load_sequence(entry, path, f"{name} measurement {n}", chosen) for n in numbers if (path := paths[n]) is not None
    ]


def fixed_splits() -> tuple[Split, ...]:
    """The five splits that all results of this project use, over 13 of the 22 measurements of gengine2."""
    return tuple(Split(*halves) for halves in _FIXED)


def stratified_splits(measurements: Iterable[int], count: int, seed: int) -> tuple[Split, ...]:
    """`count` different splits of gengine2 by the paper's protocol, drawn uniformly from all possible ones.

    The test half takes 1 measurement of G0, 2 of G1, 1 of G3, 1 of G4 and measurement 21; all others are for training.
    Any subset of the 22 measurements that still has those can be used.
    """
    have = sorted(set(_check_numbers(dataset("gengine2"), measurements)))
    ways = []
    for group, need in TESTED.items():
        members = [n for n in GROUPS[group] if n in have]
        if len(members) < need:
            known = ", ".join(map(str, GROUPS[group]))
            raise DataError(f"The test half needs {need} of group {group} ({known}); got {members}; add to them.")
        ways.append(list(itertools.combinations(members, need)))
    total = math.prod(len(way) for way in ways)
    if not 1 <= count <= total:
        raise DataError(f"These measurements allow 1 to {total} different splits; got count = {count}.")
    tests = [sorted(itertools.chain(*choice)) for choice in itertools.product(*ways)]
    order = np.random.default_rng(seed).choice(total, size=count, replace=False)
    return tuple(Split(tuple(n for n in have if n not in tests[i]), tuple(tests[i])) for i in order)


def _check_numbers(entry: Dataset, measurements: Iterable[int]) -> list[int]:
    if not isinstance(measurements, Iterable):
        raise DataError(f"{entry.name}: measurements must be a list of numbers; got {measurements!r}.")
    known, numbers = [int(file[4:10]) for file in entry.files], list(measurements)
    for value in numbers:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value not in known:
            listed = ", ".join(map(str, known))
            raise DataError(f"{entry.name} has no measurement {value!r}; the published ones are {listed}.")
    return [int(n) for n in numbers]


def _outputs(entry: Dataset, outputs: Iterable[str] | None) -> tuple[str, ...]:
    chosen = entry.outputs if outputs is None else (outputs,) if isinstance(outputs, str) else tuple(outputs)
    unknown = [name for name in chosen if name not in entry.outputs]
    if unknown or not chosen:
        what = f"has no output {unknown[0]!r}" if unknown else "needs at least one output"
        raise DataError(f"{entry.name} {what}; choose from {', '.join(entry.outputs)}.")
    return chosen
