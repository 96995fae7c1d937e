"""What drives a model, row by row: inputs, exponential averages of them, delayed copies of them.

s_t = s_{t-1} + (1 - exp(-1/τ)) (u_t - s_{t-1});   before the first row all inputs are those of the first.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Memory:
    """Of past inputs: `averages` (filters, D_u), and the last ones themselves (longest delay, D_u), oldest first."""

    averages: np.ndarray
    past: np.ndarray


def driven(
    inputs: np.ndarray, filters: tuple[float, ...], delays: tuple[int, ...], memory: Memory | None
) -> tuple[np.ndarray, Memory]:
    """(T, D_u (1 + filters + delays)) from inputs (T, D_u), and what is remembered after the last row."""
    longest = max(delays, default=0)
    if memory is None:
        memory = Memory(np.repeat(inputs[:1], len(filters), axis=0), np.repeat(inputs[:1], longest, axis=0))
    averages, state = _averages(inputs, filters, memory.averages)
    known = np.concatenate([memory.past, inputs])
    delayed = [known[longest - d : longest - d + len(inputs)] for d in delays]
    return np.concatenate([inputs, averages, *delayed], axis=1), Memory(state, known[len(known) - longest :])


def _averages(inputs: np.ndarray, filters: tuple[float, ...], state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gains = -np.expm1(-1 / np.array(filters, float).reshape(-1, 1))
    passed = np.empty((len(inputs), *state.shape))
    for row, u in enumerate(inputs if len(gains) else ()):
        passed[row] = state = state + gains * (u - state)
    return passed.reshape(len(inputs), -1), state
