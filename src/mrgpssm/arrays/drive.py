"""What drives a model: the inputs, exponential averages of them, delayed copies of them, and feed-through.

Rows are at most one sample apart. With time constant τ and a step of Δ samples to row t, an average is

    s_t = s_{t-1} + (1 - exp(-Δ_t / τ)) (u_t - s_{t-1}),   s_0 = u_0,

and a copy delayed by d samples is the last input at or before t - d, the first input before that. A dilated window at
resolution R sees every R-th input only; the averages tell it what happened in between, and tell a fast component what
the slow past was. A dead time, which a state of few dimensions can hardly hold, is a delayed copy.

An input acts on the outputs of later rows: the step from row t to the next one is driven by what is known at t. With
feed-through it acts on the output of its own row, too: the step is driven by what is known at the next row, which
includes the input of one sample before.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np

_BLOCK = 128  # rows
_ROUNDING = 1e-6  # of a sample: a clock that was read from seconds is a whole number up to rounding


@dataclass(frozen=True)
class Memory:
    """Of past inputs, for the row that comes next.

    Attributes:
        averages: The averages at the last row, (filters, D_u).
        past: The inputs that a delay may still ask for, oldest first, (K, D_u).
        ages: How many samples each of them lies before the next row, (K,).
        step: Samples from the last row to the next.
    """

    averages: np.ndarray
    past: np.ndarray
    ages: np.ndarray
    step: float


@dataclass(frozen=True)
class Drive:
    """Time constants of averages, lengths of delays, both in steps of dt, and feed-through; false without any."""

    filters: tuple[float, ...] = ()
    delays: tuple[int, ...] = ()
    feedthrough: bool = False

    def __bool__(self) -> bool:
        return self.remembers or self.feedthrough

    @property
    def remembers(self) -> bool:
        """Whether there are averages or delayed copies."""
        return bool(self.filters or self.delays)

    @property
    def waits(self) -> bool:
        """Whether a step can be taken only when the next input is known."""
        return self.feedthrough

    @property
    def spans(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """The time constants of the averages, and the lengths of all delays."""
        return self.filters, self.lags

    @property
    def lags(self) -> tuple[int, ...]:
        """The delays, and that of the sample before where there is feed-through."""
        return (*self.delays, 1) if self.feedthrough and 1 not in self.delays else self.delays

    def width(self, inputs: int) -> int:
        """How many columns so many inputs become."""
        return inputs * (1 + len(self.filters) + len(self.lags))

    def names(self, names: SequenceOf[str]) -> tuple[str, ...]:
        """What the inputs, their averages and their delayed copies are called."""
        averaged = (f"{name}, {tau:g} steps" for tau in self.filters for name in names)
        return (*names, *averaged, *(f"{name}, {d} steps ago" for d in self.lags for name in names))

    def follow(self, inputs: np.ndarray, steps: np.ndarray, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
        """(T, D_u (1 + filters + lags)): what is known at every row of inputs (T, D_u), and remembered after the last.

        `steps` (T,) are the samples from each row to the next.
        """
        if memory is None:
            memory = Memory(np.repeat(inputs[:1], len(self.filters), axis=0), inputs[:0], steps[:0], 1.0)
        averages = _averages(inputs, np.append(memory.step, steps[:-1]), self.filters, memory.averages)
        clock = np.append(0.0, np.cumsum(steps))
        known, times = np.concatenate([memory.past, inputs]), np.append(-memory.ages, clock[:-1])
        delayed = [known[_latest(times, clock[:-1] - d)] for d in self.lags]
        oldest = _latest(times, clock[-1:] - max(self.lags, default=0))[0] if self.lags else len(known)
        flat = averages.reshape(len(inputs), -1)
        after = Memory(averages[-1], known[oldest:], clock[-1] - times[oldest:], float(steps[-1]))
        return np.concatenate([inputs, flat, *delayed], axis=1), after

    def act(self, known: np.ndarray, ahead: np.ndarray | None = None) -> np.ndarray:
        """What drives the step from every row to the next, (T, D), from what is `known` at the rows.

        With feed-through that is what is known at the next row: `ahead` (1, D) after the last, or nothing new.
        """
        return np.concatenate([known[1:], known[-1:] if ahead is None else ahead]) if self.feedthrough else known


def _latest(times: np.ndarray, when: np.ndarray) -> np.ndarray:
    """The last of the rows at `times` that is not after each moment; the first one where all are."""
    return np.maximum(np.searchsorted(times, when + _ROUNDING, side="right") - 1, 0)


def _averages(inputs: np.ndarray, gaps: np.ndarray, filters: tuple[float, ...], start: np.ndarray) -> np.ndarray:
    """(T, filters, D_u); `gaps` lie before each row, and `start` (filters, D_u) before the first gap.

    Blocks of rows are averaged side by side as if they began at zero; then what was before each block fades in.
    """
    rows, width = inputs.shape
    size = min(rows, _BLOCK)
    blocks = -(-rows // size)
    pad = blocks * size - rows
    gain = -np.expm1(-np.pad(gaps, (0, pad))[:, None] / np.array(filters, float))
    gain = gain.reshape(blocks, size, len(filters), 1)
    u, keep = np.pad(inputs, ((0, pad), (0, 0))).reshape(blocks, size, 1, width), 1 - gain
    alone = gain * u
    for row in range(1, size):
        alone[:, row] += keep[:, row] * alone[:, row - 1]
    fade, before = np.cumprod(keep, axis=1), np.empty((blocks, *start.shape))
    for block in range(blocks):
        before[block] = start
        start = alone[block, -1] + fade[block, -1] * start
    return (alone + fade * before[:, None]).reshape(blocks * size, len(filters), width)[:rows]
