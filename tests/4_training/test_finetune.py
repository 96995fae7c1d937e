"""Components that train together, and the best cycle that is kept: schedules, bounds, errors, whole runs."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fleets import DTYPE, TINY, member, problem
from recordings import recording

from mrgpssm import MRGPSSM
from mrgpssm.elbo import elbo_terms
from mrgpssm.rollout import FullMC, draw_noise, draw_starts, rollout
from mrgpssm.spec import arrange
from mrgpssm.training import TrainingSettings, backfit
from mrgpssm.training.checkpoint import pack_snapshot, unpack_snapshot
from mrgpssm.training.state import Cache, Learner
from mrgpssm.training.step import Phase, _gather, init_optimiser, step
from mrgpssm.training.stopping import better_of, free_run_errors

SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 2, "steps": 5}


def test_who_trains_together_and_when():
    settings = TrainingSettings(cycles=1, finetune=2)
    assert settings.joint_turns((30, 5, 1)) == [(0, 1, 2), (0, 1), (0,)]
    assert settings.joint_turns((5, 30, 5)) == [(0, 1, 2), (1,)]
    assert replace(settings, order="given").joint_turns((30, 1)) == [(0,), (0, 1)]
    assert settings.schedule((3, 1)) == [(0, (1,)), (0, (0,)), (1, (0, 1)), (1, (0,)), (2, (0, 1)), (2, (0,))]
    assert settings.teams((3, 1)) == [(1,), (0,), (0, 1)]
    assert replace(settings, finetune=0).teams((3, 1)) == [(1,), (0,)]
    assert settings.pace(5) == settings.pace(0) == 1  # a single cycle of backfitting has no slope to follow
    assert replace(settings, cycles=3).pace(7) == pytest.approx(settings.anneal)


def test_the_bound_of_a_team_is_that_of_the_whole_model():
    """All components from q(x_0): the bound that a joint step reports is that of the model in raw samples."""
    series, tasks, ssm = problem(1)
    task, one, key = member(tasks, 0), member(ssm, 0), jax.random.key(4)
    team = backfit.assemble(one, (0, 1))
    assert team.time_units == (3.0, 1.0)
    rows = series.clock.shape[0]
    blank = Cache(jnp.zeros((rows, 1), DTYPE), jnp.zeros((rows, 2), DTYPE), jnp.zeros((rows, 2), DTYPE))
    phase = Phase(
        jnp.asarray(1, jnp.int32), jnp.zeros((rows, 1), DTYPE), (blank, blank), jnp.asarray(False), jnp.ones((), DTYPE)
    )
    learner = Learner(team, init_optimiser(TINY, team), backfit.healthy(DTYPE))
    new, info = step(TINY, series, task, phase, learner, jnp.asarray(0), key)
    key_windows, key_noise = jax.random.split(key)
    batch = _gather(TINY, series, task, phase, key_windows)
    noise = draw_noise(one, TINY.windows, TINY.samples, TINY.window_steps, key=key_noise)
    dynamics, windows = one.dynamics(), batch.windows  # at stride 1, steps are raw samples
    drawn = rollout(FullMC(), one, dynamics, draw_starts(one, noise), windows.inputs, windows.strides, noise)
    expected = elbo_terms(one, dynamics, windows, drawn, weights=batch.weights, sequences=2)
    np.testing.assert_allclose(info.bound, expected.bound, rtol=2e-4)
    for before, after in zip(team.components, new.ssm.components, strict=True):
        assert not np.allclose(before.transition.gp.posterior.mean, after.transition.gp.posterior.mean)


@pytest.mark.once
@pytest.mark.parametrize("optimiser", ["adam", "natural"])
def test_a_run_with_everything_goes_on_from_any_checkpoint_as_if_it_had_never_stopped(optimiser):
    settings = TrainingSettings(
        samples=2, windows=3, window=5, buffer=1, cycles=1, steps=4, chunk=2, sweep_chunk=300, finetune=1,
        optimiser=optimiser,
    )  # fmt: skip
    series, tasks, ssm = problem(2, inducing=4)
    unseen = np.zeros((2, 520), bool)
    unseen[:, 300:] = True
    plan, kept = backfit.Plan(settings, series, tasks, (3, 1), unseen), []
    fresh = backfit.begin(plan, ssm)
    whole = backfit.fit_fleet(plan, fresh, lambda progress: None, kept.append)
    turns = [(turn, step) for turn in range(4) for step in (2, 4)]
    assert [(s.turn, s.step) for s in kept] == [*turns, (4, 0)]
    assert whole.history[-1].done == whole.history[-1].total == 16
    for snapshot in kept[1], kept[5], kept[-1]:
        stored = unpack_snapshot(pack_snapshot(snapshot, "mark"), fresh, "mark", "file")
        again = backfit.fit_fleet(plan, stored, lambda progress: None)
        for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(again.state), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(whole.errors, again.errors)
    assert whole.errors is not None
    assert whole.errors.shape == (2, 2)


def test_errors_are_those_of_the_caches_over_unseen_rows():
    """Member 0 has nothing unseen and goes with member 2, which learns the same output; member 1 is on its own."""
    series, tasks, _ = problem(4)
    rng, rows = np.random.default_rng(0), series.clock.shape[0]
    caches = tuple(
        Cache(jnp.asarray(rng.standard_normal((4, rows, 1)), DTYPE), jnp.zeros((4, rows, 2)), jnp.zeros((4, rows, 2)))
        for _ in range(2)
    )
    unseen = np.zeros((4, rows), bool)
    unseen[1, :50] = unseen[2, 100:130] = unseen[3, 5:9] = True
    series = eqx.tree_at(lambda s: s.outputs, series, series.outputs.at[:, 110:115].set(jnp.nan))
    found = free_run_errors(caches, series, tasks, unseen, np.array([True, True, True, False]))
    said, y = np.asarray(caches[0].outputs + caches[1].outputs)[:, :, 0], np.asarray(series.outputs[0])

    def error(m, places):
        return np.sqrt(np.mean([(said[m, r] - y[r, m % 2]) ** 2 for r in places]))

    second = error(2, [*range(100, 110), *range(115, 130)])
    first = error(1, range(50))
    np.testing.assert_allclose(found, [second, first, second, first], rtol=1e-5)
    nobody = free_run_errors(caches, series, tasks, np.zeros((4, rows), bool), np.ones(4, bool))
    assert np.isnan(nobody).all()


def test_the_better_is_kept_member_by_member():
    _, _, old = problem(3)
    new = jax.tree.map(lambda x: x + 1, old)
    kept = better_of(new, old, np.array([0.5, 0.5, np.nan]), np.array([[0.6, 0.4, np.nan], [0.7, 0.9, np.nan]]))
    for a, b, k in zip(jax.tree.leaves(old), jax.tree.leaves(new), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(k, jnp.stack([b[0], a[1], b[2]]))
    first = better_of(new, old, np.array([0.5, 0.5, np.nan]), np.empty((0, 3)))
    for b, k in zip(jax.tree.leaves(new), jax.tree.leaves(first), strict=True):
        np.testing.assert_array_equal(k, b)


@pytest.mark.once
def test_the_best_cycle_is_what_a_fit_returns():
    settings = TrainingSettings(samples=2, windows=3, window=5, buffer=1, cycles=4, steps=2, chunk=2, sweep_chunk=300)
    series, tasks, ssm = problem(2, resolutions=(1,), inducing=4)
    unseen = np.zeros((2, 520), bool)
    unseen[:, 300:] = True
    plan, seen = backfit.Plan(settings, series, tasks, (1,), unseen), []
    fit = backfit.fit_fleet(plan, backfit.begin(plan, ssm), lambda _: None, seen.append)
    assert fit.errors is not None
    best = np.argmin(fit.errors, axis=0)
    for m in range(2):
        expected = jax.tree.leaves(seen[best[m]].state.ssm)
        for a, b in zip(jax.tree.leaves(fit.state.ssm), expected, strict=True):
            np.testing.assert_array_equal(a[m], b[m])


@pytest.mark.once
def test_the_estimator_has_all_of_it():
    data = [recording(i) for i in range(4)]
    model = MRGPSSM(
        (3, 1), **arrange(**SMALL, folds=2, early_stopping=True, finetune=1, optimiser="natural", cascade=True)
    )
    model.fit(data, progress=False)
    assert np.isfinite(model.simulate(recording(5).inputs, samples=4).mean).all()
    judged = MRGPSSM((3, 1), **arrange(**SMALL, early_stopping=True)).fit(data[:2], validation=data[2:], progress=False)
    assert judged.validation_scores_ is not None
