"""Folds: training data for models that are tested on the rest.

With at least as many sequences as folds, the sequences are dealt out to the folds. With fewer, every sequence is cut
into as many stretches. A fold then trains on copies in which the outputs of its stretch are missing, and is tested on
that stretch alone, in a free run from the first row of the sequence.
"""

from dataclasses import replace

import numpy as np

from mrgpssm.data.sequence import Sequence

Sequences = list[Sequence]


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
