"""The mean model as a StableHLO program, portable over devices and versions by JAX's own guarantees (`jax.export`)."""

from dataclasses import asdict

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from mrgpssm.arrays.precision import floating_point
from mrgpssm.errors import ConfigError
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.rollout import MeanDynamics, mean_states

_PLATFORMS = ("cpu", "cuda", "tpu")


def stablehlo(model: FittedModel) -> bytes:
    """The serialised program (inputs (T, D_u), states (C, D)) -> (outputs (T, D_y), states (C, D)), any T >= 1.

    Rows are one sample apart; over a gap, give the held input once a sample. Inputs and outputs are in the data's
    units; row i of the outputs is that before input i acts. `states` of the first call are those that `first_states`
    gives; a later call goes on with what the one before returned.
    """
    if model.structure.drive:
        raise ConfigError(
            "A StableHLO file holds neither averages nor delayed copies of inputs nor feed-through; use --format c, or "
            f"fit without {' and '.join(name for name, value in asdict(model.structure.drive).items() if value)}."
        )
    dtype = jnp.dtype(model.structure.precision)
    with floating_point(model.structure.precision):
        (rows,) = export.symbolic_shape("T")
        inputs = jax.ShapeDtypeStruct((rows, len(model.input_names)), dtype)
        states = jax.ShapeDtypeStruct(first_states(model).shape, dtype)
        program = export.export(jax.jit(_program(model, dtype)), platforms=_PLATFORMS)(inputs, states)
        try:
            return bytes(program.serialize())
        except ImportError:
            raise ConfigError("A StableHLO file needs flatbuffers; install mrgpssm[export].") from None


def first_states(model: FittedModel) -> np.ndarray:
    """Where the mean model starts, (C, D)."""
    return np.array([c.initial.mean for models in model.ensemble for ssm in models for c in ssm.components])


def _program(model: FittedModel, dtype: jnp.dtype):
    scaling = model.scaling
    statistics = (scaling.input_mean, scaling.input_sd, scaling.output_mean, scaling.output_sd / len(model.ensemble))
    input_mean, input_sd, output_mean, output_sd = (jnp.asarray(values, dtype)[None, :] for values in statistics)
    walked = [(columns, ssm) for models in model.ensemble for columns, ssm in zip(model.groups, models, strict=True)]
    dynamics = [tuple(map(MeanDynamics, ssm.dynamics())) for _, ssm in walked]

    def simulate(inputs, states):
        scaled, gaps = (inputs - input_mean) / input_sd, jnp.ones(inputs.shape[:1], dtype)
        outputs, rest, ends = jnp.zeros((inputs.shape[0], output_mean.shape[1]), dtype), list(states), []
        for (columns, ssm), parts in zip(walked, dynamics, strict=True):
            starts = tuple(rest.pop(0) for _ in parts)
            end, paths = mean_states(ssm, parts, starts, scaled, gaps)
            outputs = outputs.at[:, np.array(columns)].add(jax.vmap(ssm.emit)(paths))
            ends.extend(end)
        return output_mean + output_sd * outputs, jnp.stack(ends)

    return simulate
