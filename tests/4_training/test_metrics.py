"""Metrics against closed forms and brute force."""

from importlib.util import find_spec

import numpy as np
import pytest
from budget import SIGMAS
from scipy import stats

from mrgpssm.prediction import metrics
from mrgpssm.prediction.forecast import Forecast
from mrgpssm.runtime.distributions.mixture import mixture_nll

pytestmark = pytest.mark.once


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    measured = rng.standard_normal((200, 2))
    measured[3, 1] = np.nan
    return measured, 0.5 * rng.standard_normal((30, 200, 2)), np.array([0.4, 0.7])


def test_errors_of_the_mean(case):
    measured, samples, _ = case
    mean = samples.mean(0)
    seen = ~np.isnan(measured[:, 1])
    expected = np.sqrt(np.mean((measured[seen, 1] - mean[seen, 1]) ** 2))
    np.testing.assert_allclose(metrics.rmse(measured, mean)[1], expected)
    np.testing.assert_allclose(metrics.nrmse(measured, mean)[1], expected / measured[seen, 1].std())
    perfect = np.nan_to_num(measured)
    np.testing.assert_allclose(metrics.fit_percent(measured, perfect), 100.0)
    flat = np.broadcast_to(np.nanmean(measured, axis=0), measured.shape)
    np.testing.assert_allclose(metrics.fit_percent(measured, flat), 0.0, atol=1e-12)


def test_densities(case):
    measured, samples, noise = case
    mean, std = samples.mean(0), samples.std(0)
    loops = np.array(
        [[np.mean(stats.norm.pdf(measured[t, k], samples[:, t, k], noise[k])) for k in (0, 1)] for t in range(200)]
    )
    np.testing.assert_allclose(
        np.nanmean(mixture_nll(measured, samples, noise), axis=0), np.nanmean(-np.log(loops), axis=0)
    )
    expected = np.nanmean(-stats.norm.logpdf(measured, mean, std), axis=0)
    np.testing.assert_allclose(metrics.gaussian_nll(measured, mean, std), expected)


def test_crps_is_that_of_a_gaussian():
    """σ (z (2Φ(z) - 1) + 2φ(z) - 1/√π) for draws from N(0, σ²)."""
    rng = np.random.default_rng(1)
    y, sigma = np.array([[0.3], [-1.5], [2.0]]), 1.7
    draws = sigma * rng.standard_normal((200_000, 3, 1))
    z = y / sigma
    exact = sigma * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(metrics.crps_terms(y, draws), exact, atol=0.01)


def test_crps_equals_its_double_sum(case):
    measured, samples, _ = case
    draws = samples[:8, :5]
    count = len(draws)
    pairs = np.abs(draws[:, None] - draws[None]).sum((0, 1)) / (count * (count - 1))
    expected = np.abs(draws - measured[:5]).mean(0) - pairs / 2
    np.testing.assert_allclose(metrics.crps_terms(measured[:5], draws), expected)


def test_coverage_is_nominal_for_the_truth():
    rng = np.random.default_rng(2)
    noise = np.array([0.5])
    measured = rng.standard_normal((4000, 1)) + noise * rng.standard_normal((4000, 1))
    edge = np.sqrt(1.25) * stats.norm.ppf(0.95)
    assert abs(metrics.coverage(measured, -edge, edge)[0] - 0.9) < SIGMAS * np.sqrt(0.09 / 4000)


def test_missing_values_count_nowhere():
    measured = np.array([[np.nan], [0.0]])
    assert metrics.coverage(measured, np.array([[-1.0], [-1.0]]), np.array([[1.0], [1.0]]))[0] == 1.0


def test_forecasts_become_datasets_where_xarray_is():
    run = Forecast(
        np.arange(3.0),
        np.zeros((3, 1)),
        np.ones((3, 1)),
        {0.5: np.zeros((3, 1))},
        {"a": np.ones((3, 1))},
        np.zeros(1),
        ("y",),
        {},
    )
    if find_spec("xarray") is None:
        with pytest.raises(ImportError, match=r"install mrgpssm\[interop\]"):
            run.to_xarray()
        return
    data = run.to_xarray()
    assert float(data["predictions"]["components"].sel(component="a", output="y").sum()) == 3.0
