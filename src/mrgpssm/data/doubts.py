"""Warnings about data, or about a model on new data: one sentence each."""

import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mrgpssm.data.seen import SHARE, Seen, hash_rows
from mrgpssm.data.sequence import Sequence, each_column
from mrgpssm.errors import DataWarning
from mrgpssm.file.words import listing

FAR = 20.0  # robust standard deviations; the emissions of engines reach 18
OUTSIDE, ROWS = 0.2, 0.01  # ranges that inputs may leave the training range by, in so many of the rows
_ROWS_EACH = 5  # measured rows for every inducing point
_WINDOWS = 2  # that the measured rows of an output hold

Sequences = list[Sequence]


class Asked(NamedTuple):
    """What a fit needs from the data: rows of a window at the coarsest resolution, inducing points, folds."""

    window: int
    inducing: int
    folds: int


def doubt_training(training: Sequences, validation: Sequences, asked: Asked) -> tuple[str, ...]:
    """All warnings about the data of a fit."""
    folds = [] if validation else doubt_folds(training, asked)
    return (*doubt_values(training), *doubt_amount(training, asked), *folds, *doubt_validation(training, validation))


def doubt_values(sequences: Sequences) -> list[str]:
    """Warn of columns with outliers: values more than `FAR` robust standard deviations from the median."""
    found = []
    for kind, name, parts in each_column(sequences):
        middle, deviation = _robust(np.concatenate(parts))
        if deviation > 0:
            distances = [np.nan_to_num(np.abs(part - middle)) / deviation for part in parts]
            found += _far(sequences, parts, distances, f"{kind.capitalize()} {name!r}")
    return found


def doubt_amount(training: Sequences, asked: Asked) -> list[str]:
    """Warn of outputs with too few measured rows."""
    need = max(_ROWS_EACH * asked.inducing, _WINDOWS * asked.window)
    counts = np.sum([np.isfinite(s.outputs).sum(axis=0) for s in training], axis=0)
    few = [(count, name) for count, name in zip(counts, training[0].output_names, strict=True) if count < need]
    if not few:
        return []
    count, name = min(few)
    return [
        f"Output {name!r} has {count:,} measured rows and {need:,} are needed for {asked.inducing} inducing points and "
        f"windows of {asked.window:,} rows: scores and bands cannot be trusted; record more."
    ]


def doubt_folds(training: Sequences, asked: Asked) -> list[str]:
    """Warn of folds that do not test on new data: stretches shorter than a window, or shared rows."""
    if not asked.folds:
        return []
    found = []
    if len(training) < asked.folds:
        stretch = min(map(len, training)) // asked.folds
        if stretch < asked.window:
            found.append(
                f"The folds are stretches of {stretch:,} rows, shorter than a window of {asked.window:,} rows: they "
                "are not apart, and scores and bands cannot be trusted; give more or longer recordings."
            )
        return found
    for later, (copy, share) in enumerate(_copies(training)):
        if share >= SHARE and copy % asked.folds != later % asked.folds:
            found.append(
                f"{training[later].name} repeats {training[copy].name} ({share:.0%} of its rows), and they are in "
                "different folds: scores and bands look better than they are; leave one out."
            )
    return found


def doubt_validation(training: Sequences, validation: Sequences) -> list[str]:
    """Warn of validation data that are also training data."""
    remembered = Seen.of(training) if validation else None
    names = [s.name for s in validation if was_seen(remembered, s)]
    if not names:
        return []
    listed = listing(names, 3)
    return [f"Validation data were also given for training ({listed}): scores and bands look better than they are."]


def was_seen(seen: Seen | None, sequence: Sequence) -> bool:
    """Whether the rows of a sequence were in the training data, as far as the model can tell."""
    return seen is not None and seen.share(sequence) >= SHARE


def doubt_scores(seen: Seen | None, sequences: Iterable[Sequence]) -> list[str]:
    """Warn of scores on training data."""
    names = [s.name for s in sequences if was_seen(seen, s)]
    return [f"Seen in training: {listing(names, 3)}; these scores do not say how good the model is."] if names else []


def doubt_inputs(seen: Seen | None, sequences: Iterable[Sequence]) -> list[str]:
    """Warn of inputs outside the training range: which column, how far, and in how many rows."""
    return [] if seen is None else [text for s in sequences for text in _outside(seen.ranges, s)]


def _robust(values: np.ndarray) -> tuple[float, float]:
    """Median, and a standard deviation that a few per cent of outliers do not change.

    It is the larger of two estimates: from the distances to the median, and from the middle 95 % of the values. So
    neither skewed columns nor rare valve positions count as outliers. Values at the median are left out, so that a
    switch does not count as an outlier either.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 0.0
    middle = float(np.median(known))
    distances = np.abs(known - middle)
    distances = distances[distances > 0]
    low, high = np.quantile(known, [0.025, 0.975])
    return middle, max(1.4826 * float(np.median(distances)) if len(distances) else 0.0, float(high - low) / 3.92)


def _far(sequences: Sequences, parts: list[np.ndarray], distances: list[np.ndarray], what: str) -> list[str]:
    """One sentence about the outliers of one column, with the place of the largest."""
    count = sum(int((d > FAR).sum()) for d in distances)
    if not count:
        return []
    farthest = int(np.argmax([d.max() for d in distances]))
    row = int(np.argmax(distances[farthest]))
    where = f"{parts[farthest][row]:g} in row {row} of {sequences[farthest].name}"
    values = "a value" if count == 1 else f"{count:,} values, such as"
    return [
        f"{what} has {values} {where}, {distances[farthest][row]:,.0f} robust standard deviations "
        f"from its median: the model would learn from {'it' if count == 1 else 'them'}; correct or cut such rows."
    ]


def _copies(training: Sequences) -> Iterator[tuple[int, float]]:
    """For every sequence: the earlier sequence with the most rows in common, and the share of common rows."""
    hashes = [hash_rows(s) for s in training]
    owners = np.repeat(np.arange(len(training)), [len(own) for own in hashes])
    _, first, place = np.unique(np.concatenate(hashes), return_index=True, return_inverse=True)
    earliest = owners[first][place]
    for number in range(len(training)):
        found = np.bincount(earliest[owners == number], minlength=number + 1)
        total, found[number] = max(found.sum(), 1), 0
        best = int(np.argmax(found))
        yield best, float(found[best] / total)


def _outside(ranges: np.ndarray, s: Sequence) -> Iterator[str]:
    low, high = ranges.T
    beyond = np.maximum(low - s.inputs, s.inputs - high)
    excess = beyond.max(axis=0, initial=0.0).clip(0) / np.maximum(high - low, np.finfo(float).tiny)
    share = (beyond > 0).mean(axis=0)
    left = np.flatnonzero(((excess > OUTSIDE) & (share >= ROWS)) | (excess > 1))
    if not len(left):
        return
    worst = int(left[np.argmax(excess[left])])
    more = f", and {len(left) - 1} more do" if len(left) > 1 else ""
    yield (
        f"{s.name}: input {s.input_names[worst]!r} leaves the training range, {low[worst]:g} to {high[worst]:g}, by up "
        f"to {excess[worst]:.2g} times its width in {share[worst]:.1%} of the rows{more}: there the model guesses, and "
        "its bands are too narrow."
    )


def warn_of(doubts: Iterable[str]) -> None:
    """A warning for each doubt about data, at the line that called the method of the model."""
    for doubt in doubts:
        warnings.warn(doubt, DataWarning, stacklevel=3)
