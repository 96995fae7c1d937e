"""Early stopping: the cycle is kept whose free runs over unseen data are best.

Caches are runs over all data, also over what a member does not train on, so an error there costs nothing more.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.types import Array, Float
from mrgpssm.model import SSM, Component
from mrgpssm.training.series import Series
from mrgpssm.training.state import Cache, Task
from mrgpssm.training.step import member_outputs


def free_run_errors(
    caches: tuple[Cache, ...], series: Series, tasks: Task, unseen: np.ndarray, alive: np.ndarray
) -> np.ndarray:
    """(members,): the mean RMSE over unseen rows of all living members that learn the same outputs and have such rows.

    Restarts see all data: they go with the folds of their output. NaN where nobody has unseen rows.
    """
    predicted = np.asarray(sum(cache.outputs for cache in caches), float)
    rows = jnp.arange(series.clock.shape[0])
    measured = np.asarray(eqx.filter_vmap(lambda task: member_outputs(series, task, rows))(tasks), float)
    squares = np.where(unseen[:, :, None], (predicted - measured) ** 2, np.nan).reshape(len(unseen), -1)
    judged = alive & ~np.isnan(squares).all(axis=1)
    own = np.sqrt(np.nansum(squares, axis=1) / np.maximum((~np.isnan(squares)).sum(axis=1), 1))
    columns = np.asarray(tasks.columns)
    judges = (columns[:, None] == columns[None]).all(axis=-1) & judged
    return np.divide(
        judges @ np.where(judged, own, 0.0), judges.sum(1), out=np.full(len(own), np.nan), where=judges.any(1)
    )


def better_of(now: SSM[Component], kept: SSM[Component], errors: np.ndarray, past: np.ndarray) -> SSM[Component]:
    """The models of now where their errors (members,) are below all `past` ones (cycles, members), or unknown."""
    better = ~(errors[None] >= past).any(axis=0)

    def choose(new: Float[Array, "f ..."], old: Float[Array, "f ..."]) -> Float[Array, "f ..."]:
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(choose, now, kept)
