"""What a fitted model learned, as NumPy arrays to print and draw; `mrgpssm.prediction.drift` computes them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LearnedComponent:
    """What one component of one model learned, in scaled units: z = [x, u].

    `lengthscales` is (D + D_u,), `gain` the linear input matrix B (D, D_u). Beside the inputs, D_u counts
    `Learned.states`; a component does not see those with an infinite lengthscale.
    """

    lengthscales: np.ndarray
    gain: np.ndarray


@dataclass(frozen=True)
class DriftMap:
    """dx/dt of a component's contribution to an output, over that contribution and the input that matters most.

    Everything is in the data's units; all other coordinates stay at their medians. `inducing` and `visited` are (n, 2).
    """

    output: int
    resolution: int
    input: int
    level: np.ndarray
    drive: np.ndarray
    drift: np.ndarray
    inducing: np.ndarray
    visited: np.ndarray


@dataclass(frozen=True)
class Learned:
    """The fitted model as numbers: components of every model, drift maps, bounds (models, restarts).

    `states` names the states that drive faster components; `mixed` is how many restarts of every model
    are kept, those with the best bounds, as a mixture.
    """

    groups: tuple[tuple[int, ...], ...]
    components: tuple[tuple[LearnedComponent, ...], ...]
    drifts: tuple[DriftMap, ...]
    bounds: np.ndarray
    states: tuple[str, ...] = ()
    mixed: int = 1
