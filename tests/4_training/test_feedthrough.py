"""Feed-through: what acts when, against loops; no row looks ahead; and a system that needs it is found and learned."""

from typing import Any

import numpy as np
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, Sequence, runtime
from mrgpssm.advice.automatic import choose, find_feedthrough
from mrgpssm.arrays.drive import Drive
from mrgpssm.data import Scaling, apply_drive
from mrgpssm.data.ranges import Recording
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.spec import Bands, Training
from mrgpssm.training.linear.feedthrough import one_step_ratio

pytestmark = pytest.mark.once
GIVEN: dict[str, Any] = {"resolutions": (3, 1), "precision": "float64", "filters": (4,), "delays": (2,)}


@pytest.mark.parametrize(("delays", "lags"), [((), (1,)), ((5,), (5, 1)), ((1, 4), (1, 4))])
def test_a_step_is_driven_by_the_next_row_and_the_one_before(delays, lags):
    u = np.random.default_rng(0).standard_normal((12, 2))
    drive = Drive((), delays, feedthrough=True)
    assert drive.lags == lags
    assert drive.width(2) == len(drive.names(("a", "b"))) == 2 * (1 + len(lags))
    found = apply_drive(drive, Sequence(u, u[:, :1], 1.0)).inputs
    for row in range(12):
        after = min(row + 1, 11)  # nothing is known after the last
        expected = [u[after], *(u[max(after - lag, 0)] for lag in lags)]
        np.testing.assert_array_equal(found[row], np.concatenate(expected))


def changed(inputs: np.ndarray, row: int) -> np.ndarray:
    other = inputs.copy()
    other[row] += 3.0
    return other


@pytest.mark.parametrize("feedthrough", [False, True])
def test_an_input_acts_on_its_own_row_with_feedthrough_and_never_before(feedthrough):
    model, inputs = untrained(**GIVEN, feedthrough=feedthrough), recording(2).inputs[:60]
    plain = runtime.parse(model_bytes(model.fitted_), "m")
    first = 40 if feedthrough else 41
    paths = {
        "simulate": lambda u: model.simulate(u, samples=3).mean,
        "mean": model.simulate_mean,
        "runtime": lambda u: plain.simulate(u, samples=3).mean,
        "warm": lambda u: model.simulate(u[20:], warmup=(u[:20], np.full((20, 2), np.nan)), samples=3).mean,
    }
    for name, run in paths.items():
        apart = np.abs(run(changed(inputs, 40)) - run(inputs)).max(axis=1)
        moved = np.flatnonzero(apart > 1e-9)[0] + (20 if name == "warm" else 0)
        assert moved == first, name


def test_the_first_input_of_a_run_acts_on_the_last_step_of_the_warm_up():
    """A warm-up without outputs is a run that begins earlier."""
    model, inputs = untrained(**GIVEN, feedthrough=True), recording(2).inputs[:60]
    whole = model.simulate(inputs, samples=400, seed=3).mean[20:]
    warm = model.simulate(inputs[20:], warmup=(inputs[:20], np.full((20, 2), np.nan)), samples=400, seed=3).mean
    spread = model.simulate(inputs, samples=400, seed=3).std[20:]
    assert (np.abs(warm - whole) < 5 * np.sqrt(2 / 400) * spread).all()  # other noise, the same drive


def test_the_stepper_waits_for_the_next_input():
    model, inputs = untrained(**GIVEN, feedthrough=True), recording(2).inputs[:50]
    plain = runtime.parse(model_bytes(model.fitted_), "m")
    whole, stepper = plain.simulate(inputs, samples=6, seed=1), plain.stepper(6, seed=1)
    found = [stepper.update(u).mean for u in inputs[:30]]
    np.testing.assert_allclose(found, whole.mean[:30], rtol=1e-12)
    kept, ahead = stepper.state, stepper.forecast(inputs[30:]).mean
    np.testing.assert_allclose(ahead, whole.mean[30:], rtol=1e-12)
    held = stepper.estimate().mean
    np.testing.assert_allclose(held, stepper.forecast(np.repeat(inputs[29:30], 2, axis=0)).mean[0], rtol=1e-12)
    np.testing.assert_allclose([stepper.update(u).mean for u in inputs[30:]], ahead, rtol=1e-12)
    stepper.state = kept
    np.testing.assert_allclose([stepper.update(u).mean for u in inputs[30:]], ahead, rtol=1e-12)


def at_once(seed: int, share: float, rows: int = 800) -> Sequence:
    """y_t = 0.8 y_{t-1} + 0.5 u_{t-1} + share tanh(u_t), measured with noise."""
    rng = np.random.default_rng(seed)
    u, y = rng.standard_normal(rows), np.zeros(rows)
    for t in range(1, rows):
        y[t] = 0.8 * y[t - 1] + 0.5 * u[t - 1]
    y = y + share * np.tanh(u) + 0.02 * rng.standard_normal(rows)
    return Sequence(u[:, None], y[:, None], 1.0, name=f"{seed}")


def test_feedthrough_is_found_where_there_is_some():
    for share, expected in ((1.0, True), (0.2, True), (0.0, False)):
        assert [find_feedthrough([at_once(seed, share)]) for seed in range(3)] == [expected] * 3
    assert not find_feedthrough([at_once(0, 1.0, rows=60)])  # too few rows to tell
    spec, reasons, *_ = choose(MRGPSSM().spec, [at_once(0, 1.0)], validated=False)
    assert spec.structure.feedthrough
    assert any(reason.startswith("feed-through: inputs help") for reason in reasons)
    assert not choose(MRGPSSM(feedthrough=False).spec, [at_once(0, 1.0)], validated=False).spec.structure.feedthrough


def test_the_ratio_is_that_of_two_regressions_by_hand():
    s = at_once(4, 0.1, 500)
    scaling = Scaling.fit([s])
    u, y = scaling.inputs(s.inputs), scaling.outputs(s.outputs)
    rows, ratios = np.arange(10, 500), []
    past = np.column_stack([np.ones(490), *(x[rows - k] for k in range(1, 11) for x in (y, u))])
    both = np.column_stack([past, u[rows]])
    for own, other in ((slice(245, None), slice(245)), (slice(245), slice(245, None))):
        errors = []
        for x in (both, past):
            w = np.linalg.lstsq(x[own], y[rows][own], rcond=None)[0]
            errors.append(np.mean((y[rows][other] - x[other] @ w) ** 2))
        ratios.append(errors[0] / errors[1])
    assert one_step_ratio([Recording(u, y)]) == pytest.approx(max(ratios), rel=1e-4)


def test_a_system_with_feedthrough_is_learned_with_it_alone():
    training = Training(samples=4, windows=8, window=20, buffer=4, cycles=3, steps=50)
    errors = {}
    for feedthrough in (False, True):
        model = MRGPSSM((1,), 2, 10, feedthrough=feedthrough, training=training, bands=Bands(calibrate=False))
        model.fit(at_once(0, 1.0), progress=False)
        errors[feedthrough] = model.score(at_once(1, 1.0), samples=20, warmup_rows=20)["rmse"].item()
    assert errors[True] < 0.5 * errors[False]
    assert errors[False] > 0.5  # tanh(u) has a deviation of 0.63, and nobody can foresee it
