"""Baselines against oracles that are written differently, and against leaks of the test data."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from places import GOLDEN
from recordings import recording
from scipy import stats
from scipy.signal import lfilter

from mrgpssm import ConfigError, DataError, Sequence
from mrgpssm.baselines import ARX, GRU, METHODS, BoostedTrees, OutputError, StaticRegression, Subspace
from mrgpssm.baselines.bands import NORMAL_TAIL, Calibration, QuantileBands, calibrate, normal_quantiles
from mrgpssm.baselines.compare import compare, methods_named
from mrgpssm.baselines.gru import fit_together
from mrgpssm.baselines.gru.layout import network_features
from mrgpssm.cli.main import app
from mrgpssm.data.ranges import RowFold, RowRange, folds, judge, leave_one_out, merge
from mrgpssm.prediction import metrics
from mrgpssm.prediction.forecast import LEVELS
from mrgpssm.training.linear.lags import lag_spans, shorter, span_means
from mrgpssm.training.linear.regression import Normal

pytestmark = pytest.mark.once
QUICK = {
    "trees": lambda: BoostedTrees(iterations=10, quantile_iterations=3, rows=200),
    "gru": lambda: GRU(width=8, steps=4, batch=2, window=10, burn=4, restarts=2),
    "arx": lambda: ARX(orders=(0, 1, 2)),
    "subspace": lambda: Subspace(orders=(1, 2), horizons=(4,), strides=(1,)),
    "oe": lambda: OutputError(orders=(1, 2), horizons=(4,), strides=(1,)),
    "static": lambda: StaticRegression(degrees=(1, 2)),
}
COLUMNS = ["rmse", "nrmse", "fit_percent", "nll", "nll_gaussian", "crps", "coverage_50", "coverage_90", "coverage_95"]


def response(numerator: list[float], denominator: list[float], signal: np.ndarray) -> np.ndarray:
    return np.asarray(lfilter(numerator, denominator, signal, axis=0))


def lagged(seed: int, rows: int = 400, noise: float = 0.02) -> Sequence:
    """y follows tanh(2 u) with a lag of about 10 rows: nothing that the current input alone could tell."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(-1, 1, rows // 5), 5)
    y = response([0.1], [1, -0.9], np.tanh(2 * u)) + noise * rng.standard_normal(rows)
    return Sequence(u[:, None], y[:, None])


# Bands and scores


def test_quantile_crps_is_that_of_a_gaussian():
    y, mean, sd = np.array([[0.3], [-1.5], [9.0]]), 0.4, 1.7
    levels = (np.arange(2000) + 0.5) / 2000
    quantiles = np.broadcast_to(stats.norm.ppf(levels, mean, sd)[:, None, None], (2000, 3, 1))
    z = (y - mean) / sd
    exact = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(metrics.quantile_crps_terms(y, quantiles), exact, rtol=1e-3)


def normal_bands(mean: np.ndarray, sd: float) -> QuantileBands:
    tails = np.full((2, *mean.shape), NORMAL_TAIL * sd)
    return QuantileBands(mean, mean[None] + sd * stats.norm.ppf(LEVELS)[:, None, None], tails)


def test_bands_of_normal_quantiles_are_nearly_normal():
    mean, sd = np.array([[2.0], [-1.0]]), 0.7
    bands = normal_bands(mean, sd)
    np.testing.assert_allclose(bands.std, sd, rtol=0.01)
    for level in (0.03, 0.2, 0.5, 0.9):
        np.testing.assert_allclose(bands.quantile(level), mean + sd * stats.norm.ppf(level))
    y = np.array([[2.3], [-1.9]])
    np.testing.assert_allclose(bands.nll(y), -stats.norm.logpdf(y, mean, sd))


def test_the_density_integrates_to_one_and_matches_the_quantiles():
    values = np.array([-1.0, -0.8, 0.0, 0.3, 1.5, 2.0, 4.0]).reshape(7, 1, 1)
    bands = QuantileBands(values[3], values, np.array([0.2, 0.9]).reshape(2, 1, 1))
    grid = np.linspace(values.min() - 8, values.max() + 25, 400_001)
    many = QuantileBands(
        grid[:, None],
        np.broadcast_to(values, (len(LEVELS), len(grid), 1)),
        np.broadcast_to(bands.tails, (2, len(grid), 1)),
    )
    density = np.exp(-many.nll(grid[:, None]))[:, 0]
    step = grid[1] - grid[0]
    total = np.cumsum(density) * step
    assert total[-1] == pytest.approx(1.0, abs=1e-3)
    for level in (0.01, 0.1, 0.6, 0.99):
        assert np.interp(bands.quantile(level).item(), grid, total) == pytest.approx(level, abs=1e-3)
    first = np.sum(grid * density) * step
    assert bands.std.item() == pytest.approx(np.sqrt(np.sum((grid - first) ** 2 * density) * step), rel=1e-2)


