"""Filtered inputs: exponential averages of every input beside the input itself.

With time constant τ and a step of Δ between rows, both in units of dt,

    s_t = s_{t-1} + (1 - exp(-Δ_t / τ)) (u_t - s_{t-1}),   s_0 = u_0.

A dilated window at resolution R sees every R-th input only; the averages tell it what happened in between, and tell a
fast component what the slow past was.
"""

from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf

import numpy as np
from scipy.signal import lfilter

from mrgpssm.data.sequence import Sequence


def with_filters(sequence: Sequence, filters: SequenceOf[float]) -> Sequence:
    """The sequence with the averages as further inputs: all inputs at the first time constant, then the second, ..."""
    if not filters:
        return sequence
    columns = [sequence.inputs, *(_average(sequence, tau) for tau in filters)]
    s, names = sequence, filter_names(sequence.input_names, filters)
    return Sequence(np.hstack(columns), s.outputs, s.dt, s.time, names, s.output_names, s.units, s.name)


def filter_names(names: SequenceOf[str], filters: SequenceOf[float]) -> tuple[str, ...]:
    """What the inputs and their averages are called."""
    return (*names, *(f"{name}, {tau:g} steps" for tau in filters for name in names))


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
