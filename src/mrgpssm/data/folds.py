"""Folds: what a model that only judges has not seen in training.

With at least as many sequences as folds, sequences are dealt to the folds by turns. With fewer, every sequence is cut
into as many stretches: a fold trains on copies whose stretch has no measured outputs, and is judged there alone, at the
end of a run from the sequence's own first row.
"""

from dataclasses import replace

import numpy as np

from mrgpssm.data.sequence import Sequence

Sequences = list[Sequence]


def with_copies(sequences: Sequences, folds: int) -> Sequences:
    """All that restarts and folds train on: the sequences, and the copies where there are too few of them."""
    if folds <= len(sequences):
        return sequences
    return [*sequences, *(s for k in range(folds) for s in trained_on(sequences, folds, k))]


def masks(folds: int, sequences: int) -> np.ndarray:
    """(folds, all of `with_copies`): whether a fold trains on it."""
    number = np.arange(folds)[:, None]
    if folds <= sequences:
        return np.arange(sequences) % max(folds, 1) != number
    return np.arange(sequences * (1 + folds)) // sequences == 1 + number


def trained_on(sequences: Sequences, folds: int, number: int) -> Sequences:
    """What one fold learns from."""
    if folds <= len(sequences):
        return [s for i, s in enumerate(sequences) if i % folds != number]
    return [_blank(s, _stretch(s, folds, number)) for s in sequences]


def take_unseen(sequences: Sequences, folds: int, number: int) -> Sequences:
    """What it is judged on."""
    if folds <= len(sequences):
        return sequences[number::folds]
    return [_blank(s, ~_stretch(s, folds, number)) for s in sequences]


def unseen_rows(sequences: Sequences, folds: int, number: int) -> np.ndarray:
    """What it is judged on, as a mask over the rows of the sequences, one after the other."""
    if folds <= len(sequences):
        return np.concatenate([np.full(len(s), i % folds == number) for i, s in enumerate(sequences)])
    return np.concatenate([_stretch(s, folds, number) for s in sequences])


def _stretch(s: Sequence, folds: int, number: int) -> np.ndarray:
    return np.arange(len(s)) * folds // len(s) == number


def _blank(s: Sequence, rows: np.ndarray) -> Sequence:
    outputs = np.array(s.outputs, float)
    outputs[rows] = np.nan
    return replace(s, outputs=outputs)
