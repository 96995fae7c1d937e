"""How far a noiseless free run of a fitted model can go (`mrgpssm.model.stability`)."""

import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.model import SSM, Component, noiseless_radius
from mrgpssm.prediction.fitted import FittedModel


def find_radii(model: FittedModel) -> np.ndarray:
    """(groups, components): the largest norm of a state in a noiseless run with inputs in the ranges of training.

    It is infinite with the paper's mean, and where the ranges are not known.
    """
    norm = _drive_norm(model)
    with floating_point(model.structure.precision):
        radii = [[_radii(ssm, norm) for ssm in models] for models in model.ensemble]
    return np.max(np.array(radii, float), axis=0)


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
