"""Many sequences as flat arrays: what a compiled program sees of the data."""

from collections.abc import Sequence as SequenceOf

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mrgpssm._types import Array, Float, Int
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.sequence import Sequence


class Series(eqx.Module):
    """K sequences end to end, scaled: rows offsets[k], ..., offsets[k] + lengths[k] - 1 are sequence k.

    `clock` counts time in raw samples from the start of each sequence; irregular sampling is uneven clock ticks.
    """

    inputs: Float[Array, "rows u"]
    outputs: Float[Array, "rows y"]
    clock: Float[Array, " rows"]
    offsets: Int[Array, " k"]
    lengths: Int[Array, " k"]


def flatten(sequences: SequenceOf[Sequence], scaling: Scaling, dtype: jnp.dtype) -> Series:
    """Scale in float64 on the host, then lay the sequences end to end."""
    lengths = np.array([len(s) for s in sequences])
    return Series(
        inputs=jnp.asarray(np.concatenate([scaling.inputs(s.inputs) for s in sequences]), dtype),
        outputs=jnp.asarray(np.concatenate([scaling.outputs(s.outputs) for s in sequences]), dtype),
        clock=jnp.asarray(np.concatenate([s.clock() for s in sequences]), dtype),
        offsets=jnp.asarray(np.concatenate([[0], np.cumsum(lengths)[:-1]]), jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
    )
