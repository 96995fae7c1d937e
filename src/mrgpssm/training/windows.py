"""Dilated windows by index arithmetic (paper, Alg. 3, sampleDilSeq): nothing is materialised.

A window of B_0 + B steps at resolution R takes rows i, i + R, ..., i + (B_0 + B) R of one sequence. The input of row
i + j R drives the state to row i + (j + 1) R, where the output is compared; the window starts in the state of row i.

Weights make the mini-batch an unbiased estimate of the sum over all rows. With T_k the length of sequence k, the bound
at resolution R has (T_k - 1) / R points of it: every row but the first, which only starts the run, counts 1 / R. There
are two kinds of windows, n in all, and a share p of them is of the second kind, in expectation:

- *Inner* windows start at a row i >= 1 that has at least one point after the buffer: C = Σ_k (T_k - 1 - (B_0 + 1) R)
  places, all equally likely. Their first B_0 points score nothing, and neither does what lies past the end of the
  sequence. m_t = clip(⌊(t - 1) / R⌋ - B_0, 0, B) places score row t, each with weight C / (R B n (1 - p)). That is
  m_t / (R B) in expectation: 1 / R from row (B_0 + B) R + 1 on, less before, nothing up to row (B_0 + 1) R.
- *Starting* windows begin in x_0 at the first row of one of the K sequences, all equally likely. They need no buffer.
  Their first step is r = 1, ..., R rows long, at random, so that they pass every row: rows 0, r, r + R, ... Their j-th
  point, j = 1, 2, ..., has weight K / (n p) times 1 - clip(j - 1 - B_0, 0, B) / B: what inner windows leave of it.

So every row from 1 to T_k - 1 counts 1 / R in expectation, and row 0 nothing. The share is p = max(0.1, K R B /
(K R B + C)): where the second number is larger, both kinds have the same weight (K + C / (R B)) / n, and in no case is
a weight above 10/9 of that.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.types import Array, Bool, Float, Int, Key, Scalar
from mrgpssm.training.series import Series

_LEAST_SHARE = 0.1
_UNUSUAL = 3  # a gap is longer than so many usual distances of measured rows


class Drawn(NamedTuple):
    """Flat row indices of windows, which of them are at a sequence's start, and the weight of every point."""

    rows: Int[Array, "n t_plus_1"]
    at_start: Bool[Array, " n"]
    weights: Float[Array, "n t"]


def mark_known(measured: np.ndarray, rows: int) -> np.ndarray:
    """(T,): where a filter that sees the `measured` rows knows the state.

    It does not in gaps of more than so many `rows`, nor in as many rows after one, while it finds the state again. An
    integrator may by then be far from where the model has it: windows from there would teach nothing but noise.
    """
    known, at = np.ones(len(measured), bool), np.flatnonzero(measured)
    if not len(at):
        return known
    usual, edges = np.median(np.diff(at)) if len(at) > 1 else 1, np.r_[-1, at, len(measured)]
    for gap in np.flatnonzero(np.diff(edges) > max(rows, _UNUSUAL * usual)):
        known[edges[gap] + 1 : edges[gap + 1] + rows] = False
    return known


def inner_places(lengths: Int[Array, " k"], resolution: Int[Array, ""], buffer: int) -> Int[Array, " k"]:
    """The number of inner windows' starting rows in each sequence: rows 1 to T - 1 - (B_0 + 1) R."""
    return jnp.maximum(lengths - 1 - (buffer + 1) * resolution, 0)


def draw_windows(
    series: Series, resolution: Int[Array, ""], windows: int, window: int, buffer: int, *, key: Key
) -> Drawn:
    """Draw windows of `buffer` + `window` steps, as described at the head of this module.

    Indices past the end of a sequence point to its last row and have weight 0.
    """
    inner = jnp.cumsum(inner_places(series.lengths, resolution, buffer), dtype=jnp.int32)
    begun = jnp.cumsum(series.lengths > 1, dtype=jnp.int32)
    share = start_share(inner[-1], begun[-1], resolution, window, series.inputs.dtype)
    key_kind, key_inner, key_start, key_first = jax.random.split(key, 4)
    at_start = _choose_evenly(share, windows, key_kind)
    place = jax.random.randint(key_inner, (windows,), 0, inner[-1], jnp.int32)
    begin = jax.random.randint(key_start, (windows,), 0, begun[-1], jnp.int32)
    short = jax.random.randint(key_first, (windows,), 1, resolution + 1, jnp.int32)
    sequence = jnp.where(at_start, jnp.searchsorted(begun, begin, side="right"), _holder(inner, place))
    before = jnp.where(sequence > 0, inner[sequence - 1], 0)
    first = jnp.where(at_start, short - resolution, 1 + place - before)
    local = first[:, None] + resolution * jnp.arange(buffer + window + 1, dtype=jnp.int32)[None, :]
    last = (series.lengths[sequence] - 1)[:, None]
    rows = series.offsets[sequence][:, None] + jnp.clip(local, 0, last)
    weights = _point_weights(at_start, share, inner[-1], begun[-1], resolution, window, buffer)
    return Drawn(rows, at_start, jnp.where(local[:, 1:] <= last, weights, 0.0))


def start_share(
    places: Int[Array, ""], sequences: Int[Array, ""], resolution: Int[Array, ""], window: int, dtype: jnp.dtype
) -> Scalar:
    """p, the share of windows at the start of a sequence."""
    starts = (sequences * resolution * window).astype(dtype)
    return jnp.maximum(starts / (starts + places.astype(dtype)), _LEAST_SHARE)


def _choose_evenly(share: Scalar, windows: int, key: Key) -> Bool[Array, " n"]:
    """Choose a share of the windows at random; their number is never more than one off."""
    passed = jnp.floor(share * jnp.arange(windows + 1, dtype=share.dtype) + jax.random.uniform(key, (), share.dtype))
    return passed[1:] > passed[:-1]


def _holder(ends: Int[Array, " k"], place: Int[Array, " n"]) -> Int[Array, " n"]:
    """The sequence that each place lies in."""
    return jnp.minimum(jnp.searchsorted(ends, place, side="right"), ends.shape[0] - 1)


def _point_weights(
    at_start: Bool[Array, " n"],
    share: Scalar,
    places: Int[Array, ""],
    sequences: Int[Array, ""],
    resolution: Int[Array, ""],
    window: int,
    buffer: int,
) -> Float[Array, "n t"]:
    """The weight of every point that lies inside its sequence."""
    n, dtype = at_start.shape[0], share.dtype
    scored = jnp.clip(jnp.arange(buffer + window) - buffer, 0, window)  # points of inner windows before this one
    starting = sequences.astype(dtype) / (n * share) * (1 - scored.astype(dtype) / window)
    rest = jnp.maximum(1 - share, jnp.finfo(dtype).tiny)  # nothing is left to inner windows where they have no place
    inner = places.astype(dtype) / (resolution.astype(dtype) * window * n * rest)
    follows = jnp.arange(buffer + window) >= buffer
    return jnp.where(at_start[:, None], starting[None], jnp.where(follows, inner, 0.0)[None])
