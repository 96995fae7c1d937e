"""Several restarts as one mixture, and bands whose width was adjusted on held-out recordings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recordings import recording
from scipy.stats import norm

from mrgpssm import MRGPSSM, ConfigError
from mrgpssm.prediction import metrics
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.prediction.predict import run_freely
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {
    "resolutions": (3, 1), "inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 10,
    "folds": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted() -> MRGPSSM:
    data = [recording(0), recording(1)]
    return MRGPSSM(**arrange(**SMALL, restarts=3, ensemble=2)).fit(data, validation=recording(4), progress=False)


def test_the_best_restarts_are_kept_in_the_order_of_their_bounds(fitted):
    assert len(fitted.fitted_.ensemble) == 2
    assert fitted.models_[0][1] is fitted.fitted_.ensemble[0][0]
    one, other = (np.asarray(r[0].raw_observation_noise) for r in fitted.fitted_.ensemble)
    assert not np.array_equal(one, other)


def test_a_mixture_holds_the_samples_of_its_models(fitted):
    plain = replace(fitted.fitted_, calibration=np.ones(2), territory=None)
    inputs = recording(2).inputs

    def samples(ensemble, count):
        model = MRGPSSM(**arrange(**SMALL))
        model.fitted_ = replace(plain, ensemble=ensemble)
        return model.simulate(inputs, samples=count, keep_samples=True)

    def states(ensemble, count):
        pieces = run_freely(replace(plain, ensemble=ensemble), [recording(2)], count, 0).pieces
        return np.concatenate([piece.outputs for piece in pieces], axis=1)

    best, both = samples(plain.ensemble[:1], 5), samples(plain.ensemble, 10)
    second = samples(plain.ensemble[::-1], 10)
    assert best.samples is not None
    assert both.samples is not None
    assert second.samples is not None
    np.testing.assert_array_equal(both.samples[:5], best.samples)
    assert not np.allclose(both.samples[5:], both.samples[:5])
    drawn = states(plain.ensemble, 10)
    np.testing.assert_array_equal(drawn[:5], states(plain.ensemble[:1], 5))
    noise = np.mean([[float(ssm.observation_variance()[0]) for ssm in models] for models in plain.ensemble], axis=0)
    np.testing.assert_allclose(plain.scaling.outputs(both.mean), drawn.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((both.std / plain.scaling.output_sd) ** 2, drawn.var(0) + noise, rtol=1e-4)
    odd = samples(plain.ensemble, 7)
    assert odd.samples is not None
    assert odd.samples.shape[0] == 7


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_the_best_temperature_is_the_ratio_of_the_deviations_where_all_is_normal(truth):
    rng = np.random.default_rng(0)
    centre, half = rng.standard_normal((4000, 2)), norm.ppf(0.95)
    measured = centre + truth * rng.standard_normal((4000, 2))
    measured[::7, 0] = np.nan
    found = metrics.best_temperature(measured, centre, centre - half, centre + half)
    np.testing.assert_allclose(found, truth, rtol=0.06)  # a 90 % quantile of 3,400 numbers: three standard errors


def test_a_temperature_makes_a_skewed_band_of_any_width_hold_nine_tenths():
    rng = np.random.default_rng(1)
    mean, scale = rng.standard_normal((2000, 1)), np.exp(rng.standard_normal((2000, 1)))
    measured = mean + scale * rng.standard_t(4, (2000, 1))
    low, high = mean - scale, mean + 3 * scale
    factor = metrics.best_temperature(measured, mean, low, high)
    inside = (measured >= mean + factor * (low - mean)) & (measured <= mean + factor * (high - mean))
    assert abs(inside.mean() - 0.9) <= 1 / 2000
    assert metrics.best_temperature(measured * np.nan, mean, low, high) == 1.0
    assert metrics.best_temperature(mean, mean, low, high) == 1 / 8


def test_calibration_widens_the_bands_alone_and_lowers_the_crps_on_what_it_saw(fitted):
    before, after = fitted.uncalibrated_scores_, fitted.validation_scores_
    assert (after["crps"] <= before["crps"] * 1.001).all()
    np.testing.assert_allclose(after["rmse"], before["rmse"], rtol=1e-6)
    factor = fitted.fitted_.calibration
    assert (factor != 1).any()
    inputs, plain = recording(2).inputs, MRGPSSM(**arrange(**SMALL))
    plain.fitted_ = replace(fitted.fitted_, calibration=np.ones(2))
    np.testing.assert_allclose(fitted.simulate(inputs).std, factor * plain.simulate(inputs).std, rtol=1e-5)


def test_without_validation_or_when_asked_nothing_is_adjusted_and_files_say_so(fitted):
    data = [recording(0), recording(1)]
    plain = MRGPSSM(**arrange(**SMALL)).fit(data, progress=False)
    asked = MRGPSSM(**arrange(**SMALL, calibrate=False)).fit(data, validation=recording(4), progress=False)
    assert (plain.fitted_.calibration == 1).all()
    assert (asked.fitted_.calibration == 1).all()
    assert plain.validation_scores_ is None
    fitted.score(replace(recording(2), outputs=recording(2).outputs[::-1]))
    again = MRGPSSM(**arrange(**SMALL, restarts=3, ensemble=2)).fit(data, validation=recording(4), progress=False)
    assert model_bytes(again.fitted_) == model_bytes(fitted.fitted_)  # what it is tested on leaves no trace


def test_an_ensemble_is_no_larger_than_the_restarts():
    with pytest.raises(ConfigError, match=r"at most restarts = 2; got 3\."):
        MRGPSSM((1,), **arrange(restarts=2, ensemble=3)).fit(recording(0))
