"""The stepper: a free run without measurements, a Kalman filter where the model is linear."""

from dataclasses import replace

import numpy as np
import pytest
from places import GOLDEN
from recordings import recording

from mrgpssm import DataError, load, runtime
from mrgpssm.arrays.drive import Drive
from mrgpssm.runtime.arrays import Arrays
from mrgpssm.runtime.stepper import correct
from mrgpssm.runtime.walk import RunState

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def golden() -> runtime.RuntimeModel:
    return runtime.load(GOLDEN)


def test_without_measurements_it_is_the_free_run(golden):
    model, inputs = replace(golden, noise=None), recording(2).inputs
    run, stepper = model.simulate(inputs, samples=9, seed=4), model.stepper(samples=9, seed=4)
    found = [stepper.update(u) for u in inputs]
    np.testing.assert_allclose([e.mean for e in found], run.mean, rtol=1e-12)
    np.testing.assert_allclose([e.std for e in found], run.std, rtol=1e-12)


def test_an_estimator_makes_the_same_stepper(golden):
    inputs = recording(2).inputs[:5]
    ours, theirs = (model.stepper(samples=6, seed=1) for model in (load(GOLDEN), golden))
    np.testing.assert_array_equal([ours.update(u).mean for u in inputs], [theirs.update(u).mean for u in inputs])


def test_a_state_can_be_kept_and_a_forecast_moves_nothing(golden):
    inputs, stepper = recording(2).inputs, golden.stepper(samples=8)
    for u, y in zip(inputs[:70], recording(2).outputs, strict=False):
        stepper.update(u, y)
    kept, ahead = stepper.state, stepper.forecast(inputs[70:90])
    assert stepper.state.row == 70
    walked = [stepper.update(u).mean for u in inputs[70:90]]
    np.testing.assert_allclose(ahead.mean, walked, rtol=1e-12)
    stepper.state = kept
    np.testing.assert_array_equal([stepper.update(u).mean for u in inputs[70:90]], walked)


def test_the_correction_is_the_kalman_update_with_the_samples_own_moments():
    """Against the matrix formulas, written with joint covariances and `inv`; a missing output changes nothing."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((2, 3, 2, 40)) * rng.uniform(0.5, 2, (2, 3, 2, 1))
    measured, noise = np.array([0.7, np.nan]), np.array([0.3, 0.3])
    after = correct(states, states[:, :, 1].sum(axis=1), measured, noise)
    np.testing.assert_array_equal(after[1], states[1])
    joint, moved = states[0].reshape(6, 40), after[0].reshape(6, 40)
    H = np.array([[0.0, 1, 0, 1, 0, 1]])
    P = np.cov(joint)
    K = P @ H.T @ np.linalg.inv(H @ P @ H.T + 0.3)
    np.testing.assert_allclose(moved.mean(1), joint.mean(1) + (K @ (0.7 - H @ joint.mean(1, keepdims=True)))[:, 0])
    np.testing.assert_allclose(np.cov(moved), (np.eye(6) - K @ H) @ P, atol=1e-12)


def linear_model(golden: runtime.RuntimeModel) -> runtime.RuntimeModel:
    """Two components of one dimension with a silent GP: x' = (1 + h A) x + h (B u + b) + N(0, h Q), y = x1 + x2 + noise."""
    A, B, b = np.array([-0.3, -0.6]), np.array([[0.5, 0.1], [-0.4, 0.8]]), np.array([0.1, -0.2])
    one = (1, 2, 1)
    arrays = Arrays(
        A.reshape(*one, 1), B.reshape(1, 2, 1, 2), b.reshape(one), np.full(one, 0.09), np.zeros((*one, 3, 3)),
        np.ones((1, 2, 3)), np.zeros((*one, 3, 3)), np.zeros(one), np.zeros((*one, 3)), np.zeros((*one, 3, 3)),
        np.array([[0.4]]), np.zeros((2, 0), int),
    )  # fmt: skip
    start = np.full((1, 2, 1), 0.5), np.full((1, 2, 1, 1), 0.6)
    return replace(
        golden, output_names=("y",), groups=((0,),), rounds=1, resolutions=(5, 1), input_mean=np.zeros(2),
        input_sd=np.ones(2), output_mean=np.zeros(1), output_sd=np.ones(1), calibration=np.ones(1), arrays=arrays,
        initial_mean=start[0], initial_factor=start[1], drive=Drive(), noise=None,
    )  # fmt: skip


def test_it_is_a_kalman_filter_where_the_model_is_linear(golden):
    """Filtered mean and deviation of every row, against the matrix formulas; errors shrink as 1 / √samples and have a deviation of
    1.6 (mean) and 0.6 (variance) of what independent samples would have, measured on seeds 0 to 5."""
    rng, count = np.random.default_rng(1), 20_000
    u, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    y[[3, 4, 17]] = np.nan
    stepper = linear_model(golden).stepper(samples=count, seed=2)
    h = np.array([0.2, 1.0])
    F, G = np.eye(2) + np.diag(h * [-0.3, -0.6]), h[:, None] * np.array([[0.5, 0.1], [-0.4, 0.8]])
    m, P, H, R = np.full(2, 0.5), 0.36 * np.eye(2), np.ones((1, 2)), 0.16
    for t in range(30):
        found = stepper.update(u[t], np.array([y[t]]))
        if not np.isnan(y[t]):
            K = P @ H.T / (H @ P @ H.T + R)
            m, P = m + K[:, 0] * (y[t] - H @ m), (np.eye(2) - K @ H) @ P
        variance = float((H @ P @ H.T)[0, 0])
        assert abs(found.mean[0] - float((H @ m)[0])) < 10 * np.sqrt(variance / count), t
        assert abs((found.std[0] ** 2 - R) / variance - 1) < 5 * np.sqrt(2 / count), t
        m, P = F @ m + G @ u[t] + h * [0.1, -0.2], F @ P @ F.T + np.diag(h * 0.09)


def test_measurements_bring_it_closer_to_a_truth_of_its_own_making(golden):
    inputs = recording(2).inputs
    course, _ = golden.course(inputs, np.ones(len(inputs)))
    truth = golden.output_mean + golden.output_sd * RunState.draw(golden, 3, seed=99).walk(course)
    followed, free = golden.stepper(samples=50), golden.stepper(samples=50)
    rng, errors = np.random.default_rng(0), np.zeros(2)
    noise_sd = golden.arrays.noise_sd[:2, 0] * golden.output_sd
    for u, y in zip(inputs, truth[0], strict=True):
        guesses = followed.update(u, y + noise_sd * rng.standard_normal(2)), free.update(u)
        errors += [np.sum((g.mean - y) ** 2) for g in guesses]
    assert errors[0] < 0.8 * errors[1]


def test_bad_use_gets_one_sentence(golden):
    stepper = golden.stepper(samples=4)
    with pytest.raises(DataError, match=r"one column each for speed, load; got \(1, 3\)"):
        stepper.update(np.zeros(3))
    with pytest.raises(DataError, match="one finite number, or NaN, for each of NOx, Temp"):
        stepper.update(np.zeros(2), np.zeros(1))
    with pytest.raises(DataError, match="this stepper's is"):
        stepper.state = golden.stepper(samples=8).state
