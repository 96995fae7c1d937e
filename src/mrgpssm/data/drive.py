"""What drives a model: the inputs, exponential averages of them, and delayed copies of them.

With time constant τ and a step of Δ between rows, both in units of dt, an average is

    s_t = s_{t-1} + (1 - exp(-Δ_t / τ)) (u_t - s_{t-1}),   s_0 = u_0,

and a copy delayed by d is the last input at or before t - d, the first input before that. A dilated window at
resolution R sees every R-th input only; the averages tell it what happened in between, and tell a fast component what
the slow past was. A dead time, which a state of few dimensions can hardly hold, is a delayed copy.
"""

from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from mrgpssm.data.sequence import Sequence


@dataclass(frozen=True)
class Drive:
    """Time constants of averages and lengths of delays, both in steps of dt."""

    filters: tuple[float, ...] = ()
    delays: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.filters or self.delays)

    def __call__(self, sequence: Sequence) -> Sequence:
        """The sequence with more inputs: all of them averaged over the first time constant, ..., then delayed, ..."""
        if not self:
            return sequence
        averages = (_average(sequence, tau) for tau in self.filters)
        columns = [sequence.inputs, *averages, *(_delayed(sequence, d) for d in self.delays)]
        s, names = sequence, self.names(sequence.input_names)
        return Sequence(np.hstack(columns), s.outputs, s.dt, s.time, names, s.output_names, s.units, s.name)

    def names(self, names: SequenceOf[str]) -> tuple[str, ...]:
        """What the inputs, their averages and their delayed copies are called."""
        averaged = (f"{name}, {tau:g} steps" for tau in self.filters for name in names)
        return (*names, *averaged, *(f"{name}, {d} steps ago" for d in self.delays for name in names))


def joined(before: Sequence, after: Sequence) -> Sequence:
    """Two sequences as one, the second one step after the first: averages go on where they stood."""
    time = None
    if before.time is not None or after.time is not None:
        first, second = (s.dt * s.clock() for s in (before, after))
        time = np.concatenate([first, first[-1] + after.dt + second])
    inputs, outputs = (np.concatenate([getattr(s, k) for s in (before, after)]) for k in ("inputs", "outputs"))
    return Sequence(inputs, outputs, after.dt, time, after.input_names, after.output_names, after.units, after.name)


def _average(sequence: Sequence, tau: float) -> np.ndarray:
    u, clock = sequence.inputs, sequence.clock()
    if sequence.time is None:
        gain = -np.expm1(-1 / tau)
        return lfilter([gain], [1.0, gain - 1.0], u, axis=0, zi=(1 - gain) * u[:1])[0]
    return np.array(list(_uneven(u, -np.expm1(-np.diff(clock, prepend=clock[0]) / tau))))


def _uneven(u: np.ndarray, gains: np.ndarray) -> Iterator[np.ndarray]:
    state = u[0]
    for row, gain in zip(u, gains, strict=True):
        state = state + gain * (row - state)
        yield state


def _delayed(sequence: Sequence, delay: int) -> np.ndarray:
    clock = sequence.clock()
    # A clock that was read from times in seconds is a whole number of steps up to rounding.
    last = np.searchsorted(clock, clock - delay + 1e-6, side="right") - 1
    return sequence.inputs[np.maximum(last, 0)]
