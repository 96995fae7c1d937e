"""What is learned from and judged on: sequences, and folds that say which train and which test."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.data.engine import PAPER_OUTPUTS, fixed_splits, load_engine
from mrgpssm.data.synthetic import four_outputs


@dataclass(frozen=True)
class ProblemFold:
    """Sequences that train and that test, by number. `before[i]` is the one that ends where test[i] begins, if any."""

    train: tuple[int, ...]
    test: tuple[int, ...]
    before: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Sequences with the same columns, and folds; every fold is trained on for every output."""

    name: str
    sequences: tuple[Sequence, ...]
    folds: tuple[ProblemFold, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The output columns: one model each."""
        return self.sequences[0].output_names

    def fingerprint(self) -> str:
        """SHA-256 of the numbers, the column names and the folds."""
        folds = [[f.train, f.test, f.before] for f in self.folds]
        first = self.sequences[0]
        sha = hashlib.sha256(json.dumps([folds, first.input_names, first.output_names, first.dt]).encode())
        for sequence in self.sequences:
            for array in (sequence.inputs, sequence.outputs):
                sha.update(str(array.shape).encode())
                sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def describe(self) -> dict[str, object]:
        """What a record says of the data."""
        return {
            "name": self.name,
            "sha256": self.fingerprint(),
            "sequences": [s.name for s in self.sequences],
            "rows": sum(map(len, self.sequences)),
            "folds": [[list(f.train), list(f.test)] for f in self.folds],
        }


def engine_problem(scale: str, root: str | None) -> Problem:
    """The five fixed splits of the 13 engine measurements at hand; at smoke scale a synthetic stand-in."""
    if scale == "smoke":
        sequences = tuple(four_outputs(seed=seed, length=600, names=PAPER_OUTPUTS) for seed in range(4))
        return Problem("synthetic stand-in", sequences, (ProblemFold((0, 1), (2, 3)), ProblemFold((1, 3), (0, 2))))
    splits = fixed_splits()
    numbers = sorted({n for split in splits for n in (*split.train, *split.test)})
    sequences = tuple(load_engine("gengine2", numbers, PAPER_OUTPUTS, root))
    place = {number: index for index, number in enumerate(numbers)}
    folds = tuple(ProblemFold(*(tuple(place[n] for n in half) for half in (s.train, s.test))) for s in splits)
    return Problem(f"gengine2, {len(numbers)} of 22 measurements", sequences, folds)


def measurement(scale: str, root: str | None) -> Sequence:
    """The one recording that the semi-synthetic sets are made from: measurement 15."""
    if scale == "smoke":
        return four_outputs(seed=15, length=1200, names=PAPER_OUTPUTS)
    return load_engine("gengine2", [15], PAPER_OUTPUTS, root)[0]


def halves_problem(name: str, sequence: Sequence, repeats: int) -> Problem:
    """The first half trains and the second tests; every repeat is a fold of its own, so that its seed differs."""
    middle = len(sequence) // 2
    parts = tuple(sequence.take(rows) for rows in (slice(None, middle), slice(middle, None)))
    return Problem(name, parts, tuple(ProblemFold((0,), (1,), (0,)) for _ in range(repeats)))
