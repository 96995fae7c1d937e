"""A gated recurrent unit that reads a mean and quantiles off its state.

    r = σ(W_r x + U_r h + b_r),   z = σ(W_z x + U_z h + b_z),   n = tanh(W_n x + b_n + r (U_n h + c))
    h' = (1 - z) n + z h

x holds the inputs, their exponential averages, and the pair (m y, m): the measured output while it is known (m = 1, a
warm-up), zeros while the network runs freely.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.types import Array, Float, Key
from mrgpssm.prediction.forecast import LEVELS

READOUT = 1 + len(LEVELS)
_MIDDLE = LEVELS.index(0.5)


class Weights(eqx.Module):
    """All that is learned; gates are packed in the order r, z, n."""

    kernel: Float[Array, "f h3"]
    recurrent: Float[Array, "h h3"]
    bias: Float[Array, " h3"]
    inner_bias: Float[Array, " h"]
    head: Float[Array, "h o"]
    head_bias: Float[Array, " o"]


def init_weights(features: int, width: int, *, key: Key) -> Weights:
    """Uniform in ±1/√H; the head starts small, so that the first predictions are near the training mean."""
    keys = jax.random.split(key, 3)
    bound = 1 / np.sqrt(width)

    def uniform(key, shape, bound):
        return jax.random.uniform(key, shape, jnp.float32, -bound, bound)

    return Weights(
        kernel=uniform(keys[0], (features, 3 * width), 1 / np.sqrt(features)),
        recurrent=uniform(keys[1], (width, 3 * width), bound),
        bias=jnp.zeros((3 * width,), jnp.float32),
        inner_bias=jnp.zeros((width,), jnp.float32),
        head=uniform(keys[2], (width, READOUT), 0.1 * bound),
        head_bias=jnp.zeros((READOUT,), jnp.float32),
    )


def cell(
    weights: Weights, units: Float[Array, " h"], h: Float[Array, "n h"], driven: Float[Array, "n h3"]
) -> Float[Array, "n h"]:
    """One step from W x + b; units whose mask is zero stay at zero, which makes a network of any smaller width."""
    width = h.shape[1]
    pushed = h @ weights.recurrent
    r, z = jnp.split(jax.nn.sigmoid(driven[:, : 2 * width] + pushed[:, : 2 * width]), 2, axis=1)
    n = jnp.tanh(driven[:, 2 * width :] + r * (pushed[:, 2 * width :] + weights.inner_bias[None]))
    return units[None] * ((1 - z) * n + z * h)


def run(
    weights: Weights, units: Float[Array, " h"], x: Float[Array, "t n f"]
) -> tuple[Float[Array, "t n"], Float[Array, "t n l"]]:
    """Means and quantiles along N sequences, from a state of zero."""
    start = jnp.zeros((x.shape[1], weights.recurrent.shape[0]), x.dtype)

    def step(h, driven):
        h = cell(weights, units, h, driven)
        return h, h

    # what does not depend on the state is one large product outside the loop
    states = jax.lax.scan(step, start, x @ weights.kernel + weights.bias[None, None])[1]
    return readout(states @ weights.head + weights.head_bias[None, None])


def readout(raw: Float[Array, "t n o"]) -> tuple[Float[Array, "t n"], Float[Array, "t n l"]]:
    """The mean, and quantiles that cannot cross: the median plus sums of positive steps outwards."""
    steps = jax.nn.softplus(raw[..., 2:] - 1.0)
    down, up = steps[..., :_MIDDLE], steps[..., _MIDDLE:]
    median = raw[..., 1:2]
    below = median - jnp.cumsum(down, axis=-1)[..., ::-1]
    return raw[..., 0], jnp.concatenate([below, median, median + jnp.cumsum(up, axis=-1)], axis=-1)


def loss(
    mean: Float[Array, "t n"], quantiles: Float[Array, "t n l"], y: Float[Array, "t n"], weight: Float[Array, "t n"]
) -> Float[Array, ""]:
    """Weighted mean of (y - mean)² + 2 pinball; the second term approximates the CRPS at the levels."""
    levels = jnp.asarray(LEVELS, y.dtype)[None, None]
    excess = quantiles - y[..., None]
    pinball = jnp.mean(jnp.maximum((1 - levels) * excess, -levels * excess), axis=-1)
    return jnp.sum(weight * ((y - mean) ** 2 + 2 * pinball)) / jnp.maximum(jnp.sum(weight), 1.0)