def test_calibration_gives_every_level_its_share():
    """Raw bands that are shifted, far too narrow, and normal where the errors are skewed."""
    rng = np.random.default_rng(1)
    mean = rng.standard_normal((4000, 2))
    measured = mean + rng.gamma(1.5, 0.4, mean.shape)
    measured[::50, 1] = np.nan
    raw = mean[None] + 0.05 * stats.norm.ppf(LEVELS)[:, None, None]
    bands = calibrate(raw, measured).apply(mean, raw)
    for level, values in zip(LEVELS, bands.values, strict=True):
        np.testing.assert_allclose(metrics.coverage(measured, -np.inf * np.ones(2), values), level, atol=2e-3)
    residuals = (measured - mean)[:, 0]
    alone = calibrate(normal_quantiles(mean), measured).apply(mean)
    np.testing.assert_allclose(alone.quantile(0.95)[:, 0] - mean[:, 0], np.quantile(residuals, 0.95), atol=0.01)


def test_crossing_quantiles_are_put_in_order():
    raw = np.array([3.0, 1.0, 2.0, 2.0, 5.0, 4.0, 4.0]).reshape(7, 1, 1)
    same = Calibration(np.zeros(1), np.ones((7, 1)), np.full((2, 1), NORMAL_TAIL))
    assert (np.diff(same.apply(raw[3], raw).values, axis=0) > 0).all()


def test_scores_are_in_the_data_s_units():
    train, test = [recording(k) for k in range(3)], recording(9)
    inflated = [Sequence(s.inputs, 1000 * s.outputs, s.dt, None, s.input_names, s.output_names) for s in (*train, test)]
    small = QUICK["static"]().fit(train, progress=False).score(test)
    large = QUICK["static"]().fit(inflated[:3], progress=False).score(inflated[3])
    assert list(small.columns) == COLUMNS
    np.testing.assert_allclose(large["rmse"], 1000 * small["rmse"], rtol=1e-6)
    np.testing.assert_allclose(large["crps"], 1000 * small["crps"], rtol=1e-6)
    np.testing.assert_allclose(large["nll"], small["nll"] + np.log(1000), rtol=1e-6)
    np.testing.assert_allclose(large["coverage_90"], small["coverage_90"])


# Features and folds


def test_lag_features_are_what_loops_say():
    inputs = np.random.default_rng(2).standard_normal((40, 2))
    spans = ((0, 0), (1, 1), (2, 3), (4, 7))
    expected = np.empty((40, 8))
    for t in range(40):
        for k, (first, last) in enumerate(spans):
            rows = [inputs[max(t - lag, 0)] for lag in range(first, last + 1)]
            expected[t, 2 * k : 2 * k + 2] = np.mean(rows, axis=0)
    np.testing.assert_allclose(span_means(inputs, spans), expected, atol=1e-12)
    slow, state = network_features(inputs, (5.0,))[:, 2:], inputs[0]
    for t in range(40):
        state = state + (inputs[t] - state) / 5.0
        np.testing.assert_allclose(slow[t], state, atol=1e-12)


def test_spans_follow_the_length_of_the_data():
    assert lag_spans([20_000, 9_000], 1024)[-1] == (512, 1023)
    assert lag_spans([20_000, 9_000], 1024)[:3] == ((0, 0), (1, 1), (2, 3))
    assert lag_spans([500], 1024)[-2:] == ((15, 15), (16, 31))
    assert lag_spans([20], 1024) == ((0, 0), (1, 1))
    assert shorter(lag_spans([20_000], 1024), 16) == 7


def test_every_row_is_left_out_once_and_never_learned_from_meanwhile():
    for lengths in ([50], [30, 40], [10, 20, 30, 40, 50]):
        judged = np.concatenate([np.zeros(n) for n in lengths])
        starts = np.cumsum([0, *lengths])
        for fold in folds(lengths, 3):
            learned = {(p.index, t) for p in fold.train for t in range(p.start, p.stop)}
            for p in fold.test:
                judged[starts[p.index] + p.start : starts[p.index] + p.stop] += 1
                assert not learned & {(p.index, t) for t in range(p.start, p.stop)}
        assert (judged == 1).all()
    left = [fold.test[0] for fold in leave_one_out([7, 8, 9, 10], 3)]
    assert len(set(left)) == 3
    assert merge([RowRange(0, 5, 9), RowRange(0, 0, 5), RowRange(1, 0, 3)]) == [RowRange(0, 0, 9), RowRange(1, 0, 3)]


