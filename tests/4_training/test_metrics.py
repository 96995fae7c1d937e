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


def test_scores_of_whole_runs_are_those_of_loops(case):
    measured, samples, _ = case
    few, some = measured[:9], samples[:7, :9]
    seen = ~np.isnan(few)
    for column in range(2):
        y, x = few[seen[:, column], column], some[:, seen[:, column], column]
        size = lambda d: np.sqrt(np.mean(d**2))  # noqa: E731
        near = np.mean([size(one - y) for one in x])
        apart = np.mean([size(one - other) for i, one in enumerate(x) for j, other in enumerate(x) if i != j])
        assert metrics.energy(few, some)[column] == pytest.approx(near - apart / 2)
    terms = []
    for lag in (1, 2, 4):
        for t in range(9 - lag):
            wanted = np.mean([abs(x[t + lag, 0] - x[t, 0]) ** 0.5 for x in some])
            terms.append((lag, (abs(few[t + lag, 0] - few[t, 0]) ** 0.5 - wanted) ** 2))
    means = [np.mean([term for own, term in terms if own == lag]) for lag in (1, 2, 4)]
    assert metrics.variogram(few, some)[0] == pytest.approx(np.mean(means))
    one = metrics.energy(measured[:1], samples[:, :1])
    np.testing.assert_allclose(one, metrics.crps(measured[:1], samples[:, :1]))  # of a single row
    assert np.isnan(metrics.variogram(measured[:1], samples[:, :1])).all()
    assert np.isnan([metrics.energy(few * np.nan, some), metrics.variogram(few * np.nan, some)]).all()


def test_trajectories_that_last_as_errors_do_score_better():
    """Errors of an AR(1) process: draws with its memory against draws of the same deviation without any."""
    rng, rows, phi = np.random.default_rng(3), 150, 0.95

    def walks(count: int) -> np.ndarray:
        e = np.empty((count, rows))
        e[:, 0] = rng.standard_normal(count)
        for t in range(1, rows):
            e[:, t] = phi * e[:, t - 1] + np.sqrt(1 - phi**2) * rng.standard_normal(count)
        return e

    scores = []
    for _ in range(150):
        measured, right, white = walks(1).T, walks(100)[..., None], rng.standard_normal((100, rows, 1))
        scores.append(
            [[score(measured, x)[0] for x in (right, white)] for score in (metrics.energy, metrics.variogram)]
        )
    gain = np.diff(scores, axis=2)[..., 0]
    assert (gain.mean(axis=0) > SIGMAS * gain.std(axis=0) / np.sqrt(150)).all()
