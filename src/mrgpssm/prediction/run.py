"""Free run: a fitted model simulated for as long as inputs are given, in chunks of constant memory.

Full Monte Carlo over all components: every sample draws its own v and x_0 per component once and keeps them. In a
cascade, every sample of a component is driven by the same sample of the slower ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.compile import quick_jit
from mrgpssm.arrays.types import Array, Float, Key, Keys
from mrgpssm.model import SSM, Component
from mrgpssm.rollout import Particles, advance, draw_particles, emit, filter_states, round_rows, sampled_steps

_START, _PROCESS, _WARMUP = 0, 1, 2


@dataclass(frozen=True)
class Draws:
    """A chunk of free runs: rows of the series, and every component's output samples without observation noise.

    Samples are of shape (G, K, S, C, D_y): G models on K sequences, S samples, C rows.
    """

    rows: np.ndarray
    parts: tuple[np.ndarray, ...]


@quick_jit
def start_particles(ssm: SSM[Component], samples: int, anywhere: bool = False, *, key: Key) -> tuple[Particles, ...]:
    """x_0 ~ q(x_0), or p(x_0) if it is `anywhere`, and v ~ q(v) of every component and sample."""
    keys = (jax.random.fold_in(jax.random.fold_in(key, _START), i) for i in range(len(ssm.components)))
    return tuple(draw_particles(c, (samples,), k, anywhere) for c, k in zip(ssm.components, keys, strict=True))


def _advance(component: Component, here: Particles, inputs, steps, first, every: int, slower, key: Key):
    """Walk one chunk of k sequences; outputs are those of its first row and every `every`-th one after it."""
    here, states = advance(component, here, inputs, steps, first, key, slower, alike=True)
    return here, emit(component, states[:, :, ::every]), states


_advance_all = quick_jit(eqx.filter_vmap(_advance, in_axes=(eqx.if_array(0), 0, None, None, None, None, 0, 0)))


def free_run(
    ssm: SSM[Component],
    particles: tuple[Particles, ...],
    inputs: list[np.ndarray],
    clocks: list[np.ndarray],
    *,
    stride: int,
    chunk: int,
    keys: Keys,
) -> Iterator[Draws]:
    """Output samples of rows 0, stride, 2 stride, ... of all sequences by all models, at most `chunk` at a time.

    `ssm` and `keys` have a leading axis of models, `particles` of models and sequences. A component takes steps of at
    most its own time unit: where the stride is longer, it takes several between outputs. A faster component of a
    cascade then takes more of them than one that drives it, whose state is held until its next step. Sequences that
    have ended run on idly. Rows are at most one sample apart by their `clocks`: gaps are filled before.
    """
    rows = np.arange(0, max(map(len, inputs)), stride)
    substeps = [int(np.ceil(stride / unit)) for unit in ssm.time_units]
    count = round_rows(len(rows), chunk)
    root = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, _PROCESS)
    for first in range(0, len(rows), count):
        chosen = rows[first : first + count]
        padded = np.concatenate([chosen, chosen[-1] + stride * np.arange(1, count - len(chosen) + 1)])
        moved, parts, walked = {}, {}, {}
        for index in ssm.walk_order():
            component, unit, every = ssm.components[index], ssm.time_units[index], substeps[index]
            slower = tuple(_held(walked[j], substeps[j], every, stride) for j in ssm.slower(index))
            fine = [_fine(u, clock, padded, stride, unit, every) for u, clock in zip(inputs, clocks, strict=True)]
            arrays = (jnp.asarray(np.stack(values), component.dtype) for values in zip(*fine, strict=True))
            start = jnp.asarray(first * every, jnp.int32)
            own = jax.vmap(jax.random.fold_in, in_axes=(0, None))(root, index)
            moved[index], outputs, walked[index] = _advance_all(
                component, particles[index], *arrays, start, every, slower, own
            )
            parts[index] = np.asarray(outputs)[:, :, :, : len(chosen)]
        particles = tuple(moved[index] for index in range(len(moved)))
        yield Draws(chosen, tuple(parts[index] for index in range(len(parts))))


def _held(states: Float[Array, "g k s slow d"], slow: int, fast: int, stride: int) -> Float[Array, "g k s fast d"]:
    """States of `slow` sub-steps a stride at each of `fast` ones: of the latest that is not after it."""
    if slow == fast:
        return states
    latest = np.searchsorted(_within(stride, slow), _within(stride, fast), side="right") - 1
    g, k, s, rows, d = states.shape
    return states.reshape(g, k, s, rows // slow, slow, d)[:, :, :, :, latest].reshape(g, k, s, -1, d)


def _within(stride: int, every: int) -> np.ndarray:
    """Where the `every` sub-steps of a stride begin, in rows."""
    return (np.arange(every) * stride) // every


def _fine(
    inputs: np.ndarray, clock: np.ndarray, rows: np.ndarray, stride: int, unit: float, every: int
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and step sizes between output rows, with `every` sub-steps where the stride exceeds the time unit."""
    fine = (rows[:, None] + _within(stride, every)[None, :]).ravel()
    ends = np.append(fine[1:], rows[-1] + stride)
    last = len(clock) - 1
    known, following = np.minimum(fine, last), np.minimum(ends, last)
    gaps = clock[following] - clock[known]
    overrun = (ends - following) - (fine - known)  # rows past the end of the data count one raw sample each
    steps = (gaps + overrun) / unit
    if steps.max() > 1 + 1e-6:
        raise ValueError(f"A step of {steps.max():g} time units was asked for; fill the gaps of the sequence first.")
    return inputs[known], np.clip(steps, 1e-6 / unit, 1.0)


@quick_jit
def assimilate(
    ssm: SSM[Component],
    particles: tuple[Particles, ...],
    inputs: Float[Array, "t u"],
    outputs: Float[Array, "t y"],
    gaps: Float[Array, " t"],
    *,
    key: Key,
) -> tuple[Particles, ...]:
    """Warm-up: measured outputs move the states of all components (`rollout.filtering`).

    `gaps` are the samples from each row to the next; the result stands at the end of the last. Rows of no outputs and
    no gap before all others change nothing: noise is keyed by the number of rows that are still to come.
    """
    still = jnp.arange(inputs.shape[0], dtype=jnp.int32)[::-1]
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.fold_in(key, _WARMUP), still)
    states, _ = filter_states(
        ssm, sampled_steps(ssm, particles), tuple(p.states for p in particles), inputs, outputs, gaps, keys
    )
    return tuple(Particles(x, p.inducing) for x, p in zip(states, particles, strict=True))
