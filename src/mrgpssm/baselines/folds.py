"""Leaving out training data: whole sequences where there are three or more, contiguous blocks of them otherwise."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_BLOCKS = 5
_WARMUP = 50
_SMALLEST = 1e-12


@dataclass(frozen=True)
class RowRange:
    """Rows start ... stop - 1 of training sequence `index`; when it is judged its first `warmup` rows set the state."""

    index: int
    start: int
    stop: int
    warmup: int = 0

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The rows, for indexing."""
        return slice(self.start, self.stop)

    @property
    def warm(self) -> slice:
        """The rows that set the state."""
        return slice(self.start, self.start + self.warmup)

    @property
    def test_rows(self) -> slice:
        """The rows that are run freely."""
        return slice(self.start + self.warmup, self.stop)


@dataclass(frozen=True)
class RowFold:
    """Pieces to learn from and pieces to be judged on."""

    train: tuple[RowRange, ...]
    test: tuple[RowRange, ...]


def cut(lengths: list[int]) -> list[RowRange]:
    """Every sequence as one piece, or in equal blocks where there are fewer than three sequences.

    A sequence left out as a whole is run from its first row. A block starts anywhere: an eighth of it, at most 50 rows,
    is its warm-up, and nothing before it is known.
    """
    blocks = 1 if len(lengths) >= 3 else -(-_BLOCKS // len(lengths))
    pieces = []
    for index, length in enumerate(lengths):
        edges = np.linspace(0, length, min(blocks, max(length // 2, 1)) + 1).astype(int)
        for a, b in itertools.pairwise(edges.tolist()):
            pieces.append(RowRange(index, a, b, 0 if blocks == 1 else min(_WARMUP, (b - a) // 8)))
    return pieces


def whole(lengths: list[int]) -> tuple[RowRange, ...]:
    """Every sequence as one piece."""
    return tuple(RowRange(i, 0, length) for i, length in enumerate(lengths))


def folds(lengths: list[int], count: int) -> list[RowFold]:
    """At most `count` folds, or one per block of cut sequences; every piece is judged in exactly one of them."""
    pieces = cut(lengths)
    count = min(count, len(pieces)) if len(lengths) >= 3 else len(pieces)
    return [
        RowFold(
            tuple(p for i, p in enumerate(pieces) if i % count != k),
            tuple(p for i, p in enumerate(pieces) if i % count == k),
        )
        for k in range(count)
    ]


def judge(held: np.ndarray, measured: np.ndarray, split: list[RowFold]) -> np.ndarray:
    """(D_y,) what candidates are compared by: the mean over rows of log(mean squared error of the row's piece).

    That is a Gaussian likelihood in which every piece has a variance of its own: the one stretch that no candidate
    predicts does not decide alone. Errors below 1e-6 deviations, and differences below 1e-6, count as none. `held` and
    `measured` (N, D_y) are the judged rows, piece after piece; the result is infinite where a run is.
    """
    lengths = [p.stop - p.start - p.warmup for fold in split for p in fold.test]
    total, count, edge = np.zeros(measured.shape[1]), np.zeros(measured.shape[1]), 0
    for length in lengths:
        errors = (held[edge : edge + length] - measured[edge : edge + length]) ** 2
        seen, edge = np.isfinite(measured[edge : edge + length]).sum(axis=0), edge + length
        mean = np.where(np.isnan(errors), 0.0, errors).sum(axis=0) / np.maximum(seen, 1)
        total, count = total + seen * np.log(mean + _SMALLEST), count + seen
    return np.where(np.isfinite(total), np.round(total / np.maximum(count, 1), 6), np.inf)


def leave_one_out(lengths: list[int], count: int) -> list[RowFold]:
    """`count` folds that leave out one piece each, evenly chosen; pieces come again where there are fewer."""
    pieces = cut(lengths)
    # the first block of a cut sequence has nothing before it to warm up on: it is left out last
    order = sorted(range(len(pieces)), key=lambda i: len(lengths) < 3 and pieces[i].start == 0)
    chosen = [order[(k * len(order) // count if count < len(order) else k) % len(order)] for k in range(count)]
    return [RowFold(tuple(p for i, p in enumerate(pieces) if i != c), (pieces[c],)) for c in chosen]


def merge(pieces: Iterable[RowRange]) -> list[RowRange]:
    """Neighbouring pieces of a sequence as one."""
    merged: list[RowRange] = []
    for p in sorted(pieces, key=lambda p: (p.index, p.start)):
        if merged and (merged[-1].index, merged[-1].stop) == (p.index, p.start):
            merged[-1] = RowRange(p.index, merged[-1].start, p.stop)
        else:
            merged.append(p)
    return merged
