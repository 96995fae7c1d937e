"""Leaving out training data: whole sequences where there are three or more, contiguous blocks of them otherwise."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_BLOCKS = 5


@dataclass(frozen=True)
class Piece:
    """Rows start ... stop - 1 of training sequence `index`."""

    index: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The rows, for indexing."""
        return slice(self.start, self.stop)


@dataclass(frozen=True)
class Fold:
    """Pieces to learn from and pieces to be judged on; what lies before a judged piece may warm up the state."""

    train: tuple[Piece, ...]
    test: tuple[Piece, ...]


def cut(lengths: list[int]) -> list[Piece]:
    """Every sequence as one piece, or in equal blocks where there are fewer than three sequences."""
    blocks = 1 if len(lengths) >= 3 else -(-_BLOCKS // len(lengths))
    pieces = []
    for index, length in enumerate(lengths):
        edges = np.linspace(0, length, min(blocks, max(length // 2, 1)) + 1).astype(int)
        pieces += [Piece(index, int(a), int(b)) for a, b in itertools.pairwise(edges)]
    return pieces


def folds(lengths: list[int], count: int) -> list[Fold]:
    """At most `count` folds, or one per block of cut sequences; every piece is judged in exactly one of them."""
    pieces = cut(lengths)
    count = min(count, len(pieces)) if len(lengths) >= 3 else len(pieces)
    return [
        Fold(
            tuple(p for i, p in enumerate(pieces) if i % count != k),
            tuple(p for i, p in enumerate(pieces) if i % count == k),
        )
        for k in range(count)
    ]


def leave_one_out(lengths: list[int], count: int) -> list[Fold]:
    """`count` folds that leave out one piece each, evenly chosen; pieces come again where there are fewer."""
    pieces = cut(lengths)
    # the first block of a cut sequence has nothing before it to warm up on: it is left out last
    order = sorted(range(len(pieces)), key=lambda i: len(lengths) < 3 and pieces[i].start == 0)
    chosen = [order[(k * len(order) // count if count < len(order) else k) % len(order)] for k in range(count)]
    return [Fold(tuple(p for i, p in enumerate(pieces) if i != c), (pieces[c],)) for c in chosen]


def merge(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbouring pieces of a sequence as one."""
    merged: list[Piece] = []
    for p in sorted(pieces, key=lambda p: (p.index, p.start)):
        if merged and (merged[-1].index, merged[-1].stop) == (p.index, p.start):
            merged[-1] = Piece(p.index, merged[-1].start, p.stop)
        else:
            merged.append(p)
    return merged
