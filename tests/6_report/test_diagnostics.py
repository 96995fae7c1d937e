"""The statistics behind the report against loops, SciPy and chance."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import signal, stats

from mrgpssm.prediction import metrics
from mrgpssm.report.statistics import (
    autocorrelation,
    common_edges,
    coverage_curve,
    cross_correlation,
    cross_limit,
    fill_gaps,
    horizon_edges,
    log_average,
    mean_by_bin,
    outside,
    pit_shares,
    rms_by_horizon,
    segment_rows,
    shares,
    welch,
    white_limit,
    worst_segments,
)
from mrgpssm.report.thinning import bucket_rows, thin_edge, thin_line, thin_time
from mrgpssm.report.verdict import Findings, Verdict, judge, overall

pytestmark = pytest.mark.once


def holes(rng, values, share=0.1):
    return np.where(rng.uniform(size=values.shape) < share, np.nan, values)


def smooth(rng, rows, memory):
    return np.asarray(signal.lfilter([1], [1, -memory], rng.standard_normal(rows)))


def test_cross_correlation_is_the_mean_over_known_pairs_within_recordings():
    rng = np.random.default_rng(0)
    first = [holes(rng, rng.standard_normal(n)) for n in (40, 7, 25)]
    second = [holes(rng, np.roll(a, 2) + 0.5 * rng.standard_normal(len(a))) for a in first]
    lags = 9
    whole = [np.concatenate(p) for p in (first, second)]
    (ma, sa), (mb, sb) = ((np.nanmean(w), np.nanstd(w)) for w in whole)
    for index, k in enumerate(range(-lags, lags + 1)):
        products = [
            (a[t] - ma) * (b[t + k] - mb)
            for a, b in zip(first, second, strict=True)
            for t in range(len(a))
            if 0 <= t + k < len(b) and not np.isnan(a[t] * b[t + k])
        ]
        expected = np.mean(products) / (sa * sb) if products else 0.0
        assert cross_correlation(first, second, lags)[index] == pytest.approx(expected, abs=1e-12)
    assert autocorrelation(first, 4)[0] == pytest.approx(1.0)
    assert autocorrelation([np.ones(20)], 3) == pytest.approx(0.0)


def test_limits_are_kept_by_chance_as_often_as_they_say():
    rng = np.random.default_rng(1)
    assert white_limit(400) == pytest.approx(stats.norm.ppf(0.995) / 20)
    count, beyond_white, beyond_slow = 600, 0, 0
    for _ in range(count):
        r = autocorrelation([rng.standard_normal(400)], 5)[5]
        beyond_white += abs(r) > white_limit(400)
        a, b = [smooth(rng, 1500, 0.9)], [smooth(rng, 1500, 0.8)]
        limit = cross_limit(autocorrelation(a, 60), autocorrelation(b, 60), 1500)
        beyond_slow += abs(cross_correlation(a, b, 3)[3]) > limit
    error = np.sqrt(0.01 * 0.99 / count)
    assert abs(beyond_white / count - 0.01) < 3 * error
    assert abs(beyond_slow / count - 0.01) < 4 * error
    assert beyond_slow / count < 0.05  # the white limit would be passed by about a third


def test_pit_shares_count_and_are_even_for_honest_forecasts():
    rng = np.random.default_rng(2)
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    measured = holes(rng, rng.standard_normal(4000))
    quantiles = np.repeat(stats.norm.ppf(levels)[:, None], 4000, axis=1)
    edges = np.concatenate([[-np.inf], quantiles[:, 0], [np.inf]])
    known = measured[~np.isnan(measured)]
    counted = [np.mean((known > a) & (known <= b)) for a, b in pairwise(edges)]
    np.testing.assert_allclose(pit_shares(measured, quantiles), counted, atol=1e-12)
    width = np.diff(np.concatenate([[0], levels, [1]]))
    error = np.sqrt(width * (1 - width) / len(known))
    assert np.all(np.abs(pit_shares(measured, quantiles) - width) < 4 * error)
    nominal, actual = coverage_curve(measured, levels, quantiles)
    np.testing.assert_allclose(nominal, [0.5, 0.8])
    for value, (low, high) in zip(actual, ((1, 3), (0, 4)), strict=True):
        inside = metrics.coverage(measured[:, None], quantiles[low][:, None], quantiles[high][:, None])
        assert value == pytest.approx(inside[0])


@pytest.mark.parametrize("rows", [64, 65])
def test_welch_is_scipys(rows):
    rng = np.random.default_rng(3)
    piece = smooth(rng, 1000, 0.7) + 3
    frequency, density = welch([piece], 0.1, rows)
    theirs = signal.welch(piece, 10.0, "hann", rows, rows - rows // 2, detrend="constant")
    np.testing.assert_allclose(frequency, theirs[0])
    np.testing.assert_allclose(density, theirs[1], rtol=1e-10, atol=1e-15)
    halves = [welch([p], 0.1, rows)[1] for p in (piece[:500], piece[500:])]
    np.testing.assert_allclose(welch([piece[:500], piece[500:], piece[:9]], 0.1, rows)[1], np.mean(halves, 0))


def test_log_average_keeps_a_flat_spectrum_flat_and_orders_bands():
    frequency = np.fft.rfftfreq(512, 0.1)
    centre, density = log_average(frequency, np.full(len(frequency), 2.0))
    np.testing.assert_allclose(density, 2.0)
    assert np.all(np.diff(centre) > 0)
    assert segment_rows([100]) == 16
    assert segment_rows([10**6]) == 16_384


def test_gaps_are_filled_along_straight_lines():
    assert fill_gaps(np.array([np.nan, 1.0, np.nan, 3.0, np.nan])).tolist() == [1, 1, 2, 3, 3]
    assert fill_gaps(np.array([np.nan, np.nan])).tolist() == [0, 0]


def test_errors_by_horizon_are_those_of_a_loop():
    rng = np.random.default_rng(4)
    elapsed = [0.1 * np.arange(n) for n in (300, 170)]
    values = [holes(rng, rng.standard_normal(len(t))) for t in elapsed]
    edges = horizon_edges(29.9, 0.1)
    centre, rms = rms_by_horizon(elapsed, values, edges)
    found = {}
    for t, v in zip(elapsed, values, strict=True):
        for at, value in zip(t, v, strict=True):
            if at > 0.05 and not np.isnan(value):
                band = max(k for k in range(len(edges) - 1) if edges[k] <= at + 1e-7)
                found.setdefault(band, []).append(value**2)
    expected = [np.sqrt(np.mean(found[band])) for band in sorted(found)]
    np.testing.assert_allclose(rms, expected)
    assert np.all(np.diff(centre) > 0)


@pytest.mark.parametrize(("rows", "most"), [(1000, 100), (1001, 100), (37, 10), (50, 100), (13, 2)])
def test_thinned_lines_keep_every_extreme_in_its_order(rows, most):
    rng = np.random.default_rng(5)
    values, time = holes(rng, rng.standard_normal(rows), 0.3), np.arange(rows, dtype=float)
    bucket = bucket_rows(rows, most)
    thin, at = thin_line(values, bucket), thin_time(time, bucket)
    assert len(thin) == len(at) <= max(most, 2)
    assert np.all(np.diff(at) >= 0)
    assert np.nanmin(thin) == np.nanmin(values)
    assert np.nanmax(thin) == np.nanmax(values)
    if bucket > 1:
        for k in range(len(thin) // 2):
            part = values[k * bucket : (k + 1) * bucket]
            known = part[~np.isnan(part)]
            pair = thin[2 * k : 2 * k + 2]
            if not len(known):
                assert np.isnan(pair).all()
                continue
            assert sorted(pair) == sorted([known.min(), known.max()])
            assert list(known).index(pair[0]) <= list(known).index(pair[1])
    for upper, extreme in ((True, np.max), (False, np.min)):
        edge = thin_edge(values, bucket, upper)
        assert len(edge) == len(thin)
        half = max(bucket // 2, 1)
        for k, value in enumerate(edge):
            part = values[k * half : (k + 1) * half]
            known = part[~np.isnan(part)]
            assert np.isnan(value) if not len(known) else value == extreme(known)


def test_worst_segments_are_those_of_a_search_over_all():
    rng = np.random.default_rng(6)
    error = holes(rng, smooth(rng, 300, 0.9))
    error[40:70] = np.nan
    rows, taken, expected = 20, np.zeros(300, bool), []
    means = []
    for start in range(281):
        part = error[start : start + rows]
        known = part[~np.isnan(part)]
        means.append(np.sqrt(np.mean(known**2)) if len(known) >= 10 else -1)
    for start in np.argsort(means)[::-1]:
        if means[start] >= 0 and not taken[start : start + rows].any() and len(expected) < 3:
            expected.append((int(start), pytest.approx(means[start])))
            taken[start : start + rows] = True
    assert worst_segments(error, rows, 3) == expected
    assert worst_segments(np.full(30, np.nan), 10, 3) == []
    assert worst_segments(np.array([1.0, 2.0]), 10, 3) == [(0, pytest.approx(np.sqrt(2.5)))]


def test_inputs_are_binned_and_compared_as_loops_do():
    rng = np.random.default_rng(7)
    training, test = rng.uniform(-1, 1, (200, 2)), rng.uniform(-1.5, 1, (100, 2))
    edges = common_edges(training[:, 0], test[:, 0], 8)
    assert shares(test[:, 0], edges).sum() == pytest.approx(1)
    values = rng.standard_normal(100)
    for k, mean in enumerate(mean_by_bin(test[:, 0], values, edges)):
        last = k == 7
        inside = [v for x, v in zip(test[:, 0], values, strict=True) if edges[k] <= x and (x < edges[k + 1] or last)]
        assert np.isnan(mean) if not inside else mean == pytest.approx(np.mean(inside))
    each, some = outside(training, test)
    low, high = training.min(0), training.max(0)
    beyond = [[not low[j] <= row[j] <= high[j] for j in range(2)] for row in test]
    np.testing.assert_allclose(each, np.mean(beyond, axis=0))
    assert some == pytest.approx(np.mean([any(row) for row in beyond]))
    assert len(common_edges(np.ones(3), np.ones(3))) == 31


@pytest.mark.parametrize(
    ("found", "grade", "words"),
    [
        (Findings(90, 0.9), "good", "explains 99 %"),
        (Findings(95, 0.9), "good", "explains 99.8 %"),
        (Findings(70, 0.8), "good", "holds 80 %"),
        (Findings(69.9, 0.9), "doubtful", "only 91 %"),
        (Findings(29, 0.9), "bad", "only 50 %"),
        (Findings(-5, 0.9), "bad", "no better than the mean"),
        (Findings(np.nan, 0.0), "bad", "not finite"),
        (Findings(90, 0.7), "doubtful", "too narrow"),
        (Findings(90, 0.5), "bad", "only 50 %"),
        (Findings(90, 0.995), "doubtful", "too wide"),
        (Findings(90, 0.9, "load", 0.4), "doubtful", "follows the input load"),
        (Findings(90, 0.9, "load", -0.29), "good", "explains"),
        (Findings(90, 0.9, seen_in_training=True), "doubtful", "trained on"),
        (Findings(20, 0.9, "load", 0.4, True), "bad", "fit 20 %"),
    ],
)
def test_verdicts_follow_the_table(found, grade, words):
    verdict = judge(found)
    assert verdict.grade == grade
    assert words in verdict.reason
    assert verdict.reason.endswith(".")


def test_the_worst_output_gives_the_verdict():
    good, bad = Verdict("good", "Fine."), Verdict("bad", "Off.")
    assert overall({"a": good}) == good
    assert overall({"a": good, "b": good}).reason == "Both outputs pass. a: Fine."
    assert overall({"a": good, "b": bad, "c": bad}) == Verdict("bad", "b: Off. (2 of 3 outputs are bad.)")
