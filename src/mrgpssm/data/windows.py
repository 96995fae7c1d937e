"""Dilated windows by index arithmetic (paper, Alg. 3, sampleDilSeq): nothing is materialised.

A window of t steps at resolution R takes rows i, i + R, ..., i + t R of one sequence. The input of row i + j R drives
the state to row i + (j + 1) R, where the output is compared; the state of row i is where the window starts.
"""

import jax
import jax.numpy as jnp

from mrgpssm._types import Array, Bool, Int, Key
from mrgpssm.data.series import Series


def window_counts(lengths: Int[Array, " k"], resolution: Int[Array, ""], steps: int) -> Int[Array, " k"]:
    """How many starting rows each sequence offers to windows of `steps` steps at this resolution."""
    return jnp.maximum(lengths - steps * resolution, 0)


def draw_windows(
    series: Series, resolution: Int[Array, ""], windows: int, steps: int, heads: int, *, key: Key
) -> tuple[Int[Array, "n t_plus_1"], Bool[Array, " n"]]:
    """Flat row indices of windows drawn uniformly over all places where one fits, and which are at a sequence's start.

    The first `heads` of the windows are moved to the first row of their sequence: only there is x_0 really the start.
    """
    ends = jnp.cumsum(window_counts(series.lengths, resolution, steps), dtype=jnp.int32)
    place = jax.random.randint(key, (windows,), 0, ends[-1], jnp.int32)
    sequence = jnp.searchsorted(ends, place, side="right")
    before = jnp.where(sequence > 0, ends[sequence - 1], 0)
    local = jnp.where(jnp.arange(windows) < heads, 0, place - before)
    rows = (series.offsets[sequence] + local)[:, None] + resolution * jnp.arange(steps + 1, dtype=jnp.int32)[None, :]
    return rows, local == 0
