"""Sweeps, free runs and warm-ups against NumPy loops on the noise they drew; that noise; the keys of training."""

import itertools
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from budget import SIGMAS
from configurations import Family, as_oracle, random_component, random_ssm

from mrgpssm.arrays.params import positive_inverse
from mrgpssm.gp import RBF
from mrgpssm.model import SSM, Component
from mrgpssm.prediction.run import assimilate, free_run
from mrgpssm.rollout import Particles, draw_particles, draw_process
from mrgpssm.training import Task, TrainingSettings, backfit
from mrgpssm.training.journal import Journal
from mrgpssm.training.series import Series, make_clock
from mrgpssm.training.state import Cache, FitInfo
from mrgpssm.training.sweep import sweep

FAMILY = Family(RBF, d=2, u=1, y=1, m=4, units=(3.0,))


def series(rng, lengths=(9, 6)) -> Series:
    """Two sequences, sampled unevenly."""
    rows = sum(lengths)
    clocks = [np.append(0.0, np.cumsum(rng.uniform(0.2, 1, n - 1))) for n in lengths]
    return Series(
        inputs=jnp.asarray(rng.standard_normal((1, rows, 1))),
        outputs=jnp.asarray(rng.standard_normal((1, rows, 1))),
        clock=make_clock(clocks, jnp.zeros(()).dtype),
        offsets=jnp.asarray(np.concatenate([[0], np.cumsum(lengths)[:-1]]), jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
    )


def one_task() -> Task:
    """One member that sees the data as they are."""
    key, zero = jax.random.split(jax.random.key(0), 1), jnp.zeros((1, 1), jnp.int32)
    return Task(key, zero, jnp.ones((1, 2), bool), zero[0])


def walked(component: Component, start, inducing, inputs, steps, process) -> np.ndarray:
    """x_0, ..., x_T by loops, from a state and noise that are given."""
    c = as_oracle(component) | {"m_0": np.asarray(start), "S_0_factor": np.zeros((2, 2))}
    noise = {"initial": np.zeros(2), "inducing": np.asarray(inducing), "process": np.asarray(process)}
    return np.concatenate([np.asarray(start)[None], oracle.run(c, np.asarray(inputs), np.asarray(steps), noise)])


def stacked(tree):
    return jax.tree.map(lambda x: x[None], tree)


@pytest.mark.float64
def test_a_sweep_is_what_the_oracle_walks():
    """Row i's input and the gap to row i + 1, over the resolution, take the state of row i to row i + 1."""
    rng, samples, resolution = np.random.default_rng(0), 3, 4
    component, data, tasks = random_component(rng, FAMILY), series(rng), one_task()
    keys = jax.random.split(jax.random.key(1), 1)
    blank = Cache(jnp.zeros((1, 15, 1)), jnp.zeros((1, 15, 2)), jnp.zeros((1, 15, 2)))
    walks = {"samples": samples, "chunk": 100, "longest": 9, "keys": keys}
    cache = sweep(stacked(component), resolution, data, tasks, blank, **walks)
    here = draw_particles(component, (2, samples), keys[0])
    process = np.asarray(draw_process(keys[0], jnp.asarray(0, jnp.int32), 9, (2 * samples, 2), jnp.dtype(float)))
    for k, (first, rows) in enumerate(((0, 9), (9, 6))):
        span = slice(first, first + rows)
        steps = np.diff((np.asarray(data.clock.whole) + np.asarray(data.clock.fraction))[span]) / resolution
        paths = [
            walked(component, here.states[k, s], here.inducing[k, s], data.inputs[0, span][:-1], steps, process[k * samples + s])
            for s in range(samples)
        ]  # fmt: skip
        np.testing.assert_allclose(cache.states[0, span], np.mean(paths, 0), atol=1e-9)
        np.testing.assert_allclose(cache.spreads[0, span], np.std(paths, 0), atol=1e-9)
        outputs = [[as_oracle(component)["emission"](x) for x in path] for path in paths]
        np.testing.assert_allclose(cache.outputs[0, span], np.mean(outputs, 0), atol=1e-9)


@pytest.mark.float64
@pytest.mark.parametrize("stride", [1, 7])
def test_a_free_run_is_what_the_oracle_walks(stride):
    """Time units of 3 raw samples: a stride of 1 is one step, a stride of 7 is three."""
    rng, samples, rows = np.random.default_rng(2), 3, 30
    ssm = random_ssm(rng, FAMILY)
    inputs, clock = rng.standard_normal((rows, 1)), np.cumsum(rng.uniform(0.2, 1, rows))
    states, inducing = rng.standard_normal((samples, 2)), rng.standard_normal((samples, 2, 4))
    particles = (Particles(jnp.asarray(states)[None, None], jnp.asarray(inducing)[None, None]),)
    keys = jax.random.split(jax.random.key(3), 1)
    runs = free_run(stacked(ssm), particles, [inputs], [clock], stride=stride, chunk=4, keys=keys)
    ours = np.concatenate([draws.parts[0] for draws in runs], axis=3)[0, 0]
    fine = [r + k * stride // -(-stride // 3) for r in range(0, rows, stride) for k in range(-(-stride // 3))]
    gaps = [clock[j] - clock[i] for i, j in itertools.pairwise(fine) if j < rows]
    key = jax.random.fold_in(jax.random.fold_in(keys[0], 1), 0)
    process = draw_process(key, jnp.asarray(0, jnp.int32), len(fine), (samples, 2), jnp.dtype(float))
    emit = as_oracle(ssm.components[0])["emission"]
    for s in range(samples):
        known = np.minimum(fine, rows - 1)[: len(gaps)]
        path = walked(ssm.components[0], states[s], inducing[s], inputs[known], np.array(gaps) / 3, process[s])
        expected = np.array([emit(x) for x in path[:: -(-stride // 3)]])
        np.testing.assert_allclose(ours[s][: len(expected)], expected, atol=1e-9)
        assert len(expected) >= len(ours[s]) - 1


@pytest.mark.once
def test_process_noise_is_independent_over_steps_samples_and_dimensions():
    """No value occurs twice, and neighbours along every axis are uncorrelated."""
    noise = np.asarray(draw_process(jax.random.key(0), jnp.asarray(5, jnp.int32), 40, (30, 3), jnp.dtype("float32")))
    assert noise.shape == (30, 40, 3)
    assert len(np.unique(noise)) > 0.999 * noise.size
    for axis in range(3):
        near, next_one = np.delete(noise, -1, axis), np.delete(noise, 0, axis)
        assert abs(np.mean(near * next_one)) < SIGMAS / np.sqrt(near.size)
    assert abs(noise.mean()) < SIGMAS / np.sqrt(noise.size)
    assert abs(noise.var() - 1) < SIGMAS * np.sqrt(2 / noise.size)


def silent(ssm: SSM[Component], dtype) -> SSM[Component]:
    """No GP to speak of, plenty of process noise: a linear system."""
    floor, loud = positive_inverse(jnp.asarray(1.01e-6, dtype)), positive_inverse(jnp.full((2,), 0.3, dtype))
    for index in range(len(ssm.components)):
        places = partial(lambda i, s: (s.components[i].transition.gp.kernel.raw_amplitude, s.components[i].transition.raw_process_noise), index)  # fmt: skip
        ssm = eqx.tree_at(places, ssm, (floor, loud))
    return ssm


@pytest.mark.once
def test_a_warm_up_without_measurements_spreads_as_the_linear_system_does():
    """Two components of two dimensions: the covariance of all four is the exact one, also across components and steps."""
    dtype, count, rows = jnp.zeros(()).dtype, 20_000, 6
    ssm = silent(random_ssm(np.random.default_rng(4), replace(FAMILY, units=(2.0, 3.0)), dtype), dtype)
    u = np.random.default_rng(5).standard_normal((rows, 1))
    particles = tuple(Particles(jnp.ones((count, 2), dtype), jnp.zeros((count, 2, 4), dtype)) for _ in ssm.components)
    arrays = (jnp.asarray(u, dtype), jnp.full((rows, 1), jnp.nan, dtype), jnp.ones(rows, dtype))
    moved = assimilate(ssm, particles, *arrays, key=jax.random.key(6))
    states = np.concatenate([np.asarray(p.states, float) for p in moved], axis=1)
    mean, cov = np.ones(4), np.zeros((4, 4))
    for t in range(rows):
        for index, (d, unit) in enumerate(zip(ssm.dynamics(), ssm.time_units, strict=True)):
            part, h = slice(2 * index, 2 * index + 2), 1 / unit
            A, B, b, Q = (np.asarray(x, float) for x in (d.A, d.B, d.b, d.Q))
            F = np.eye(2) + h * A
            mean[part] = F @ mean[part] + h * (B @ u[t] + b)
            cov[part, part] = F @ cov[part, part] @ F.T + h * np.diag(Q)
    assert np.all(np.abs(states.mean(0) - mean) < SIGMAS * np.sqrt(np.diag(cov) / count))
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / count)
    assert np.all(np.abs(np.cov(states.T) - cov) < SIGMAS * error)


def told(learner, bound, kl, rmse) -> FitInfo:
    one = jnp.ones((), learner.ssm.raw_observation_noise.dtype)
    return FitInfo(bound, one, kl, rmse, one, jnp.asarray(True))


@pytest.mark.once
def test_every_step_has_a_key_of_its_own_and_the_residual_of_the_others(monkeypatch):
    """A step that reports a random number of its key, the number's square, and what is taken off the target.

    Two steps are a chunk: the mean and the mean square of their numbers show whether they differ. The residual leaves
    out what the component itself has cached.
    """

    def step(settings, series, task, phase, learner, k, key):
        value = jax.random.uniform(key)
        return learner, told(learner, value, value**2, jnp.mean(phase.others))

    monkeypatch.setattr(backfit, "step", step)
    rng, dtype = np.random.default_rng(7), jnp.zeros(()).dtype
    settings = TrainingSettings(samples=1, windows=1, window=2, buffer=0, cycles=2, steps=4, chunk=2, order="given")
    plan = backfit.Plan(settings, series(rng), one_task(), (2, 1))
    start = backfit.begin(plan, stacked(random_ssm(rng, replace(FAMILY, units=(2.0, 1.0)), dtype)))
    said = [jnp.full_like(cache.outputs, value) for cache, value in zip(start.state.caches, (1, 10), strict=True)]
    start = replace(start, state=eqx.tree_at(lambda s: [cache.outputs for cache in s.caches], start.state, said))
    journal = Journal(settings, 2, start.alive, (), lambda progress: None)
    for turn in range(4):
        backfit.train_turn(plan, replace(start, turn=turn), journal, lambda snapshot: None)
    means, squares, taken_off = (np.array([float(getattr(p, name)[0]) for p in journal.history]) for name in ("bound", "kl", "rmse"))  # fmt: skip
    assert len(np.unique(means)) == len(means) == 8
    assert np.all(squares - means**2 > 1e-6)
    np.testing.assert_allclose(taken_off, [10, 10, 1, 1] * 2, rtol=1e-5)
