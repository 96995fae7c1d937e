"""Training: steps, schedules, residuals, sweeps, fleets, faults."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fleets import DTYPE, TINY, fit_fleet, member, problem

from mrgpssm.errors import FitError
from mrgpssm.model import PAPER, STABLE
from mrgpssm.prediction.run import free_run
from mrgpssm.rollout import Particles, draw_particles
from mrgpssm.training import TrainingSettings, backfit
from mrgpssm.training.backfit import partial_output
from mrgpssm.training.journal import Journal
from mrgpssm.training.state import Cache
from mrgpssm.training.step import Phase, _gather, learning_rate, member_outputs, trainable
from mrgpssm.training.sweep import series_bound, sweep, walk


def test_windows_compare_each_state_with_the_output_one_stride_later():
    """u of row i drives the state from i to i + R; targets are the residual of the *other* components."""
    series, tasks, _ = problem(1)
    task = member(tasks, 0)
    rows = series.clock.shape[0]
    others = jnp.asarray(np.random.default_rng(0).standard_normal((rows, 1)), DTYPE)
    cache = Cache(jnp.full((rows, 1), 99.0, DTYPE), jnp.zeros((rows, 2), DTYPE), jnp.zeros((rows, 2), DTYPE))
    phase = Phase(jnp.asarray(3, jnp.int32), others, (cache,), jnp.asarray(True), jnp.ones((), DTYPE))
    windows, first, at_start, weights, total, sequences = _gather(TINY, series, task, phase, jax.random.key(1))
    assert windows.inputs.shape == (4, 8, 1)
    assert not np.all(at_start)
    for n in np.flatnonzero(~np.asarray(at_start)):
        for j in np.flatnonzero(np.asarray(weights[n])):
            here, there = int(first[n]) + 3 * j, int(first[n]) + 3 * (j + 1)
            assert windows.inputs[n, j, 0] == series.inputs[0, here, 0]
            np.testing.assert_allclose(windows.outputs[n, j], series.outputs[0, there, :1] - others[there], rtol=1e-6)
        np.testing.assert_allclose(windows.strides[n], 1.0, rtol=1e-6)
    assert float(total) == pytest.approx((299 + 219) / 3, rel=1e-6)
    assert float(sequences) == 2


def test_a_residual_never_includes_its_own_component():
    caches = tuple(
        Cache(jnp.full((1, 4, 1), v), jnp.zeros((1, 4, 2)), jnp.zeros((1, 4, 2))) for v in (1.0, 10.0, 100.0)
    )
    assert [float(partial_output(caches, (i,))[0, 0, 0]) for i in range(3)] == [110.0, 101.0, 11.0]
    assert float(partial_output(caches, (0, 2))[0, 0, 0]) == 10.0


def test_learning_rate_follows_the_paper():
    rates = [float(learning_rate(TINY, jnp.asarray(k), DTYPE)) for k in (0, 9, 10, 25)]
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.05 * 0.99, 0.05 * 0.99**2], rtol=1e-5)
    settings = TrainingSettings(cycles=5, anneal=0.1)
    np.testing.assert_allclose([settings.pace(c) for c in (0, 2, 4)], [1, 0.1**0.5, 0.1])
    assert TrainingSettings(cycles=1).pace(0) == 1


def test_everything_trains_but_the_prior_of_the_initial_state():
    _, _, ssm = problem(1)
    mask = trainable(ssm)
    still = [path for path, on in jax.tree_util.tree_leaves_with_path(mask) if not on]
    assert len(still) == 2 * len(ssm.components)
    assert all("prior" in jax.tree_util.keystr(path) for path in still)


def test_members_see_their_own_columns_units_and_sequences():
    series, tasks, _ = problem(2)
    both = eqx.tree_at(lambda s: s.outputs, series, jnp.concatenate([series.outputs, (series.outputs - 1) / 2]))
    task, rows = eqx.tree_at(lambda t: t.scaling, member(tasks, 1), jnp.asarray(1, jnp.int32)), jnp.asarray([4, 2])
    np.testing.assert_array_equal(member_outputs(both, task, rows), (series.outputs[0, rows, 1:] - 1) / 2)
    only_second = eqx.tree_at(lambda t: t.training, tasks, jnp.asarray([[False, True]] * 2))
    phase = Phase(jnp.asarray(1, jnp.int32), jnp.zeros((520, 1), DTYPE), (Cache(jnp.zeros((520, 1), DTYPE), jnp.zeros((520, 2), DTYPE), jnp.zeros((520, 2), DTYPE)),), jnp.asarray(False), jnp.ones((), DTYPE))  # fmt: skip
    batch = _gather(TINY, series, member(only_second, 0), phase, jax.random.key(0))
    assert np.all(np.asarray(batch.first) >= 300)
    assert (float(batch.total), float(batch.sequences)) == (219.0, 1.0)


@pytest.mark.once
def test_training_lowers_the_error_and_reports_it():
    series, tasks, ssm = problem(2)
    settings = TrainingSettings(
        samples=5, windows=8, window=12, buffer=4, cycles=6, steps=20, chunk=10, sweep_chunk=100
    )
    fit = fit_fleet(settings, series, tasks, ssm, (3, 1))
    assert [p.done for p in fit.history][-1] == fit.history[-1].total == 240
    assert np.all(fit.history[-1].rmse < 0.5 * fit.history[0].rmse)
    explained = sum(cache.outputs for cache in fit.state.caches)
    error = np.asarray(series.outputs[0]).T - np.asarray(explained)[:, :, 0]
    assert np.all(np.sqrt(np.mean(error**2, axis=1)) < 0.5)
    assert np.all(fit.alive)
    assert fit.bounds.shape == (2,)


def test_fast_components_train_first_unless_told_otherwise():
    settings = TrainingSettings()
    assert settings.turns((30, 5, 1)) == [(2,), (1,), (0,)]
    assert settings.turns((5, 30, 5)) == [(0,), (2,), (1,)]
    assert replace(settings, order="given").turns((30, 5, 1)) == [(0,), (1,), (2,)]


@pytest.mark.once
def test_a_run_goes_on_from_any_snapshot_as_if_it_had_never_stopped():
    settings = TrainingSettings(samples=2, windows=3, window=5, buffer=1, cycles=2, steps=4, chunk=2, sweep_chunk=300)
    series, tasks, ssm = problem(2, inducing=4)
    plan, kept = backfit.Plan(settings, series, tasks, (3, 1)), []
    whole = backfit.fit_fleet(plan, backfit.begin(plan, ssm), lambda progress: None, kept.append)
    turns = [(turn, step) for turn in range(4) for step in (2, 4)]
    assert [(s.turn, s.step) for s in kept] == [*turns, (4, 0)]
    assert [p.component for p in whole.history] == [1, 1, 0, 0, 1, 1, 0, 0]
    for snapshot in kept[1], kept[4], kept[-1]:
        again = backfit.fit_fleet(plan, snapshot, lambda progress: None)
        for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(again.state), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(whole.bounds, again.bounds)
        assert len(again.history) == len(whole.history)


@pytest.mark.float64
def test_a_fleet_gives_each_member_what_it_gets_alone():
    """Parameters after 20 steps, to 1e-5 (they agree far better)."""
    settings = TrainingSettings(samples=3, windows=4, window=6, buffer=2, cycles=1, steps=10, chunk=5, sweep_chunk=64)
    series, tasks, ssm = problem(4)
    together = fit_fleet(settings, series, tasks, ssm, (3, 1))
    for index in range(4):
        one = slice(index, index + 1)
        alone = fit_fleet(
            settings,
            series,
            jax.tree.map(lambda x, s=one: x[s], tasks),
            jax.tree.map(lambda x, s=one: x[s], ssm),
            (3, 1),
        )
        for a, b in zip(jax.tree.leaves(together.state.ssm), jax.tree.leaves(alone.state.ssm), strict=True):
            np.testing.assert_allclose(a[index], b[0], atol=1e-5)
            np.testing.assert_allclose(a[index], b[0], atol=1e-9)


@pytest.mark.once
def test_ten_cycles_compile_once_per_component_shape(monkeypatch):
    """Two components of one shape at two resolutions share one program, and cycles never compile again."""
    counts = {"step": 0, "walk": 0}
    original_step, original_walk = backfit.step, walk

    def counted_step(*args):
        counts["step"] += 1
        return original_step(*args)

    def counted_walk(*args, **more):
        counts["walk"] += 1
        return original_walk(*args, **more)

    monkeypatch.setattr(backfit, "step", counted_step)
    monkeypatch.setattr("mrgpssm.training.sweep.walk", counted_walk)
    settings = TrainingSettings(samples=2, windows=3, window=5, buffer=1, cycles=10, steps=2, chunk=2, sweep_chunk=173)
    series, tasks, ssm = problem(1, inducing=4)
    fit_fleet(settings, series, tasks, ssm, (4, 1))
    assert counts == {"step": 1, "walk": 3}  # one sweep program, and the two components of the final bound


@pytest.mark.once
def test_a_sweep_is_the_mean_of_a_free_run_and_does_not_depend_on_chunks():
    series, tasks, ssm = problem(1)
    component, key = ssm.components[0], jax.random.split(jax.random.key(5), 1)
    rows = series.clock.shape[0]
    blank = Cache(jnp.zeros((1, rows, 1), DTYPE), jnp.zeros((1, rows, 2), DTYPE), jnp.zeros((1, rows, 2), DTYPE))
    options = {"samples": 4, "longest": 300, "keys": key}
    whole = sweep(component, 3, series, tasks, blank, chunk=300, **options)
    for chunk in (7, 64):
        pieces = sweep(component, 3, series, tasks, blank, chunk=chunk, **options)
        for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(pieces), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)
    one = member(component, 0)
    here = draw_particles(one, (2, 4), key[0])
    assert isinstance(here, Particles)
    np.testing.assert_allclose(whole.states[0, 0], here.states[0].mean(0), atol=1e-6)
    np.testing.assert_allclose(whole.states[0, 300], here.states[1].mean(0), atol=1e-6)
    assert not np.any(np.all(np.asarray(whole.states[0]) == 0, axis=1))


@pytest.mark.float64
def test_the_bound_that_ranks_restarts_is_the_bound_of_the_whole_series():
    """Against the likelihood of the simulated paths, and the divergences, computed directly."""
    series, tasks, ssm = problem(1)
    keys = jax.random.split(jax.random.key(7), 1)
    options = {"samples": 3, "longest": 300, "keys": keys}
    ours = series_bound(ssm, (3, 1), series, tasks, chunk=50, **options)
    again = series_bound(ssm, (3, 1), series, tasks, chunk=300, **options)
    np.testing.assert_allclose(ours, again, rtol=1e-9)
    one, task = member(ssm, 0), member(tasks, 0)
    predictions = np.zeros((2, 3, 300))
    for index, (component, unit) in enumerate(zip(one.components, (3.0, 1.0), strict=True)):
        key = jax.random.fold_in(keys[0], index)
        here = draw_particles(component, (2, 3), key)
        _, states = walk(component, jnp.asarray(unit), series, task, here, jnp.asarray(0, jnp.int32), 300, key)
        predictions = predictions + np.asarray(states)[..., 0]
    omega = float(one.observation_variance()[0])
    likelihood = 0.0
    for k, (start, length) in enumerate(((0, 300), (300, 220))):
        y = np.asarray(series.outputs)[0, start : start + length, 0]
        errors = y[None] - predictions[k, :, :length]
        likelihood += np.sum(np.mean(-0.5 * errors**2 / omega - 0.5 * np.log(2 * np.pi * omega), axis=0))
    kl = sum(2 * float(c.initial.kl()) + float(c.dynamics().gp.kl()) for c in one.components)
    np.testing.assert_allclose(ours[0], likelihood - kl, rtol=1e-9)


def test_free_runs_do_not_depend_on_chunks_nor_on_other_sequences():
    _, _, ssm = problem(1)
    inputs = [np.random.default_rng(seed).standard_normal((rows, 1)) for seed, rows in ((0, 50), (1, 31))]
    particles = tuple(
        Particles(jnp.zeros((1, 2, 4, 2), DTYPE), jnp.ones((1, 2, 4, 2, 5), DTYPE)) for _ in ssm.components
    )

    def run(chunk, which=(0, 1)):
        here = jax.tree.map(lambda x: x[:, list(which)], particles)
        chosen = [inputs[k] for k in which]
        keys = jax.random.split(jax.random.key(0), 1)
        clocks = [np.arange(float(len(u))) for u in chosen]
        parts = free_run(ssm, here, chosen, clocks, stride=2, chunk=chunk, keys=keys)
        return np.concatenate([np.sum(d.parts, axis=0) for d in parts], axis=3)

    whole = run(25)
    assert whole.shape == (1, 2, 4, 25, 1)
    np.testing.assert_allclose(run(7), whole, atol=1e-5)
    np.testing.assert_allclose(run(25, (1,))[:, 0, :, :16], whole[:, 1, :, :16], atol=1e-5)  # nor on the company


def poisoned(ssm, part):
    """Parameters whose every gradient is NaN."""
    where = lambda s: s.components[part].transition.raw_process_noise  # noqa: E731
    return eqx.tree_at(where, ssm, jnp.full_like(where(ssm), jnp.nan))


@pytest.mark.once
def test_failing_steps_are_skipped_counted_and_then_stop_with_the_place():
    series, tasks, ssm = problem(2)
    settings = TrainingSettings(samples=2, windows=3, window=5, buffer=1, cycles=1, steps=30, chunk=10, patience=15)
    with pytest.raises(FitError, match=r"component 1, cycle 1, step 20") as caught:
        fit_fleet(settings, series, tasks, poisoned(ssm, 0), (3, 1))
    assert "\n" not in str(caught.value)


def test_a_simulation_that_is_not_finite_stops_training_with_the_place():
    journal = Journal(TINY, 2, np.ones(2, bool), (), lambda progress: None)
    half = Cache(jnp.asarray([[[0.0]], [[jnp.nan]]]), jnp.zeros((2, 1, 2)), jnp.zeros((2, 1, 2)))
    journal.check_cache(half, 0, 0)
    np.testing.assert_array_equal(journal.alive, [True, False])
    with pytest.raises(FitError, match="simulating component 2 over the training data after cycle 3"):
        journal.check_cache(eqx.tree_at(lambda c: c.outputs, half, jnp.full((2, 1, 1), jnp.inf)), 1, 2)


@pytest.mark.once
def test_one_broken_member_does_not_stop_the_others():
    series, tasks, ssm = problem(2)
    where = lambda s: s.components[0].transition.raw_process_noise  # noqa: E731
    broken = eqx.tree_at(where, ssm, where(ssm).at[0].set(jnp.nan))
    settings = TrainingSettings(samples=2, windows=3, window=5, buffer=1, cycles=1, steps=20, chunk=10, patience=15)
    fit = fit_fleet(settings, series, tasks, broken, (3, 1))
    np.testing.assert_array_equal(fit.alive, [False, True])
    assert fit.bounds[0] == -np.inf
    assert np.isfinite(fit.bounds[1])
    np.testing.assert_array_equal(fit.state.health.skipped, [20, 0])


@pytest.mark.once
@pytest.mark.parametrize(("preset", "rate"), [(STABLE, 0.05), (PAPER, 0.5)], ids=["stable", "paper, wild rate"])
def test_a_thousand_random_starts_never_end_in_a_silent_nan(preset, rate):
    """50 steps each, one fleet: finite parameters, or counted skips and a dead member."""
    settings = TrainingSettings(
        samples=2, windows=2, window=5, buffer=1, cycles=1, steps=25, chunk=25, learning_rate=rate, sweep_chunk=300
    )
    series, tasks, ssm = problem(1000, preset=preset, inducing=4)
    fit = fit_fleet(settings, series, tasks, ssm, (3, 1))
    finite = np.all(
        [np.isfinite(np.asarray(x)).reshape(1000, -1).all(1) for x in jax.tree.leaves(fit.state.ssm)], axis=0
    )
    assert finite.all()
    assert np.isfinite(fit.bounds[fit.alive]).all()
    assert fit.alive.sum() > 900
