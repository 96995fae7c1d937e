"""The mean model: one noiseless run with v and x_0 at their means, averaged over the ensemble.

With v = m the GP's drift is a(z)ᵀ m = k(z)ᵀ α, α = whitenerᵀ m: M products a dimension, no matrix.
"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.runtime import RuntimeModel
from mrgpssm.runtime.walk import Particles


@dataclass(frozen=True)
class MeanModel:
    """Tables with one row per component of every model; `column` names the outputs that its first states add to.

    In a cascade, `drivers` names the rows whose states follow the inputs in B, relevance and inducing inputs.
    """

    start: np.ndarray
    h: np.ndarray
    A: np.ndarray
    B: np.ndarray
    b: np.ndarray
    relevance: np.ndarray
    inducing: np.ndarray
    alpha: np.ndarray
    column: np.ndarray
    drivers: np.ndarray


def mean_model(model: RuntimeModel) -> MeanModel:
    """The tables of a model that starts from a q(x_0) of its own."""
    arrays, (n, parts) = model.arrays, model.arrays.mean.shape[:2]
    particles = Particles.at_mean(model)
    column = np.repeat(np.tile(np.array(model.groups), (model.rounds, 1)), parts, axis=0)

    def rows(values: np.ndarray) -> np.ndarray:
        return values.reshape(n * parts, *values.shape[2:])

    return MeanModel(
        start=rows(particles.states[..., 0]),
        h=np.tile(model.step_sizes, n),
        A=rows(arrays.A),
        B=rows(arrays.B),
        b=rows(arrays.b),
        relevance=rows(arrays.relevance),
        inducing=rows(arrays.inducing),
        alpha=rows(particles.walker.alpha[..., 0, :]),
        column=column,
        drivers=(parts * np.arange(n)[:, None, None] + arrays.drivers).reshape(n * parts, -1),
    )
