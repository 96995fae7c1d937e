"""State is what the next step needs; info is what people read."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax

from mrgpssm.arrays.types import Array, Bool, Float, Int, Keys, Scalar
from mrgpssm.model import SSM, Component


class Task(eqx.Module):
    """What sets one member of a fleet apart, beside its parameters.

    A member learns the output columns `columns`, from the sequences where `training` is true, in units of its own:
    `scaling` says which of the series' scalings these are.
    """

    key: Keys
    columns: Int[Array, "*f y"]
    training: Bool[Array, "*f k"]
    scaling: Int[Array, "*f"]

    def turn_to(self, training: np.ndarray) -> "Task":
        """The same members, which train on these sequences, in units of the first scaling."""
        all_of_it = jnp.broadcast_to(jnp.asarray(training), self.training.shape)
        return Task(self.key, self.columns, all_of_it, jnp.zeros_like(self.scaling))


class Cache(eqx.Module):
    """One component simulated over all data at stride 1: its mean output, and mean and deviation of its state."""

    outputs: Float[Array, "*f rows y"]
    states: Float[Array, "*f rows d"]
    spreads: Float[Array, "*f rows d"]


class Health(eqx.Module):
    """Updates skipped because a gradient was not finite: in all, in a row, and the factor on the learning rate."""

    skipped: Int[Array, "*f"]
    streak: Int[Array, "*f"]
    backoff: Float[Array, "*f"]


class Learner(eqx.Module):
    """What a gradient step changes: the components that train now, as a model of their own in units of the stride."""

    ssm: SSM[Component]
    optimiser: optax.OptState
    health: Health


class FitState(eqx.Module):
    """Everything a training run needs to go on; there is one optimiser per set of components that train together."""

    ssm: SSM[Component]
    optimisers: tuple[optax.OptState, ...]
    caches: tuple[Cache, ...]
    health: Health


class FitInfo(eqx.Module):
    """One gradient step, as reported: bound, its terms, window RMSE, gradient norm, and whether it was taken."""

    bound: Scalar
    likelihood: Scalar
    kl: Scalar
    rmse: Scalar
    gradient_norm: Scalar
    taken: Bool[Array, ""]


def healthy(dtype: jnp.dtype) -> Health:
    """No step skipped yet."""
    return Health(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), jnp.ones((), dtype))