def test_blocks_are_judged_after_their_own_warmup_and_recordings_from_their_first_row():
    blocks = [p for fold in folds([1000], 3) for p in fold.test]
    assert [(p.start, p.warmup) for p in blocks] == [(200 * k, 25) for k in range(5)]
    assert (blocks[1].warm, blocks[1].test_rows) == (slice(200, 225), slice(225, 400))
    assert all(p.warmup == 0 for fold in folds([50, 60, 70], 3) for p in fold.test)


def test_candidates_are_compared_by_a_likelihood_in_which_every_piece_has_its_own_variance():
    """The first candidate is better on the short quiet piece, the second on the long loud one, by the same factor."""
    split = [RowFold((), (RowRange(0, 0, 10),)), RowFold((), (RowRange(0, 10, 40, 5),))]
    measured = np.zeros((35, 1))
    measured[3] = np.nan
    held = np.concatenate([np.full((10, 1), 0.1), np.full((25, 1), 3.0)])
    other = np.concatenate([np.full((10, 1), 0.2), np.full((25, 1), 1.5)])
    expected = [(9 * np.log(a**2) + 25 * np.log(b**2)) / 34 for a, b in ((0.1, 3.0), (0.2, 1.5))]
    np.testing.assert_allclose([judge(h, measured, split).item() for h in (held, other)], expected, atol=1e-6)
    assert judge(np.inf * held, measured, split).item() == np.inf


def test_the_ridge_solves_its_normal_equations():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((80, 3)) * [1, 10, 0.1] + 4, rng.standard_normal(80)
    fit = Normal.of(x, y).solve(0.3)
    centred = x - x.mean(0)
    expected = np.linalg.inv(centred.T @ centred + 0.3 * 80 * np.diag(x.var(0))) @ centred.T @ (y - y.mean())
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-5)
    assert fit(x).mean() == pytest.approx(y.mean())


# Methods


def test_static_regression_recovers_a_polynomial():
    rng = np.random.default_rng(5)

    def make() -> Sequence:
        u = rng.uniform(-1, 1, (300, 2))
        return Sequence(u, (1 + u[:, 0] - 2 * u[:, 0] * u[:, 1] + u[:, 1] ** 2)[:, None])

    model = StaticRegression().fit([make(), make(), make()], progress=False)
    assert model.score(make())["fit_percent"].item() > 97  # the outermost 1 % of the inputs is held at its edge


def test_trees_learn_memory_and_their_bands_are_calibrated():
    train, test = [lagged(k) for k in range(4)], [lagged(k) for k in (8, 9)]
    model = BoostedTrees(iterations=40, quantile_iterations=10).fit(train, progress=False)
    static = StaticRegression().fit(train, progress=False).score(test)
    scores = model.score(test)
    assert scores["rmse"].item() < 0.4 * static["rmse"].item()
    assert 0.75 < scores["coverage_90"].item() <= 1.0
    assert json.dumps(model.describe_choice())


def test_the_gru_learns_memory():
    train, test = [lagged(k) for k in range(3)], lagged(9)
    options = {"width": 12, "steps": 150, "batch": 4, "window": 30, "burn": 15, "restarts": 2, "learning_rate": 2e-2}
    model = GRU(**options).fit(train, progress=False)
    static = StaticRegression().fit(train, progress=False).score(test)
    assert model.score(test)["rmse"].item() < 0.4 * static["rmse"].item()
    assert len(model.members()) == 2


