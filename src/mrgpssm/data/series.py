"""Many sequences as flat arrays: what a compiled program sees of the data."""

from collections.abc import Sequence as SequenceOf

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mrgpssm._types import Array, Float, Int
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.sequence import Sequence


class Series(eqx.Module):
    """K sequences end to end: rows offsets[k], ..., offsets[k] + lengths[k] - 1 are sequence k.

    The data are there once for each of V scalings: a member that leaves out some sequences sees all of them in units
    of those that it trains on.
    `clock` counts time in raw samples from the start of each sequence; irregular sampling is uneven clock ticks.
    """

    inputs: Float[Array, "v rows u"]
    outputs: Float[Array, "v rows y"]
    clock: Float[Array, " rows"]
    offsets: Int[Array, " k"]
    lengths: Int[Array, " k"]


def flatten(sequences: SequenceOf[Sequence], scalings: SequenceOf[Scaling], dtype: jnp.dtype) -> Series:
    """Lay the sequences end to end and scale them, in float64 on the host, by each of the scalings."""
    lengths = np.array([len(s) for s in sequences])
    inputs, outputs = (np.concatenate([getattr(s, side) for s in sequences]) for side in ("inputs", "outputs"))
    return Series(
        inputs=jnp.asarray(np.stack([scaling.inputs(inputs) for scaling in scalings]), dtype),
        outputs=jnp.asarray(np.stack([scaling.outputs(outputs) for scaling in scalings]), dtype),
        clock=jnp.asarray(np.concatenate([s.clock() for s in sequences]), dtype),
        offsets=jnp.asarray(np.concatenate([[0], np.cumsum(lengths)[:-1]]), jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
    )
