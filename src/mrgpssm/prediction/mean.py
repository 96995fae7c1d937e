"""The noiseless run of a fitted model, by the kernels that draw its samples: v and x_0 at their means."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.arrays.types import Array, Float
from mrgpssm.data import Sequence, fill
from mrgpssm.model import Component
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.rollout import Noise, departures, draw_states, fastest


def mean_run(model: FittedModel, sequence: Sequence) -> np.ndarray:
    """(T, D_y) outputs in the data's units, averaged over the ensemble."""
    filled = fill(sequence)
    inputs = model.follow(filled)[0]
    total = np.zeros((len(inputs), len(model.output_names)))
    with floating_point(model.spec.structure.precision):
        dtype = jnp.dtype(model.spec.structure.precision)
        for models in model.ensemble:
            for columns, ssm in zip(model.groups, models, strict=True):
                states = {}
                for part in ssm.walk_order():
                    steps = jnp.asarray(filled.steps / ssm.time_units[part], dtype)
                    driven = jnp.asarray(np.hstack([inputs, *(states[j] for j in ssm.slower(part))]), dtype)
                    outputs, states[part] = _component_run(ssm.components[part], driven, steps)
                    total[:, list(columns)] += np.asarray(outputs, float)
    mean = (total / len(model.ensemble))[filled.rows]
    return model.scaling.output_mean + model.scaling.output_sd * mean


@eqx.filter_jit
def _component_run(
    component: Component, inputs: Float[Array, "t u"], steps: Float[Array, " t"]
) -> tuple[Float[Array, "t y"], Float[Array, "t d"]]:
    """Outputs and states of every row."""
    (d, m), dtype, t = component.inducing_shape, component.dtype, steps.shape[0]
    start = component.initial.posterior().mean[None, None]
    silence = Noise(jnp.zeros((1, 1, d), dtype), jnp.zeros((1, 1, d, m), dtype), jnp.zeros((1, 1, t, d), dtype))
    states = draw_states(fastest(), component.dynamics(), start, inputs[None], steps[None], silence)
    current = departures(start, states)[0, 0]
    return jax.vmap(component.emission)(current), current
