"""Add averages and delayed copies of the inputs to a sequence (formulas: `mrgpssm.arrays.drive`)."""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

import numpy as np

from mrgpssm.arrays.drive import Memory, follow
from mrgpssm.data.fill import Filled, fill
from mrgpssm.data.sequence import Sequence


@dataclass(frozen=True)
class Drive:
    """Time constants of the averages and lengths of the delays, both in steps of dt."""

    filters: tuple[float, ...] = ()
    delays: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.filters or self.delays)

    def __call__(self, sequence: Sequence) -> Sequence:
        """The sequence with added inputs: their averages for every time constant, then their delayed copies."""
        if not self:
            return sequence
        filled = fill(sequence)
        inputs = self.follow(filled)[0][filled.rows]
        return replace(sequence, inputs=inputs, input_names=self.names(sequence.input_names))

    def follow(self, filled: Filled, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
        """The inputs of all filled rows with the added columns, continued from `memory`; and the new memory."""
        return follow(filled.sequence.inputs, filled.steps, self.filters, self.delays, memory)

    def names(self, names: SequenceOf[str]) -> tuple[str, ...]:
        """Names of the inputs, their averages and their delayed copies."""
        averaged = (f"{name}, {tau:g} steps" for tau in self.filters for name in names)
        return (*names, *averaged, *(f"{name}, {d} steps ago" for d in self.delays for name in names))
