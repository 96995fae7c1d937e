"""The bound of several sequences against their exact log evidence, where model and noise are linear and Gaussian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from budget import SIGMAS
from fleets import TINY, member

from mrgpssm.arrays.params import lower_triangular_inverse, positive_inverse
from mrgpssm.data import Scaling, Sequence
from mrgpssm.model import STABLE, init_ssm
from mrgpssm.training import Task
from mrgpssm.training.series import flatten
from mrgpssm.training.state import Cache, Learner, healthy
from mrgpssm.training.step import Phase, init_optimiser, step
from mrgpssm.training.sweep import series_bound

pytestmark = pytest.mark.float64
ROWS, NOISE_SD = 12, 0.3


def linear_model(mean: float, sd: float):
    """One state without process noise or GP to speak of, q(v) at its prior, and q(x_0) = N(mean, sd²)."""
    ssm = init_ssm(STABLE, (1,), latent_dim=1, input_dim=1, output_dim=1, inducing=3, key=jax.random.key(0), dtype=jnp.dtype(float))  # fmt: skip
    places = [
        lambda s: s.components[0].transition.gp.kernel.raw_amplitude,
        lambda s: s.components[0].transition.raw_process_noise,
        lambda s: s.components[0].transition.gp.posterior.mean,
        lambda s: s.components[0].transition.gp.posterior.raw_factor,
        lambda s: s.components[0].initial.mean,
        lambda s: s.components[0].initial.raw_factor,
        lambda s: s.raw_observation_noise,
    ]
    tiny = positive_inverse(jnp.asarray(1.01e-6))
    values = [
        tiny, tiny[None], jnp.zeros((1, 3)), lower_triangular_inverse(jnp.eye(3))[None], jnp.asarray([mean]),
        lower_triangular_inverse(jnp.asarray([[sd]])), positive_inverse(jnp.asarray([NOISE_SD])),
    ]  # fmt: skip
    for place, value in zip(places, values, strict=True):
        ssm = eqx.tree_at(place, ssm, value)
    return ssm


def copies(count: int):
    """The same outputs so many times, without inputs to speak of; and the outputs."""
    y = 1.5 * 0.9 ** np.arange(ROWS) + NOISE_SD * np.random.default_rng(0).standard_normal(ROWS)
    data = [Sequence(np.zeros((ROWS, 1)), y[:, None])] * count
    unit = Scaling(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1))
    return flatten(data, [unit], jnp.dtype(float)), y


def tasks(members: int, training: np.ndarray) -> Task:
    zero = jnp.zeros((members, 1), jnp.int32)
    keys = jax.random.split(jax.random.key(3), members)
    return Task(keys, zero, jnp.broadcast_to(jnp.asarray(training), (members, len(training))), zero[:, 0])


def exact(y: np.ndarray) -> tuple[float, float, float]:
    """log p(y) of one sequence, and mean and deviation of x_0 given y: y = g x_0 + noise, x_0 ~ N(0, 1), densely."""
    decay = 1 + float(linear_model(0.0, 1.0).dynamics()[0].A[0, 0])
    g = decay ** np.arange(ROWS)
    cov = np.outer(g, g) + NOISE_SD**2 * np.eye(ROWS)
    evidence = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(cov)[1] + ROWS * np.log(2 * np.pi))
    precision = 1 + g @ g / NOISE_SD**2
    return float(evidence), float(g @ y / NOISE_SD**2 / precision), float(precision**-0.5)


def bounds(count: int, training: np.ndarray, members: int = 12) -> np.ndarray:
    series, y = copies(count)
    one = linear_model(*exact(y)[1:])
    ssm, task = jax.tree.map(lambda x: jnp.stack([x] * members), one), tasks(members, training)
    found = series_bound(ssm, (1,), series, task, samples=200, chunk=ROWS, longest=ROWS, keys=task.key)
    return np.asarray(found)


@pytest.mark.parametrize("count", [1, 7])
def test_the_bound_touches_the_evidence_where_q_is_the_posterior_of_every_initial_state(count):
    """Nothing is lost but rounding, so that a divergence too few shows as a bound above the evidence."""
    evidence, mean, sd = exact(copies(1)[1])
    divergence = float(linear_model(mean, sd).components[0].initial.kl())
    found = bounds(count, np.ones(count, bool))
    error = found.std(ddof=1) / np.sqrt(len(found))
    assert divergence > 1
    assert SIGMAS * error < 0.2 * divergence
    assert abs(found.mean() - count * evidence) < SIGMAS * error


def test_sequences_that_a_member_does_not_train_on_cost_nothing():
    evidence = exact(copies(1)[1])[0]
    found = bounds(5, np.array([True, False, True, False, False]))
    assert abs(found.mean() - 2 * evidence) < SIGMAS * found.std(ddof=1) / np.sqrt(len(found))


def test_a_training_step_pays_for_every_sequence_that_the_member_trains_on():
    """KL(x_0) is all there is: q(v) is at its prior."""
    series, y = copies(7)
    ssm = linear_model(*exact(y)[1:])
    blank = Cache(jnp.zeros((7 * ROWS, 1)), jnp.zeros((7 * ROWS, 1)), jnp.zeros((7 * ROWS, 1)))
    phase = Phase(jnp.asarray(1, jnp.int32), jnp.zeros((7 * ROWS, 1)), (blank,), jnp.asarray(False), jnp.ones(()))
    learner = Learner(ssm, init_optimiser(TINY, ssm), healthy(jnp.dtype(float)))
    one = float(ssm.components[0].initial.kl())
    for count in (1, 7):
        task = member(tasks(1, np.arange(7) < count), 0)
        info = step(TINY, series, task, phase, learner, jnp.asarray(0), jax.random.key(0))[1]
        np.testing.assert_allclose(info.kl, count * one, rtol=1e-6)
