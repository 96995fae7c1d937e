"""Add averages and delayed copies of the inputs to a sequence (formulas: `mrgpssm.arrays.drive`)."""

from dataclasses import replace

import numpy as np

from mrgpssm.arrays.drive import Drive, Memory
from mrgpssm.data.fill import Filled, fill
from mrgpssm.data.sequence import Sequence


def apply_drive(drive: Drive, sequence: Sequence) -> Sequence:
    """The sequence with more inputs: all of them averaged over the first time constant, ..., then delayed, ..."""
    if not drive:
        return sequence
    filled = fill(sequence)
    inputs = follow_drive(drive, filled)[0][filled.rows]
    return replace(sequence, inputs=inputs, input_names=drive.names(sequence.input_names))


def follow_drive(drive: Drive, filled: Filled, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
    """The inputs of all filled rows with more columns, after those in memory; and what is remembered then."""
    return drive.follow(filled.sequence.inputs, filled.steps, memory)
