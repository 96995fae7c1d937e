"""New territory: the alarm rings where rows are unlike training, and bands grow there as errors did on data left out."""

from dataclasses import replace

import numpy as np
import pytest
from recordings import recording
from scipy.spatial.distance import cdist
from untrained import untrained

from mrgpssm import ModelFileError, Sequence, runtime
from mrgpssm.data import trained_on
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.estimator.territory import _fit_growth, map_territory, spread_out
from mrgpssm.file.model import feature_count, pack_model, unpack_model
from mrgpssm.prediction.fitted import model_bytes, parse_model, store_model
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import OutputLaw
from mrgpssm.runtime.paths import PathLaw, PathNoise
from mrgpssm.runtime.territory import Territory, nearest

pytestmark = pytest.mark.once

STUDENT = StudentNoise(np.zeros((1, feature_count(1))), np.array([4.0]), np.array([[-1.0, 0.3]]))


def test_the_nearest_point_is_that_of_scipy(monkeypatch):
    rng = np.random.default_rng(0)
    rows, points = rng.standard_normal((70, 3)), rng.standard_normal((9, 3))
    wanted = cdist(rows, points).min(axis=1)
    np.testing.assert_allclose(nearest(rows, points), wanted, rtol=1e-9)
    monkeypatch.setattr("mrgpssm.runtime.territory._BLOCK", 40)
    np.testing.assert_allclose(nearest(rows, points), wanted, rtol=1e-9)
    np.testing.assert_allclose(nearest(points, points), 0.0, atol=1e-7)


def test_points_cover_rows_as_the_farthest_come_next():
    rows = np.array([[0.0], [1.0], [10.0], [9.0], [4.0]])
    np.testing.assert_array_equal(spread_out(rows, 3), [[0.0], [10.0], [4.0]])
    assert len(spread_out(rows, 50)) == 5


def driven(model, inputs: np.ndarray, outputs: np.ndarray) -> Sequence:
    fitted = model.fitted_
    return Sequence(inputs, outputs, fitted.dt, None, fitted.input_names, fitted.output_names)


