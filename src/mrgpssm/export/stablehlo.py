"""The mean model as a StableHLO program, portable over devices and versions by JAX's own guarantees (`jax.export`)."""

import jax
import jax.numpy as jnp
from jax import export

from mrgpssm.arrays.precision import floating_point
from mrgpssm.errors import ConfigError
from mrgpssm.runtime import RuntimeModel
from mrgpssm.runtime.mean import mean_model

_PLATFORMS = ("cpu", "cuda", "tpu")


def stablehlo(model: RuntimeModel) -> bytes:
    """The serialised program (inputs (T, D_u), states (C, D)) -> (outputs (T, D_y), states (C, D)), any T >= 1.

    Rows are one sample apart; over a gap, give the held input once a sample. Inputs and outputs are in the data's
    units; row i of the outputs is that before input i acts. `states` of the first call are those that `first_states`
    gives; a later call goes on with what the one before returned.
    """
    if model.filters or model.delays:
        raise ConfigError(
            "A StableHLO file holds neither averages nor delays of inputs; use --format c, or fit without filters and "
            "delays."
        )
    dtype = jnp.dtype(model.precision)
    with floating_point(model.precision):
        (rows,) = export.symbolic_shape("T")
        inputs = jax.ShapeDtypeStruct((rows, len(model.input_names)), dtype)
        states = jax.ShapeDtypeStruct(mean_model(model).start.shape, dtype)
        program = export.export(jax.jit(_program(model, dtype)), platforms=_PLATFORMS)(inputs, states)
        try:
            return bytes(program.serialize())
        except ImportError:
            raise ConfigError("A StableHLO file needs flatbuffers; install mrgpssm[export].") from None


def first_states(model: RuntimeModel):
    """Where the mean model starts, (C, D)."""
    return mean_model(model).start.astype(model.precision)


def _program(model: RuntimeModel, dtype: jnp.dtype):
    mean = mean_model(model)

    def cast(values):
        return jnp.asarray(values, dtype)

    A, B, b, h = cast(mean.A), cast(mean.B), cast(mean.b), cast(mean.h)[:, None]
    Z, relevance, alpha = cast(mean.inducing), cast(mean.relevance)[:, None, None, :], cast(mean.alpha)
    input_mean, input_sd = cast(model.input_mean)[None, :], cast(model.input_sd)[None, :]
    output_mean, output_sd = cast(model.output_mean), cast(model.output_sd) / model.rounds
    drivers = jnp.asarray(mean.drivers)
    width, latent = mean.column.shape[1], A.shape[-1]

    def step(x, u):
        sums = jnp.zeros_like(output_mean).at[mean.column].add(x[:, :width])
        seen = jnp.concatenate([jnp.broadcast_to(u[None, :], (len(x), len(u))), x[drivers].reshape(len(x), -1)], axis=1)
        z = jnp.concatenate([x, seen], axis=1)
        apart = jnp.sum(relevance * (Z - z[:, None, None, :]) ** 2, axis=-1)
        drift = jnp.einsum("cij,cj->ci", A, x) + jnp.einsum("cij,cj->ci", B, seen) + b
        drift = drift + jnp.sum(alpha * jnp.exp(-0.5 * apart), axis=-1)
        return x + jnp.broadcast_to(h, (x.shape[0], latent)) * drift, output_mean + output_sd * sums

    def simulate(inputs, states):
        states, outputs = jax.lax.scan(step, states, (inputs - input_mean) / input_sd)
        return outputs, states

    return simulate
