"""Fill gaps, so that rows are at most one sample apart.

A row that is added holds the input of the row before the gap and has no outputs. `mrgpssm.arrays.gaps` cuts a gap into
equal steps of at most one sample; up to 5 % of a sample above a whole number is ignored as jitter of the clock. Then R
consecutive rows span at most R samples, so that no step of a component is longer than its time unit (h <= 1). Averages
and delayed copies of the inputs (`mrgpssm.arrays.drive`) are those of the filled rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from mrgpssm.arrays.drive import Drive, Memory
from mrgpssm.arrays.gaps import cut
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError


@dataclass(frozen=True, eq=False)
class Filled:
    """A sequence whose rows are at most one sample apart.

    Attributes:
        sequence: The sequence with the rows that were added.
        rows: Where the original rows are in it.
        steps: Samples from each of its rows to the next.
    """

    sequence: Sequence
    rows: np.ndarray
    steps: np.ndarray

    @property
    def is_even(self) -> bool:
        """Whether all original rows were one sample apart."""
        return len(self.rows) == len(self.steps) and bool((self.steps == 1).all())


def fill(sequence: Sequence, ahead: float = 1.0) -> Filled:
    """The sequence with rows added in every gap of more than one sample.

    Args:
        sequence: A recording; with even sampling it is returned as it is.
        ahead: Samples from the last row to the row that follows the sequence.

    Returns:
        The filled sequence, the places of the original rows in it, and the samples from each row to the next.

    Raises:
        DataError: A gap is longer than 100,000 samples.
    """
    gaps = np.append(np.diff(sequence.clock()), ahead)
    steps = cut(gaps, sequence.name)
    if len(steps.source) == len(gaps) and np.allclose(steps.sizes[:-1], gaps[:-1], rtol=0, atol=1e-9):
        return Filled(sequence, steps.rows, steps.sizes)
    outputs = np.full((len(steps.source), sequence.outputs.shape[1]), np.nan)
    outputs[steps.rows] = sequence.outputs
    even = bool((steps.sizes[:-1] == 1).all())
    time = None if even else sequence.dt * np.append(0.0, np.cumsum(steps.sizes[:-1]))
    filled = replace(sequence, inputs=sequence.inputs[steps.source], outputs=outputs, time=time)
    return Filled(filled, steps.rows, steps.sizes)


def check_filled(sequence: Sequence) -> None:
    """Raise an error if rows are more than one sample apart."""
    gaps = np.diff(sequence.clock())
    if gaps.max() > 1 + 1e-6:
        row = int(np.argmax(gaps))
        raise ValueError(f"{sequence.name}: {gaps[row]:g} samples pass after row {row}; fill the sequence first.")


def samples_between(before: Sequence, after: Sequence) -> float:
    """Samples from the last row of one sequence to the first of the next; 1 unless both have times."""
    if before.time is None or after.time is None:
        return 1.0
    gap = float(after.time[0] - before.time[-1]) / after.dt
    if gap <= 0:
        raise DataError(
            f"{after.name}: begins at {after.time[0]:g} s, but {before.name} ends at {before.time[-1]:g} s; give the "
            "times of both by one clock, or leave one of them out."
        )
    return gap


def apply_drive(drive: Drive, sequence: Sequence) -> Sequence:
    """The sequence with what drives the step from every row on in place of its inputs: they, their averages, ..."""
    if not drive:
        return sequence
    filled = fill(sequence)
    inputs = drive.act(follow_drive(drive, filled)[0])[filled.rows]
    return replace(sequence, inputs=inputs, input_names=drive.names(sequence.input_names))


def follow_drive(drive: Drive, filled: Filled, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
    """The inputs of all filled rows with more columns, after those in memory; and what is remembered then."""
    return drive.follow(filled.sequence.inputs, filled.steps, memory)