def made(model, seed: int, size: float = 1.0) -> Sequence:
    """Slowly changing inputs, and outputs that follow them."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((600, 2))
    inputs = np.stack([np.convolve(s, np.ones(20) / 20**0.5, "same") for s in steps.T], axis=1)
    outputs = np.tanh(inputs) + 0.05 * rng.standard_normal(inputs.shape)
    return driven(model, size * inputs, outputs)


def alarm_of(model, sequence: Sequence) -> np.ndarray:
    territory, scaling = model.territory, model.scaling
    return territory.alarm(scaling.outputs(sequence.outputs), model.drive(sequence))


def test_the_alarm_tells_new_rows_from_rows_like_those_of_training():
    model = untrained(resolutions=(3, 1))
    fitted = map_territory(model.fitted_, [made(model, k) for k in range(5)])
    inside, outside = alarm_of(fitted, made(model, 9)), alarm_of(fitted, made(model, 9, size=3.0))
    assert np.mean(inside > 1) < 0.12
    assert np.mean(outside > 1) > 0.4
    far = np.abs(made(model, 9, size=3.0).inputs).max(axis=1) > 4.0
    assert (outside[far] > 1).mean() > 0.95
    assert map_territory(model.fitted_, [made(model, 0).take(slice(40))]).territory is None


def test_rows_without_outputs_are_no_part_of_a_territory():
    """What a fold leaves out has no outputs in what it trains on: whatever the inputs are there, nothing changes."""
    model = untrained(resolutions=(3, 1))
    (known,) = trained_on([made(model, 0)], 4, 1)
    poisoned = known.inputs.copy()
    poisoned[np.isnan(known.outputs).all(axis=1)] = 50.0
    other = driven(model, poisoned, known.outputs)
    ours, theirs = (map_territory(model.fitted_, [s]).territory for s in (known, other))
    assert ours is not None
    assert theirs is not None
    np.testing.assert_array_equal(ours.points, theirs.points)
    assert ours.reach == theirs.reach
    gaps = known.outputs.copy()
    gaps[::2, 1] = np.nan  # an output that is measured less often lies between its neighbours
    assert map_territory(model.fitted_, [driven(model, known.inputs, gaps)]).territory is not None


@pytest.mark.parametrize("noise", [None, STUDENT], ids=["gaussian", "student"])
def test_a_stretched_law_is_a_law(noise):
    """Densities add up to 1, and quantiles, draws, trajectories and scores are those of y = m + w (y_0 - m)."""
    rng = np.random.default_rng(0)
    samples, drive = 0.3 * rng.standard_normal((400, 4, 1)), np.array([[0.0], [1.0], [6.0], [9.0]])
    territory = Territory(np.zeros((1, 2)), np.array(2.0), np.array([0.8]))
    plain = OutputLaw(np.ones(1), np.full((1, 1), 0.2), noise, PathLaw.white(1))
    before, found = (law.measure(samples, drive) for law in (plain, replace(plain, territory=territory)))
    alarm = np.hypot(drive[:, 0], before.mean[:, 0]) / 2
    np.testing.assert_allclose(found.alarm, alarm, rtol=1e-9)
    factor = np.maximum(alarm, 1.0)[:, None] ** 0.8
    assert (factor[:2] == 1).all()
    np.testing.assert_allclose(found.std, factor * before.std)
    wider = lambda values: before.mean + factor * (values - before.mean)  # noqa: E731
    levels = (0.05, 0.5, 0.9)
    np.testing.assert_allclose(found.quantiles(levels), wider(before.quantiles(levels)))
    np.testing.assert_allclose(found.draws(np.arange(4), 3), wider(before.draws(np.arange(4), 3)))
    e = PathNoise(PathLaw.white(1), 400, 1).follow(np.arange(4), np.arange(4.0))
    np.testing.assert_allclose(found.follow(e, np.zeros(1)), wider(before.follow(e, np.zeros(1))))
    grid = np.linspace(-60, 60, 24_001)
    density = np.stack([np.exp(-found.nll(np.full((4, 1), y))[:, 0]) for y in grid])
    np.testing.assert_allclose(density.sum(axis=0) * (grid[1] - grid[0]), 1.0, atol=2e-3)
    np.testing.assert_allclose(found.scores(wider(np.full((4, 1), 0.3))), before.scores(np.full((4, 1), 0.3)))


@pytest.mark.parametrize("growth", [0.0, 0.5, 1.5])
def test_growth_is_that_of_the_errors(growth):
    rng = np.random.default_rng(1)
    alarm = np.exp(rng.uniform(-1, 1.5, 40_000))
    error = 3 * np.maximum(alarm, 1) ** growth * rng.standard_normal(40_000)
    error[::7] = np.nan
    assert _fit_growth(alarm, error) == pytest.approx(growth, abs=0.051)
    assert _fit_growth(np.minimum(alarm, 0.9), error) == 0.5  # nothing rings, and nothing is learned
    assert _fit_growth(alarm, np.full(40_000, np.nan)) == 0.5


def test_files_runtime_and_stepper_know_the_alarm():
    model = untrained(resolutions=(3, 1), precision="float64")
    model = from_fitted(map_territory(model.fitted_, [recording(0), recording(1)]))
    data = model_bytes(model.fitted_)
    assert parse_model(data, "model").territory is not None
    plain, inputs = runtime.parse(data, "model"), recording(2).inputs.copy()
    inputs[100:] *= 4
    ours, theirs = plain.simulate(inputs, samples=6, seed=3), model.simulate(inputs, samples=6, seed=3)
    assert theirs.alarm is not None
    np.testing.assert_allclose(ours.alarm, theirs.alarm, rtol=0, atol=1e-9)
    assert theirs.alarm[100:].mean() > 2 * theirs.alarm[:100].mean()
    np.testing.assert_array_equal(theirs.to_dataframe()["alarm"], theirs.alarm)
    stepper = plain.stepper(samples=6, seed=3)
    np.testing.assert_allclose([stepper.update(u).alarm for u in inputs], ours.alarm, rtol=1e-9)
    assert stepper.forecast(inputs[:3]).alarm.shape == (3,)


@pytest.mark.parametrize(
    ("key", "value"), [("reach", np.array(0.0)), ("growth", np.full(2, -1.0)), ("points", np.zeros((0, 4)))]
)
def test_a_territory_that_is_none_is_refused(key, value):
    stored = store_model(map_territory(untrained(resolutions=(3, 1)).fitted_, [recording(0)]))
    assert stored.territory is not None
    with pytest.raises(ModelFileError, match="the territory must have points"):
        unpack_model(pack_model(replace(stored, territory=stored.territory | {key: value})), "m")
