"""Windows that start where a filter finds the state."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import recording

from mrgpssm import MRGPSSM, Sequence
from mrgpssm.data import Scaling, take_pairs, take_unseen
from mrgpssm.rollout import filter_states, mean_steps
from mrgpssm.spec import arrange, make_spec
from mrgpssm.training import begin
from mrgpssm.training.planning import make_plan
from mrgpssm.training.step import Phase, _gather
from mrgpssm.training.sweep import track
from mrgpssm.training.windows import mark_known

pytestmark = pytest.mark.once
SMALL = {"latent_dim": 2, "inducing": 5, "samples": 4, "windows": 4, "window": 10, "buffer": 2, "cycles": 2, "steps": 5}


def plan_for(data: list[Sequence], **options):
    """A plan whose windows a filter starts, and its members before the first step."""
    spec = make_spec({"resolutions": (1,), **SMALL, "window_start": "filter", **options}).complete()
    return make_plan(spec, data, Scaling.fit(data))


def tracked(plan, ssm, visible=None):
    """The caches that a filter leaves."""
    start = begin(plan, ssm)
    seen, numbers = plan.visible()
    longest = int(plan.series.lengths.max())
    where = seen if visible is None else visible
    return track(ssm, plan.series, plan.tasks, where, numbers, start.state.caches, longest=longest, keys=plan.tasks.key)


def test_a_filter_is_the_kalman_filter_where_all_is_linear():
    """Many samples of a linear model: their means and deviations are those of Kalman's recursion."""
    _, ssm = plan_for([recording(0, 40)], emission="linear")
    one = jax.tree.map(lambda x: x[0], ssm)
    mean = one.components[0].transition.gp.posterior.mean
    one = eqx.tree_at(lambda s: s.components[0].transition.gp.posterior.mean, one, jnp.zeros_like(mean))
    d, samples, rng = 2, 20_000, np.random.default_rng(0)
    dynamics, noise = one.dynamics()[0], np.asarray(one.observation_variance(), float)
    T = 25
    u, y = rng.standard_normal((T, 2)), rng.standard_normal((T, 1))
    y[7:12] = np.nan
    mean, P = np.zeros(d), np.eye(d)
    A, B, b = (np.asarray(m, float) for m in (dynamics.A, dynamics.B, dynamics.b))
    C, Q, loose = np.asarray(one.components[0].emission.C, float), np.asarray(dynamics.Q, float), 0.05
    found = []
    for t in range(T):
        known = ~np.isnan(y[t, 0])
        if known:
            gain = P @ C.T / (C @ P @ C.T + noise)
            mean, P = mean + (gain * (y[t] - C @ mean)).ravel(), P - gain @ C @ P
        found.append((mean, np.sqrt(np.diag(P))))
        mean = mean + A @ mean + B @ u[t] + b
        P = (np.eye(d) + A) @ P @ (np.eye(d) + A).T + np.diag(Q + (loose if known else 0.0))
    start = (jax.random.normal(jax.random.key(1), (samples, d), one.components[0].dtype),)
    inputs, outputs, gaps = (jnp.asarray(x, one.components[0].dtype) for x in (u, y, np.ones(T)))
    keys = jax.random.split(jax.random.key(2), T)
    _, got = filter_states(one, mean_steps(one), start, inputs, outputs, gaps, keys, loose)
    means, deviations = (np.stack(x) for x in zip(*found, strict=True))
    # A mean has a standard error of deviation / √N, a gain about the same; innovations are at most 3: four of all that.
    error = 4 * (1 + 3) * deviations / np.sqrt(samples)
    assert (np.abs(np.asarray(got.means[0]) - means) < error).all()
    np.testing.assert_allclose(np.asarray(got.spreads[0]), deviations, rtol=0.05)
    np.testing.assert_allclose(np.asarray(got.outputs[0]), np.asarray(got.means[0]) @ C.T, atol=1e-4)


def test_a_fold_never_sees_the_outputs_that_it_leaves_out():
    data = [recording(0)]
    other = recording(0)
    outputs = np.array(other.outputs)
    outputs[40:80] += 100.0  # the second stretch of four
    changed = [Sequence(other.inputs, outputs, 0.1, None, other.input_names, other.output_names)]
    caches = []
    for given in (data, changed):
        spec = make_spec({"resolutions": (1,), **SMALL, "window_start": "filter", "folds": 4, "early_stopping": True})
        plan, ssm = make_plan(spec.complete(), given, Scaling.fit(data))
        caches.append(tracked(plan, ssm)[0])
    fold = 1 + 1  # one restart, and the second fold
    for name in ("states", "spreads", "outputs"):
        first, second = (np.asarray(getattr(cache, name))[fold] for cache in caches)
        np.testing.assert_array_equal(first, second)
    assert not np.allclose(np.asarray(caches[0].states)[0], np.asarray(caches[1].states)[0])


