"""Models of the folds go on with all data, and then are the restarts; what judges a fold it has never seen."""

import jax
import numpy as np
import pytest
from recordings import recording

from mrgpssm import MRGPSSM, Sequence
from mrgpssm.data import Scaling
from mrgpssm.errors import ConfigError
from mrgpssm.spec import Spec, make_spec
from mrgpssm.training import FleetFit, begin, fit_fleet, train_fleet
from mrgpssm.training.checkpoint import pack_snapshot, unpack_snapshot
from mrgpssm.training.planning import list_members, make_plan
from mrgpssm.training.settings import TrainingSettings

SMALL = {"samples": 2, "windows": 2, "window": 10, "buffer": 2, "cycles": 2, "steps": 4, "inducing": 4}


def two_folds(**more) -> Spec:
    return make_spec({"resolutions": (3, 1), **SMALL, "folds": 2, "restarts": 2, "refit": 1, **more}).complete()


def same(one, other) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_learning_rates_begin_again_from_less():
    settings = TrainingSettings(cycles=3, refit=2, anneal=0.25, steps=10)
    assert settings.schedule((2, 1))[-4:] == [(3, (1,)), (3, (0,)), (4, (1,)), (4, (0,))]
    np.testing.assert_allclose([settings.pace(c) for c in range(5)], [1, 0.5, 0.25, 0.3, 0.075])
    assert [settings.steps_before(c) for c in range(5)] == [0, 10, 20, 0, 10]


def test_there_are_no_members_but_those_of_the_folds():
    members = list_members(two_folds(), 3, 2)
    assert [(m.group, m.number, m.scaling) for m in members] == [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2)]
    assert [m.training.tolist() for m in members[:2]] == [[False, True, False], [True, False, True]]


@pytest.mark.once
@pytest.mark.parametrize("window_start", ["cache", "filter"])
def test_a_run_goes_on_from_any_checkpoint_and_keeps_the_folds(window_start):
    data, kept = [recording(0), recording(1)], []
    plan, ssm = make_plan(two_folds(window_start=window_start), data, Scaling.fit(data))
    fresh = begin(plan, ssm)
    whole = fit_fleet(plan, fresh, lambda _: None, kept.append)
    folds = train_fleet(plan, fresh, lambda _: None, turns=4)
    assert (plan.refit_turn, folds.turn, whole.history[-1].done) == (4, 4, whole.history[-1].total)
    assert same(folds.state.ssm, whole.of_folds)
    assert same(FleetFit.of(folds).of_folds, folds.state.ssm)
    assert not same(whole.state.ssm, whole.of_folds)
    last = train_fleet(plan, folds, lambda _: None)
    assert same(last.state.ssm, whole.state.ssm)
    for snapshot in kept[1], kept[4], kept[-2], kept[-1]:
        stored = unpack_snapshot(pack_snapshot(snapshot, "mark"), fresh, "mark", "file")
        again = fit_fleet(plan, stored, lambda _: None)
        assert same(again.state, whole.state)
        assert same(again.of_folds, whole.of_folds)
        np.testing.assert_array_equal(again.bounds, whole.bounds)


@pytest.mark.once
@pytest.mark.parametrize("rows", [160, 320])
def test_a_fold_has_not_seen_what_it_is_judged_on(rows):
    """Two recordings, or one that is cut: whatever fold 1 leaves out may be changed without changing its models."""
    data = [recording(0), recording(1)] if rows == 160 else [recording(0, rows)]
    changed = np.array(data[0].outputs)
    changed[:160] = np.flipud(changed[:160]) * 3
    other = [Sequence(data[0].inputs, changed, 0.1, None, data[0].input_names, data[0].output_names), *data[1:]]
    fits = []
    for some in data, other:
        plan, ssm = make_plan(two_folds(), some, Scaling.fit(some))
        fits.append(fit_fleet(plan, begin(plan, ssm), lambda _: None))
    first, second = (jax.tree.map(lambda x: x[np.array([0, 2])], fit.of_folds) for fit in fits)
    assert same(first, second)
    first, second = (jax.tree.map(lambda x: x[np.array([0, 2])], fit.state.ssm) for fit in fits)
    assert not same(first, second)


@pytest.mark.once
def test_restarts_are_the_folds_after_all_data():
    data = [recording(0), recording(1), recording(2)]
    spec = two_folds(ensemble=2)
    model = MRGPSSM((3, 1), inducing=4, training=spec.training, bands=spec.bands).fit(data, progress=False)
    assert model.bounds_.shape == (2, 2)
    assert len(model.fitted_.ensemble) == 2
    assert set(model.folds_) == {0, 1}
    for fold in model.folds_.values():
        assert not any(same(fold.ensemble[0][0], one[0]) for one in model.fitted_.ensemble)
        assert not np.array_equal(fold.scaling.output_mean, model.fitted_.scaling.output_mean)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"restarts": 3}, "folds x fold_restarts = 2; got restarts = 3"),
        ({"folds": 0}, "refit goes on from the models of the folds, and there are none"),
        ({"early_stopping": True}, "refit trains on what early_stopping is judged on"),
    ],
)
def test_what_cannot_be_refitted_is_refused(more, sentence):
    spec = two_folds(**more)
    with pytest.raises(ConfigError, match=sentence):
        MRGPSSM((3, 1), inducing=4, training=spec.training, bands=spec.bands).check(recording(0))
