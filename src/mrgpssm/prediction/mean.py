"""The noiseless run of a fitted model, v and x_0 at their means, and how far it can go (`mrgpssm.model.stability`)."""

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.compile import quick_jit
from mrgpssm.arrays.precision import floating_point
from mrgpssm.arrays.types import Array, Float
from mrgpssm.data import Sequence, fill
from mrgpssm.model import SSM, Component, noiseless_growth, noiseless_radius
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.rollout import MeanDynamics, mean_states


def mean_run(model: FittedModel, sequence: Sequence) -> np.ndarray:
    """(T, D_y) outputs in the data's units, averaged over the ensemble."""
    filled = fill(sequence)
    inputs = model.structure.drive.act(model.follow(filled)[0])
    total = np.zeros((len(inputs), len(model.output_names)))
    with floating_point(model.structure.precision):
        for models in model.ensemble:
            for columns, ssm in zip(model.groups, models, strict=True):
                starts = [component.initial.mean for component in ssm.components]
                for component, path in zip(ssm.components, mean_paths(ssm, starts, inputs, filled.steps), strict=True):
                    total[:, list(columns)] += np.asarray(jax.vmap(component.emission)(jnp.asarray(path)), float)
    mean = (total / len(model.ensemble))[filled.rows]
    return model.scaling.output_mean + model.scaling.output_sd * mean


def mean_paths(ssm: SSM[Component], starts: list, inputs: np.ndarray, gaps: np.ndarray) -> list[np.ndarray]:
    """(T, D) states of every component, from scaled inputs (T, D_u) that act for gaps (T,) raw samples each."""
    dtype = ssm.components[0].dtype
    first = tuple(jnp.asarray(start, dtype) for start in starts)
    return list(map(np.asarray, _paths(ssm, first, jnp.asarray(inputs, dtype), jnp.asarray(gaps, dtype))))


def mean_drift(component: Component, points: np.ndarray) -> np.ndarray:
    """(n, D) drift A x + B u + b + a(z)ᵀ m at points z = [x, u]."""
    return np.asarray(_drifts(component, jnp.asarray(points, component.dtype)), float)


@quick_jit
def _paths(ssm: SSM[Component], starts, inputs: Float[Array, "t u"], gaps: Float[Array, " t"]):
    return mean_states(ssm, tuple(map(MeanDynamics, ssm.dynamics())), starts, inputs, gaps)[1]


@quick_jit
def _drifts(component: Component, points: Float[Array, "n z"]) -> Float[Array, "n d"]:
    dynamics, d = MeanDynamics(component.dynamics()), component.inducing_shape[0]
    return jax.vmap(dynamics.drift)(points[:, :d], points[:, d:])


def find_radii(model: FittedModel) -> np.ndarray:
    """(groups, components): the largest norm of a state in a noiseless run with inputs in the ranges of training.

    It is infinite with the paper's mean, with integrators, and where the ranges are not known.
    """
    norm = _drive_norm(model)
    with floating_point(model.structure.precision):
        radii = [[_radii(ssm, norm) for ssm in models] for models in model.ensemble]
    return np.max(np.array(radii, float), axis=0)


def find_growths(model: FittedModel) -> np.ndarray:
    """(groups, components): how far integrators move at most in a row of a noiseless run; 0 where there are none.

    Inputs are in the ranges of training; it is infinite where these are not known, and for a component that integrators
    drive in a cascade.
    """
    norm, parts = _drive_norm(model), range(len(model.structure.resolutions))
    with floating_point(model.structure.precision):
        growths = [[[_growth(model, ssm, part, norm) for part in parts] for ssm in some] for some in model.ensemble]
    return np.max(np.array(growths, float), axis=0)


def _growth(model: FittedModel, ssm: SSM[Component], part: int, norm: float) -> float:
    if any(model.structure.integrating(slower) for slower in ssm.slower(part)):
        return np.inf
    k, component, dynamics = model.structure.integrating(part), ssm.components[part], ssm.components[part].dynamics()
    start = jnp.linalg.norm(component.initial.mean[k:])
    most = noiseless_growth(dynamics, k, dynamics.gp.mean, jnp.asarray(norm, component.dtype), start)
    return float(most) / ssm.time_units[part]


def _radii(ssm: SSM[Component], drive_norm: float) -> list[float]:
    """Of every component; in a cascade the states of slower ones are inputs of the faster ones."""
    radii = [np.inf] * len(ssm.components)
    for part in ssm.walk_order():
        component, dynamics = ssm.components[part], ssm.components[part].dynamics()
        norm = float(np.sqrt(drive_norm**2 + sum(radii[j] ** 2 for j in ssm.slower(part))))
        if np.isfinite(norm):
            start = jnp.linalg.norm(component.initial.mean)
            radius = noiseless_radius(dynamics, dynamics.gp.mean, jnp.asarray(norm, component.dtype), start)
            radii[part] = float(radius)
    return radii


def _drive_norm(model: FittedModel) -> float:
    """The largest norm of what drives the model, scaled; averages and delayed copies stay in their input's range."""
    if model.seen is None:
        return np.inf
    scaling, copies = model.scaling, len(model.drive_names) // len(model.input_names)
    ranges = np.tile(model.seen.ranges, (copies, 1)).T
    furthest = np.abs((ranges - scaling.input_mean) / scaling.input_sd).max(axis=0)
    return float(np.linalg.norm(furthest))
