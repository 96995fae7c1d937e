"""Where a warm-up starts from: p(x_0), as broad as the states of the training data.

q(x_0) is where recordings begin, and often narrow. A warm-up may begin anywhere, and a filter that starts sure of a
wrong state takes long to find the right one.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.compile import quick_jit
from mrgpssm.arrays.params import lower_triangular_inverse
from mrgpssm.arrays.precision import floating_point
from mrgpssm.arrays.types import Array, Float
from mrgpssm.data import Sequence, fill
from mrgpssm.model import SSM, Component
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.rollout import MeanDynamics, mean_states

_ROWS, _RECORDINGS = 5_000, 4  # of training that are walked over, from the first row on
_JITTER = 1e-6


def spread_starts(model: FittedModel, training: list[Sequence]) -> tuple[tuple[SSM[Component], ...], ...]:
    """The ensemble with p(x_0) = N(m, C + S_0): the moments of states in noiseless runs over training, and q(x_0)'s.

    A model whose run is not finite keeps the p(x_0) that it has.
    """
    filled = [fill(s) for s in sorted(training, key=len, reverse=True)[:_RECORDINGS]]
    longest = min(max(len(f.steps) for f in filled), _ROWS)
    long = [f for f in filled if 2 * len(f.steps) >= longest]
    rows = min(longest, *(len(f.steps) for f in long))
    inputs = np.stack([model.structure.drive.act(model.follow(f)[0])[:rows] for f in long])
    gaps = np.stack([f.steps[:rows] for f in long])
    with floating_point(model.structure.precision):
        return tuple(tuple(_spread_one(ssm, inputs, gaps) for ssm in models) for models in model.ensemble)


def _spread_one(ssm: SSM[Component], inputs: np.ndarray, gaps: np.ndarray) -> SSM[Component]:
    dtype, found = ssm.components[0].dtype, []
    starts = tuple(c.initial.mean for c in ssm.components)
    for component, path in zip(
        ssm.components, _walk(ssm, starts, jnp.asarray(inputs, dtype), jnp.asarray(gaps, dtype)), strict=True
    ):
        states, own = np.asarray(path, float).reshape(-1, path.shape[-1]), component.initial.posterior().factor
        spread = np.cov(states, rowvar=False, ddof=0).reshape(states.shape[1], -1)
        spread = spread + np.asarray(own, float) @ np.asarray(own, float).T + _JITTER * np.eye(states.shape[1])
        if not np.isfinite(spread).all():
            return ssm
        factor = lower_triangular_inverse(jnp.asarray(np.linalg.cholesky(spread), dtype))
        found += [jnp.asarray(states.mean(axis=0), dtype), factor]
    return eqx.tree_at(
        lambda s: [p for c in s.components for p in (c.initial.prior_mean, c.initial.prior_raw_factor)], ssm, found
    )


@quick_jit
def _walk(ssm: SSM[Component], starts, inputs: Float[Array, "k t u"], gaps: Float[Array, "k t"]):
    dynamics = tuple(map(MeanDynamics, ssm.dynamics()))
    return jax.vmap(lambda u, gap: mean_states(ssm, dynamics, starts, u, gap)[1])(inputs, gaps)