def test_a_run_over_hidden_rows_begins_where_the_filter_left_off():
    plan, ssm = plan_for([recording(0)])
    seen, _ = plan.visible()
    hidden = np.array(seen)
    hidden[:, 60:90] = False
    all_seen, some = tracked(plan, ssm)[0], tracked(plan, ssm, jnp.asarray(hidden))[0]
    np.testing.assert_array_equal(all_seen.states[:, :60], some.states[:, :60])
    assert not np.allclose(all_seen.states[:, 61:90], some.states[:, 61:90])
    assert np.isfinite(np.asarray(some.outputs)).all()
    assert np.abs(np.asarray(some.outputs)[:, 60:90]).max() > 0  # caches of free runs are zero before the first step
    np.testing.assert_array_equal(np.asarray(some.outputs)[:, :60], 0.0)


def test_members_go_over_what_they_train_on_or_are_judged_on():
    plan, _ = plan_for([recording(0)], folds=4, early_stopping=True)
    _, numbers = plan.visible()
    assert numbers.shape == (2 * 5, 2)
    np.testing.assert_array_equal(numbers[:5], [[0, 5], [0, 1], [0, 2], [0, 3], [0, 4]])
    plan, _ = plan_for([recording(0), recording(1)])
    np.testing.assert_array_equal(plan.visible()[1], [[0, 1], [0, 1]])


def test_windows_that_a_filter_starts_find_a_state_that_free_runs_lose():
    """An integrator: a free run over the recording drifts away, windows from there learn nothing."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal(600)
    y = np.cumsum(np.concatenate([[0.0], 0.3 * u[:-1] - 0.01]))
    data = Sequence(u[:, None], (y + 0.02 * rng.standard_normal(600))[:, None])
    small = SMALL | {"cycles": 3, "steps": 40, "learning_rate": 0.02, "latent_dim": 1, "memory": 1000}
    errors = {}
    for start in ("cache", "filter"):
        model = MRGPSSM((1,), **arrange(**small, window_start=start, emission="linear", seed=1))
        model.fit(data, progress=False)
        errors[start] = float(np.mean(model.history_[-1].rmse))
    assert errors["filter"] < 0.7 * errors["cache"], errors


def test_a_stretch_is_run_from_the_rows_before_it():
    data = [recording(0)]
    for k in range(4):
        ((past, rest),) = take_pairs(data, 4, k)
        (blanked,) = take_unseen(data, 4, k)
        rows = np.flatnonzero(~np.isnan(blanked.outputs).all(axis=1))
        assert past is not None
        first = 5 if k == 0 else 40 * k
        assert (len(rest), len(past)) == (40 * (k + 1) - first, first)
        np.testing.assert_array_equal(rest.outputs, data[0].outputs[first : rows[-1] + 1])
        np.testing.assert_array_equal(past.outputs, data[0].outputs[:first])
    ((past, rest),) = take_pairs([recording(0, 48)], 4, 0)  # a stretch of twelve rows is too short for a warm-up
    assert (past, len(rest)) == (None, 12)
    assert [past for past, _ in take_pairs([recording(i) for i in range(4)], 4, 1)] == [None]


def test_the_state_is_not_known_in_a_gap_and_just_after_it():
    measured = np.ones(30, bool)
    measured[10:16] = False
    np.testing.assert_array_equal(np.flatnonzero(~mark_known(measured, 5)), np.arange(10, 21))
    assert mark_known(measured, 6).sum() == 30 - 6 - 6
    assert mark_known(measured, 7).all()  # as long as a window: nothing to lose
    np.testing.assert_array_equal(np.flatnonzero(~mark_known(~measured, 5)), [*range(15), *range(16, 30)])
    assert mark_known(np.arange(100) % 20 == 0, 5).all()  # sparse, but no gap
    assert mark_known(np.zeros(9, bool), 5).all()  # nobody trains on it


def test_windows_from_where_the_state_is_lost_score_nothing():
    """Those at the start of a recording begin in q(x_0) and are not asked."""
    data = recording(0)
    outputs = np.array(data.outputs)
    outputs[40:80] = np.nan
    gap = Sequence(data.inputs, outputs, 0.1, None, data.input_names, data.output_names)
    plan, ssm = plan_for([gap], windows=60)
    known = np.asarray(plan.known)
    assert known.shape == (2, 160)
    np.testing.assert_array_equal(np.flatnonzero(~known[0]), np.arange(40, 92))
    cache, task = begin(plan, ssm).state.caches[0], jax.tree.map(lambda x: x[0], plan.tasks)
    one = jax.tree.map(lambda x: x[0], cache)
    phase = Phase(jnp.asarray(1, jnp.int32), one.outputs, (one,), jnp.asarray(True), jnp.ones(()), (), plan.known[0])
    for lost in plan.known[0], jnp.zeros(160, bool):
        batch = _gather(plan.settings, plan.series, task, phase._replace(known=lost), jax.random.key(1))
        scores = np.asarray(batch.weights).any(axis=1)
        np.testing.assert_array_equal(scores, np.asarray(batch.at_start | lost[batch.first]))
    assert 0 < np.sum(scores) < 60


def test_a_member_that_knows_no_state_trains_as_before():
    late = np.full((160, 2), np.nan)
    late[150:] = recording(0).outputs[150:]
    data = Sequence(recording(0).inputs, late, 0.1, None, recording(0).input_names, recording(0).output_names)
    assert np.asarray(plan_for([data])[0].known).all()
