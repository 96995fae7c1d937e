"""Many sequences as flat arrays, for compiled programs."""

from collections.abc import Sequence as SequenceOf

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.types import Array, Float, Int
from mrgpssm.data.fill import check_filled
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.sequence import Sequence


class Clock(eqx.Module):
    """Time of every row in raw samples since the start of its sequence, as a whole number and a fraction.

    A float32 alone is too coarse: after a million rows its resolution is 1/16 of a sample.
    """

    whole: Int[Array, " rows"]
    fraction: Float[Array, " rows"]

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,)."""
        return self.whole.shape

    @property
    def dtype(self) -> jnp.dtype:
        """The type of times between rows."""
        return self.fraction.dtype

    def between(self, before: Int[Array, "*b"], after: Int[Array, "*b"]) -> Float[Array, "*b"]:
        """Samples from one row to a later one of the same sequence; at most one per row, up to rounding."""
        whole = (self.whole[after] - self.whole[before]).astype(self.dtype)
        passed = whole + (self.fraction[after] - self.fraction[before])
        return jnp.minimum(passed, (after - before).astype(self.dtype))


class Series(eqx.Module):
    """K sequences end to end: rows offsets[k], ..., offsets[k] + lengths[k] - 1 are sequence k.

    The data are stored once for each of V scalings: a member that leaves out some sequences uses the scaling of those
    that it trains on. Rows are at most one raw sample apart; irregular sampling shows in the clock.
    """

    inputs: Float[Array, "v rows u"]
    outputs: Float[Array, "v rows y"]
    clock: Clock
    offsets: Int[Array, " k"]
    lengths: Int[Array, " k"]


def make_clock(clocks: SequenceOf[np.ndarray], dtype: jnp.dtype) -> Clock:
    """From times in raw samples, one array for every sequence, in float64."""
    times = np.concatenate(clocks)
    whole = np.floor(times)
    return Clock(jnp.asarray(whole, jnp.int32), jnp.asarray(times - whole, dtype))


def flatten(sequences: SequenceOf[Sequence], scalings: SequenceOf[Scaling], dtype: jnp.dtype) -> Series:
    """Scale the gap-free sequences by each scaling, in float64 on the host, and lay them end to end."""
    for s in sequences:
        check_filled(s)
    lengths = np.array([len(s) for s in sequences])
    inputs, outputs = (np.concatenate([getattr(s, side) for s in sequences]) for side in ("inputs", "outputs"))
    return Series(
        inputs=jnp.asarray(np.stack([scaling.inputs(inputs) for scaling in scalings]), dtype),
        outputs=jnp.asarray(np.stack([scaling.outputs(outputs) for scaling in scalings]), dtype),
        clock=make_clock([s.clock() for s in sequences], dtype),
        offsets=jnp.asarray(np.concatenate([[0], np.cumsum(lengths)[:-1]]), jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
    )
