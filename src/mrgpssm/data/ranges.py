"""Scaled recordings, and ways to leave some of their rows out.

Whole sequences are left out if there are three or more, contiguous blocks otherwise.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

_BLOCKS = 5
_WARMUP = 50
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Recording:
    """Inputs (T, D_u) and outputs (T, D_y) in training standard deviations; missing outputs are NaN."""

    inputs: np.ndarray
    outputs: np.ndarray

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, rows: slice) -> "Recording":
        """The given rows as a recording."""
        return Recording(self.inputs[rows], self.outputs[rows])

    def column(self, number: int) -> "Recording":
        """The recording with one of its outputs."""
        return Recording(self.inputs, self.outputs[:, [number]])


@dataclass(frozen=True)
class RowRange:
    """Rows start ... stop - 1 of training sequence `index`. In a test, the first `warmup` rows set the state."""

    index: int
    start: int
    stop: int
    warmup: int = 0

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The rows as a slice."""
        return slice(self.start, self.stop)

    @property
    def warm(self) -> slice:
        """The warm-up rows as a slice."""
        return slice(self.start, self.start + self.warmup)

    @property
    def test_rows(self) -> slice:
        """The rows of the free run as a slice."""
        return slice(self.start + self.warmup, self.stop)


@dataclass(frozen=True)
class RowFold:
    """Row ranges to train on and row ranges to test on."""

    train: tuple[RowRange, ...]
    test: tuple[RowRange, ...]


def cut(lengths: list[int]) -> list[RowRange]:
    """Every sequence as one row range, or in equal blocks if there are fewer than three sequences.

    A sequence that is left out as a whole is simulated from its first row. A block can start anywhere: its first
    eighth, at most 50 rows, is its warm-up.
    """
    blocks = 1 if len(lengths) >= 3 else -(-_BLOCKS // len(lengths))
    pieces = []
    for index, length in enumerate(lengths):
        edges = np.linspace(0, length, min(blocks, max(length // 2, 1)) + 1).astype(int)
        for a, b in itertools.pairwise(edges.tolist()):
            pieces.append(RowRange(index, a, b, 0 if blocks == 1 else min(_WARMUP, (b - a) // 8)))
    return pieces


def whole(lengths: list[int]) -> tuple[RowRange, ...]:
    """Every sequence as one row range."""
    return tuple(RowRange(i, 0, length) for i, length in enumerate(lengths))


def folds(lengths: list[int], count: int) -> list[RowFold]:
    """At most `count` folds, or one per block of cut sequences. Every row range is tested in exactly one fold."""
    pieces = cut(lengths)
    count = min(count, len(pieces)) if len(lengths) >= 3 else len(pieces)
    return [_leave_out(pieces, range(k, len(pieces), count)) for k in range(count)]


def leave_one_out(lengths: list[int], count: int) -> list[RowFold]:
    """`count` folds that leave out one row range each, evenly spread; ranges repeat if there are too few."""
    pieces = cut(lengths)
    # the first block of a cut sequence has nothing before it to warm up on: it is left out last
    order = sorted(range(len(pieces)), key=lambda i: len(lengths) < 3 and pieces[i].start == 0)
    chosen = [order[(k * len(order) // count if count < len(order) else k) % len(order)] for k in range(count)]
    return [_leave_out(pieces, [c]) for c in chosen]


def cut_tests(split: list[RowFold], rows: int, most: int) -> list[RowFold]:
    """The same folds, tested in at most about `most` runs of so many rows, each after its own warm-up."""
    whole = sum(len(p) for fold in split for p in fold.test)

    def cut_one(p: RowRange) -> Iterator[RowRange]:
        warmup = p.warmup or min(_WARMUP, len(p) // 8)
        for first in range(p.start, max(p.stop - warmup - rows, p.start) + 1, max(warmup + rows, whole // most)):
            yield RowRange(p.index, first, min(first + warmup + rows, p.stop), warmup)

    return [RowFold(fold.train, tuple(short for p in fold.test for short in cut_one(p))) for fold in split]


def _leave_out(pieces: list[RowRange], numbers: Collection[int]) -> RowFold:
    train = tuple(p for i, p in enumerate(pieces) if i not in numbers)
    return RowFold(train, tuple(pieces[i] for i in numbers))


def take_tests(values: list[np.ndarray], split: list[RowFold]) -> np.ndarray:
    """The tested rows of the values of all sequences, range after range."""
    return np.concatenate([values[p.index][p.test_rows] for fold in split for p in fold.test])


def judge(held: np.ndarray, measured: np.ndarray, split: list[RowFold]) -> np.ndarray:
    """(D_y,) the score that candidates are compared by: the mean over rows of log(mean squared error of the range).

    That is a Gaussian likelihood in which every row range has its own variance, so that one range that no candidate
    predicts well does not decide alone. Errors below 1e-6 standard deviations, and differences below 1e-6, count as
    zero. `held` and `measured` (N, D_y) are the tested rows, range after range. The result is infinite where a run is.
    """
    edges = np.cumsum([len(p) - p.warmup for fold in split for p in fold.test])[:-1]
    pairs = zip(np.split((held - measured) ** 2, edges), np.split(np.isfinite(measured), edges), strict=True)
    total, count = np.zeros(measured.shape[1]), np.zeros(measured.shape[1])
    for errors, known in pairs:
        seen = known.sum(axis=0)
        mean = np.where(np.isnan(errors), 0.0, errors).sum(axis=0) / np.maximum(seen, 1)
        total, count = total + seen * np.log(mean + _SMALLEST), count + seen
    return np.where(np.isfinite(total), np.round(total / np.maximum(count, 1), 6), np.inf)


def merge(pieces: Iterable[RowRange]) -> list[RowRange]:
    """Join neighbouring row ranges of a sequence."""
    merged: list[RowRange] = []
    for p in sorted(pieces, key=lambda p: (p.index, p.start)):
        if merged and (merged[-1].index, merged[-1].stop) == (p.index, p.start):
            merged[-1] = RowRange(p.index, merged[-1].start, p.stop)
        else:
            merged.append(p)
    return merged
