"""Folds: training data for models that are tested on the rest.

With at least as many sequences as folds, the sequences are dealt out to the folds. With fewer, every sequence is cut
into as many stretches. A fold then trains on copies in which the outputs of its stretch are missing, and is tested on
that stretch alone, in a free run after a warm-up on the rows before it.
"""

from dataclasses import replace

import numpy as np

from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import ConfigError

Sequences = list[Sequence]
_WARMUP, _PAST = 50, 200  # rows of a warm-up, at most: at the start of a sequence, and of all that comes before


def check_folds(sequences: Sequences, folds: int) -> None:
    """Refuse folds whose stretches would have less than two rows."""
    if not can_fold(sequences, folds):
        shortest = min(map(len, sequences))
        raise ConfigError(f"folds = {folds} would cut {shortest} rows into stretches of less than two; use fewer.")


def can_fold(sequences: Sequences, folds: int) -> bool:
    """Whether there are sequences for every fold, or rows for stretches."""
    return len(sequences) >= folds or min(map(len, sequences)) >= 2 * folds


def with_copies(sequences: Sequences, folds: int) -> Sequences:
    """The training data of all restarts and folds: the sequences, and their copies if there are too few sequences."""
    if folds <= len(sequences):
        return sequences
    return [*sequences, *(s for k in range(folds) for s in trained_on(sequences, folds, k))]


def masks(folds: int, sequences: int) -> np.ndarray:
    """(folds, sequences of `with_copies`): whether a fold trains on it."""
    number = np.arange(folds)[:, None]
    if folds <= sequences:
        return np.arange(sequences) % max(folds, 1) != number
    return np.arange(sequences * (1 + folds)) // sequences == 1 + number


def trained_on(sequences: Sequences, folds: int, number: int) -> Sequences:
    """The training data of one fold."""
    if folds <= len(sequences):
        return [s for i, s in enumerate(sequences) if i % folds != number]
    return [_blank(s, _stretch(s, folds, number)) for s in sequences]


def take_unseen(sequences: Sequences, folds: int, number: int) -> Sequences:
    """The test data of one fold."""
    if folds <= len(sequences):
        return sequences[number::folds]
    return [_blank(s, ~_stretch(s, folds, number)) for s in sequences]


def take_pairs(sequences: Sequences, folds: int, number: int) -> list[tuple[Sequence | None, Sequence]]:
    """The same as runs that begin where the test rows do: what comes just before them, and the rows themselves.

    A whole sequence has nothing before it. A stretch at the start of one gives up an eighth of its rows for a warm-up,
    at most 50; one of less than 16 rows has none.
    """
    if folds <= len(sequences):
        return [(None, s) for s in sequences[number::folds]]
    found = []
    for s in sequences:
        rows = np.flatnonzero(_stretch(s, folds, number))
        first, last = int(rows[0]), int(rows[-1]) + 1
        begin = first if first else min(_WARMUP, last // 8)
        if begin < 2:
            found.append((None, s.take(slice(first, last))))
            continue
        past = s.take(slice(max(0, begin - _PAST), begin))
        found.append((past if np.isfinite(past.outputs).any() else None, s.take(slice(begin, last))))
    return found


def unseen_rows(sequences: Sequences, folds: int, number: int) -> np.ndarray:
    """The test rows of one fold, as a mask over the rows of all sequences."""
    if folds <= len(sequences):
        return np.concatenate([np.full(len(s), i % folds == number) for i, s in enumerate(sequences)])
    return np.concatenate([_stretch(s, folds, number) for s in sequences])


def _stretch(s: Sequence, folds: int, number: int) -> np.ndarray:
    return np.arange(len(s)) * folds // len(s) == number


def _blank(s: Sequence, rows: np.ndarray) -> Sequence:
    outputs = np.array(s.outputs, float)
    outputs[rows] = np.nan
    return replace(s, outputs=outputs)
