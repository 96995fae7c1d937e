"""A small fleet to train: two recordings of a lag, a member an output, settings that take seconds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.data import Scaling, Sequence
from mrgpssm.model import STABLE, init_ssm
from mrgpssm.training import Task, TrainingSettings, backfit
from mrgpssm.training.series import flatten

DTYPE = jnp.zeros(()).dtype
TINY = TrainingSettings(samples=3, windows=4, window=6, buffer=2, cycles=2, steps=10, chunk=5, sweep_chunk=64)


def recordings(rows=(300, 220), seed=0):
    """A first-order lag driven by noise, several outputs."""
    made = []
    for index, n in enumerate(rows):
        rng = np.random.default_rng([seed, index])
        u = np.repeat(rng.uniform(-1, 1, (n // 10 + 1, 1)), 10, axis=0)[:n]
        x = np.zeros(n)
        for t in range(1, n):
            x[t] = x[t - 1] + 0.2 * (np.tanh(2 * u[t - 1, 0]) - x[t - 1])
        outputs = np.stack([x, 3 - 2 * x], axis=1) + 0.02 * rng.standard_normal((n, 2))
        made.append(Sequence(u, outputs))
    return made


def problem(members, resolutions=(3, 1), preset=STABLE, seed=0, inducing=5):
    data = recordings()
    series = flatten(data, [Scaling.fit(data)], DTYPE)
    keys = jax.random.split(jax.random.key(seed), members)
    tasks = Task(
        key=keys,
        columns=jnp.asarray(np.arange(members)[:, None] % 2, jnp.int32),
        training=jnp.ones((members, 2), bool),
        scaling=jnp.zeros((members,), jnp.int32),
    )

    def init(key):
        return init_ssm(
            preset, resolutions, latent_dim=2, input_dim=1, output_dim=1, inducing=inducing, key=key, dtype=DTYPE
        )

    return series, tasks, eqx.filter_vmap(init)(keys)


def fit_fleet(settings, series, tasks, ssm, resolutions):
    plan = backfit.Plan(settings, series, tasks, resolutions)
    return backfit.fit_fleet(plan, backfit.begin(plan, ssm), lambda progress: None)


def member(tree, index):
    return jax.tree.map(lambda x: x[index], tree)
