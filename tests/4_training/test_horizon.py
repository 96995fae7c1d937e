"""Just after a warm-up bands are narrower, by what runs left out have shown; they widen as its information fades."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import ModelFileError, Sequence, runtime
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.estimator.horizon import learn_horizon, start_anywhere
from mrgpssm.estimator.judges import Judge
from mrgpssm.file.model import pack_model, unpack_model
from mrgpssm.prediction.fitted import model_bytes, store_model
from mrgpssm.runtime.horizon import Horizon, Recent

pytestmark = pytest.mark.once
LAW = Horizon(np.array([0.2, 0.6]), np.array([8.0, 30.0]))


def test_what_was_measured_of_late_is_counted_row_by_row():
    """All rows at once, one after the other, and as the definition says."""
    rng = np.random.default_rng(0)
    outputs, gaps = rng.standard_normal((60, 3)), rng.uniform(0.5, 2.0, 60)
    outputs[rng.uniform(size=(60, 3)) < 0.4] = np.nan
    outputs[:, 2] = np.nan
    whole, step = Recent.of(outputs, gaps), Recent.nothing(3)
    for row, gap in zip(outputs, gaps, strict=True):
        step = step.measure(~np.isnan(row)).later(gap)
    ages = np.cumsum(gaps[::-1])[::-1]
    for column in range(2):
        seen = ages[~np.isnan(outputs[:, column])]
        assert whole.since[column] == pytest.approx(seen[-1])
        assert whole.count[column] == pytest.approx(np.exp((seen[-1] - seen) / 20).sum())
    np.testing.assert_allclose(step.count, whole.count)
    np.testing.assert_allclose(step.since[:2], whole.since[:2])
    assert whole.count[2] == 0
    np.testing.assert_array_equal(LAW.narrow(Recent.nothing(2).later(np.arange(4.0))), 1.0)  # nothing was measured


def test_the_factor_begins_at_first_and_ends_at_one():
    long = Recent.of(np.zeros((500, 2)), np.ones(500))
    factor = LAW.narrow(long.later(np.array([-1.0, 7.0, 1e4])))  # the last row was one sample ago
    told = 1 - np.exp(-long.count / 4)
    assert (told > 0.99).all()
    np.testing.assert_allclose(factor[0], 1 - (1 - LAW.first) * told)
    np.testing.assert_allclose(factor[1], 1 - (1 - LAW.first) * told * np.exp(-8 / LAW.memory))
    np.testing.assert_allclose(factor[2], 1.0)
    short = LAW.narrow(Recent.of(np.zeros((1, 2)), np.ones(1)).later(np.zeros(1)))
    assert (factor[0] < short).all()  # one row tells less than five hundred
    assert (short < 1).all()


def found_in(scores: np.ndarray, recent: Recent) -> Horizon | None:
    """What is learned from runs with these scores."""
    columns = {"score": scores, "count": np.broadcast_to(recent.count, scores.shape), "since": recent.since}
    runs: Any = SimpleNamespace(sequences=[np.empty(200)], gather=lambda _: [columns])
    return learn_horizon([runs])


def test_a_factor_that_fades_is_found_again():
    rng = np.random.default_rng(1)
    rows = np.tile(np.arange(200.0), 100)
    recent = Recent(np.full(2, 20.0), np.zeros(2)).later(rows)
    scores = LAW.narrow(recent) * rng.standard_normal((len(rows), 2))
    scores[::9] = np.nan
    found = found_in(scores, recent)
    assert found is not None
    np.testing.assert_allclose(found.first, LAW.first, rtol=0.25)  # pulled a little towards 1
    np.testing.assert_allclose(found.memory, LAW.memory, rtol=0.35)
    still = found_in(rng.standard_normal((len(rows), 2)), recent)
    assert still is not None
    assert (still.narrow(recent) > 0.8).all()  # where a warm-up tells nothing, little is learned
    few = found_in(scores[:20], Recent(recent.count, recent.since[:20]))
    assert few is not None
    assert (few.first > 0.4).all()  # one short run is not enough


def test_runs_start_at_many_places_after_what_came_before():
    model = untrained(resolutions=(3, 1)).fitted_
    one, other = recording(0), recording(1)
    judge = start_anywhere(Judge(model, [one, other], "these"))
    assert judge is not None
    assert [len(s) for s in judge.unseen] == [53, 53, 53, 53]  # a third of 160 rows; the first of each has no warm-up
    np.testing.assert_array_equal(judge.unseen[0].inputs, one.inputs[53:106])
    assert judge.pasts[1] is not None
    np.testing.assert_array_equal(judge.pasts[1].outputs, one.outputs[53:106])
    assert start_anywhere(Judge(model, [one.take(slice(20))], "short")) is None
    many = Judge(model, [Sequence(np.zeros((30_000, 2)), np.zeros((30_000, 2)))], "long")
    longer = start_anywhere(many)
    assert longer is not None
    assert {len(s) for s in longer.unseen} == {200}
    assert len(longer.unseen) == 40
    assert learn_horizon([]) is None


@pytest.mark.parametrize("given", [{}, {"noise": "student", "folds": 2}], ids=["gaussian", "student"])
def test_a_run_after_a_warm_up_has_the_factor(given, tmp_path):
    plain = untrained(resolutions=(3, 1), precision="float64", **given)
    model = from_fitted(replace(plain.fitted_, horizon=LAW))
    past, inputs = recording(2).take(slice(60)), recording(2).inputs[60:]
    before, after = (m.simulate(inputs, warmup=past, samples=8) for m in (plain, model))
    factor = LAW.narrow(Recent.of(past.outputs, np.ones(60)).later(np.arange(100.0)))
    np.testing.assert_allclose(after.std, factor * before.std)
    np.testing.assert_allclose(after.mean, before.mean)
    width = lambda run: run.quantile(0.95) - run.quantile(0.05)  # noqa: E731
    np.testing.assert_allclose(width(after), factor * width(before))
    model.save(tmp_path / "m.mrgpssm")
    again = runtime.load(tmp_path / "m.mrgpssm")
    cold = again.simulate(inputs, samples=8)
    np.testing.assert_allclose(cold.std, plain.simulate(inputs, samples=8).std, rtol=1e-6)  # nothing was measured


def test_a_stepper_knows_what_was_measured_of_late():
    fitted = untrained(resolutions=(3, 1), precision="float64").fitted_
    plain, model = (runtime.parse(model_bytes(m), "m") for m in (fitted, replace(fitted, horizon=LAW)))
    steppers = [m.stepper(samples=6, seed=3) for m in (plain, model)]
    s, recent = recording(2), Recent.nothing(2)
    for row in range(80):
        y = None if 30 <= row < 40 else np.where(row % 2, s.outputs[row], [np.nan, s.outputs[row, 1]])
        seen = np.zeros(2, bool) if y is None else ~np.isnan(y)
        recent = recent.measure(seen)
        ours, theirs = (stepper.update(s.inputs[row], y) for stepper in steppers)
        np.testing.assert_allclose(theirs.std, LAW.narrow(recent) * ours.std)
        np.testing.assert_allclose(theirs.mean, ours.mean)  # the gain is as it was
        recent = recent.later(1.0)
    here = steppers[1].state
    ahead = [stepper.forecast(s.inputs[80:90]).std for stepper in steppers]
    np.testing.assert_allclose(ahead[1], LAW.narrow(recent.later(np.arange(10.0))) * ahead[0])
    steppers[1].update(s.inputs[80], s.outputs[80])
    steppers[1].state = here
    np.testing.assert_allclose(steppers[1].forecast(s.inputs[80:90]).std, ahead[1])


@pytest.mark.parametrize(("key", "value"), [("first", 0.0), ("first", 1.1), ("memory", 0.0)])
def test_a_horizon_that_is_none_is_refused(key, value):
    stored = store_model(replace(untrained(resolutions=(3, 1)).fitted_, horizon=LAW))
    assert stored.horizon is not None
    with pytest.raises(ModelFileError, match=r"tensor horizon\.first must be above 0"):
        unpack_model(pack_model(replace(stored, horizon=stored.horizon | {key: np.full(2, value)})), "m")