@pytest.mark.slow
def test_a_fleet_of_grus_is_each_of_them():
    sets = [[recording(k) for k in (0, 1, 2)], [recording(k) for k in (3, 4, 5)]]
    together = fit_together([QUICK["gru"](), QUICK["gru"]()], sets, progress=False)
    alone = QUICK["gru"]().fit(sets[1], progress=False)
    u = recording(7).inputs
    np.testing.assert_allclose(together[1].simulate(u).mean, alone.simulate(u).mean, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", list(METHODS))
def test_simulations_see_no_measured_output_of_the_test(name):
    """Shuffled, missing or absent test outputs change nothing; the warm-up's outputs may, the fit is left alone."""
    train, test = [recording(k) for k in range(3)], recording(8)
    model = QUICK[name]().fit(train, progress=False)
    shuffled = np.random.default_rng(0).permutation(test.outputs)
    meta = (test.dt, None, test.input_names, test.output_names)
    warm = (train[0].inputs, train[0].outputs)
    for warmup in (None, warm):
        first = model.simulate(test, warmup=warmup)
        for other in (
            Sequence(test.inputs, shuffled, *meta),
            Sequence(test.inputs, np.nan * shuffled, *meta),
            test.inputs,
        ):
            again = model.simulate(other, warmup=warmup)
            np.testing.assert_array_equal(first.mean, again.mean)
            np.testing.assert_array_equal(first.quantile(0.95), again.quantile(0.95))
    assert first.mean.shape == first.std.shape == test.outputs.shape
    assert (first.quantile(0.05) <= first.quantile(0.95)).all()
    strided = model.simulate(test, warmup=warm, stride=3, quantiles=(0.1,))
    np.testing.assert_allclose(strided.mean, first.mean[::3])
    scores = model.score(test)
    assert list(scores.columns) == COLUMNS
    assert np.isfinite(scores.to_numpy()).all()
    json.dumps(model.describe_choice() | model.get_params())


@pytest.mark.parametrize(
    "name", ["trees", "arx", "subspace", "oe", "static", pytest.param("gru", marks=pytest.mark.slow)]
)
def test_one_short_sequence_with_gaps_in_its_outputs_is_enough(name):
    s = recording(0)
    outputs = s.outputs.copy()
    outputs[40:50, 0] = np.nan
    model = QUICK[name]().fit(Sequence(s.inputs, outputs), progress=False)
    run = model.simulate(recording(1).inputs, warmup=(s.inputs, outputs))
    assert np.isfinite(run.mean).all()
    assert np.isfinite(run.std).all()


def test_what_cannot_work_is_said_in_one_sentence():
    s = recording(0)
    with pytest.raises(ConfigError, match="call fit first"):
        ARX().simulate(s.inputs)
    model = QUICK["static"]().fit(s, validation=recording(1), progress=False)
    assert model.validation_scores_ is not None
    with pytest.raises(DataError, match="inputs: 1 columns were given for 2 inputs: speed, load"):
        model.simulate(s.inputs[:, :1])
    with pytest.raises(DataError, match="or a pair"):
        model.simulate(s.inputs, warmup=s.inputs)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="stride must be at least 1"):
        model.simulate(s.inputs, stride=0)
    uneven = Sequence(s.inputs, s.outputs, s.dt, np.arange(len(s)) ** 1.1)
    with pytest.raises(DataError, match="even sampling"):
        ARX().fit(uneven)
    with pytest.raises(ConfigError, match="There is no baseline 'forest'; choose baselines, or from trees, gru"):
        methods_named("forest,arx")
    with pytest.raises(DataError, match="is among the training data too"):
        compare([s, recording(1)], [s], ("static",))
    with pytest.raises(DataError, match="at least 24 rows"):
        GRU().fit(Sequence(s.inputs[:20], s.outputs[:20]), progress=False)


def test_a_comparison_fits_and_scores_each_method():
    found = compare([recording(k) for k in range(3)], [recording(5)], ("static", "arx"), progress=False)
    assert list(found) == ["static", "arx"]
    assert found["arx"].scores.loc["NOx", "rmse"] < found["static"].scores.loc["NOx", "rmse"]


def test_evaluate_prints_the_comparison(tmp_path, monkeypatch, capsys):
    """From the shell: tables in, one table out, the same numbers in the JSON file; and one sentence where it cannot."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("abcd"):
        s = recording(seed)
        columns = dict(zip(("speed", "load", "NOx", "Temp"), np.hstack([s.inputs, s.outputs]).T, strict=True))
        pd.DataFrame(columns).to_csv(f"{name}.csv", index=False)
    command = ["evaluate", str(GOLDEN), "d.csv", "--samples", "4", "--out", "scores.json"]
    app(
        [*command, "--against", "arx,static", "--train", "a.csv", "--train", "b.csv", "--train", "c.csv"],
        standalone_mode=False,
    )
    printed = capsys.readouterr()
    assert "MRGPSSM" in printed.out
    assert "static" in printed.out
    assert "ARX: done" in printed.err
    found = json.loads((tmp_path / "scores.json").read_text())
    assert list(found["baselines"]) == ["arx", "static"]
    assert found["baselines"]["arx"]["scores"]["NOx"].keys() == found["scores"]["NOx"].keys()
    with pytest.raises(ConfigError, match="name them with --train FILES"):
        app([*command, "--against", "baselines"], standalone_mode=False)
    with pytest.raises(ConfigError, match="say which with --against baselines"):
        app([*command, "--train", "a.csv"], standalone_mode=False)
    with pytest.raises(DataError, match="is among the training data too"):
        app([*command, "--against", "static", "--train", "*.csv"], standalone_mode=False)


def test_trees_without_scikit_learn_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(ConfigError, match=r"Boosted trees need scikit-learn; install mrgpssm\[baselines\]"):
        methods_named("baselines")
