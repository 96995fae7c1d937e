"""The way of outputs: distributions against SciPy, bands that hold what they say, and noise that is a function of its place."""

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from budget import SIGMAS, SMALL_P
from recordings import recording
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr, stdtrit
from untrained import CASES, untrained

from mrgpssm import MRGPSSM, Sequence, runtime
from mrgpssm.estimator.judges import Judge
from mrgpssm.estimator.unseen import calibrate_model
from mrgpssm.file.model import feature_count
from mrgpssm.prediction import predict
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.report.describe import column_rows
from mrgpssm.report.gather import assemble, simulate_all
from mrgpssm.report.payload import _numbers
from mrgpssm.runtime.distributions import mixture
from mrgpssm.runtime.distributions.normal import normal_cdf
from mrgpssm.runtime.distributions.student import student_nll, student_quantile
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import LEVELS, OutputLaw
from mrgpssm.runtime.paths import PathLaw

pytestmark = pytest.mark.once
DOF = np.concatenate([np.linspace(1, 4, 13), np.geomspace(5, 1e7, 20)])
CENTRAL = np.array([0.25, 0.05, 0.025, 0.75, 0.95, 0.975])


def test_distributions_are_scipys():
    z = np.linspace(-8, 8, 2001)
    np.testing.assert_allclose(normal_cdf(z), (ndtr(z), stats.norm.pdf(z)), rtol=1e-7, atol=1e-15)
    for level in (1e-6, 0.025, 0.3, 0.5, 0.75, 0.999):
        np.testing.assert_allclose(student_quantile(level, DOF), stdtrit(DOF, level), rtol=1e-10, atol=1e-12)
    rng = np.random.default_rng(0)
    r, s, dof = rng.standard_normal(50), rng.uniform(0.1, 3, 50), np.full(50, 3.7)
    np.testing.assert_allclose(student_nll(r, s, dof), -stats.t.logpdf(r, dof, scale=s), rtol=1e-12)


def test_a_mixture_is_inverted_as_a_root_finder_does():
    """Skewed samples, outliers, and noise of several sizes; where F is flat, any point of the flat part is a root."""
    rng, levels = np.random.default_rng(0), np.array([0.01, 0.05, 0.5, 0.75, 0.975])
    for case in range(40):
        count = int(rng.integers(3, 120))
        x = np.exp(rng.normal(0, [0.3, 1.5][case % 2])) * rng.standard_normal((1, count))
        x[0, 0] = 50 if case % 3 == 1 else x[0, 0] ** 3
        s = rng.uniform(1, 3, x.shape) * max(np.exp(rng.normal(-1, 1)), 0.2 * count**-0.2 * x.std())
        made = mixture._Mixture(x, s)
        found = made.solve(levels[None], made.guess(levels))[0]
        for q, level in zip(found, levels, strict=True):
            low, high = x.min() - 50 * s.max(), x.max() + 50 * s.max()
            root = brentq(lambda t, x=x, s=s, level=level: ndtr((t - x) / s).mean() - level, low, high, xtol=1e-12)
            off = min(abs(q - root) / float(made.sd[0, 0]), abs(ndtr((q - x) / s).mean() - level))
            assert off < 1e-7, (case, level)


def test_without_a_spread_of_the_samples_the_band_is_that_of_the_noise():
    found = mixture.mixture_quantiles(np.full((9, 2, 1), 3.0), np.full((9, 1), 0.5), np.array(LEVELS))
    np.testing.assert_allclose(found[:, 0, 0], 3 + 0.5 * stats.norm.ppf(LEVELS), rtol=1e-9)
    broken = np.array([0.0, np.nan, 1.0])[:, None, None]
    assert np.isnan(mixture.mixture_quantiles(broken, np.full((3, 1), 0.1), np.array(LEVELS))).all()


@pytest.fixture(scope="module")
def pool() -> np.ndarray:
    """2,000 independent free runs of a model, at their last row: what its sampler draws of an output."""
    plain = runtime.parse(model_bytes(untrained(resolutions=(3, 1), seed=1).fitted_), "model")
    found = plain.simulate(recording(2).inputs[:25], samples=2000, keep_samples=True).samples
    assert found is not None
    return (found[:, -1, 0] - found[:, -1, 0].mean()) / found[:, -1, 0].std()


def held(draws: np.ndarray, law: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Percent of truths, one more draw of the law plus noise, in 50, 90 and 95 % bands from draws (S, rows), exactly given
    the bands; and their standard errors."""
    found = OutputLaw(np.ones(1), np.full((1, 1), noise), None, PathLaw.white(1)).measure(
        draws[:, :, None], np.empty((draws.shape[1], 0))
    )
    q = found.quantiles(CENTRAL)[:, :, 0]
    below = np.array([ndtr((row[:, None] - law) / noise).mean(axis=1) for row in q])
    inside = 100 * (below[3:] - below[:3])
    return inside.mean(axis=1), inside.std(axis=1) / np.sqrt(draws.shape[1])


@pytest.mark.parametrize("noise", [3.0, 0.7, 0.1], ids=["noise", "both", "states"])
@pytest.mark.parametrize(("samples", "rows"), [(20, 600), (100, 400), (1000, 100)])
@pytest.mark.parametrize("skewed", [False, True], ids=["model", "skewed"])
def test_bands_hold_what_they_say_where_the_model_is_right(pool, samples, rows, noise, skewed):
    """Every sample and every truth is a draw of the model's own sampler, or of one with a long tail.

    Half a point is what is left of order 1/S² at 20 samples, a quarter of smoothing at more; where 20 samples know nothing
    of a skewed law beyond their outermost ones, the 95 % band holds up to a point more.
    """
    law = np.expm1(0.5 * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)) if skewed else pool
    law = (law - law.mean()) / law.std()
    draws = np.random.default_rng(samples).choice(law, (samples, rows))
    share, error = held(draws, law, noise)
    slack = np.array([0.5, 0.5, 1.2 if skewed else 0.5]) if samples == 20 else 0.25
    assert (error < 0.45).all()
    assert (np.abs(share - [50, 90, 95]) < SIGMAS * error + slack).all(), (share, error)


def test_bands_of_a_learned_law_are_quantiles_of_students_t():
    noise = StudentNoise(np.zeros((2, feature_count(1))), np.array([2.5, 9.0]), np.array([[-1.0, 0.3]] * 2))
    law = OutputLaw(np.ones(2), np.ones((1, 2)), noise, PathLaw.white(2))
    found = law.measure(np.random.default_rng(0).standard_normal((20, 5, 2)), np.zeros((5, 1)))
    for level, values in zip(LEVELS, found.quantiles(LEVELS), strict=True):
        np.testing.assert_allclose(values, found.mean + stats.t.ppf(level, noise.dof), rtol=1e-9)
    np.testing.assert_allclose(found.std[0], np.sqrt(noise.dof / (noise.dof - 2)))
    draws = (law.measure(np.zeros((300, 400, 2)), np.zeros((400, 1)))).draws(np.arange(400), seed=5)
    for column, dof in enumerate(noise.dof):
        uniform = stats.t.cdf(draws[:, :, column].ravel(), dof)
        assert stats.kstest(uniform, "uniform").pvalue > SMALL_P
        assert abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]) < SIGMAS / np.sqrt(uniform.size)


def told(model: MRGPSSM, sequences: list[Sequence], which: int = 0, seed: int = 3) -> dict[str, np.ndarray]:
    """Everything that is said of one of the sequences, draws of its measurements included."""

    def tell(piece, found, measured):
        bands = found.quantiles(LEVELS).swapaxes(0, 1)
        draws = found.draws(piece.rows, seed).swapaxes(0, 1)
        return {"mean": found.mean, "std": found.std, "bands": bands, "draws": draws,
                "samples": found.samples.swapaxes(0, 1), "nll": found.nll(measured)}  # fmt: skip

    return predict.run_freely(model.fitted_, sequences, 7, seed).gather(tell)[which]


@pytest.mark.parametrize("noise", ["gaussian", "student"])
def test_nothing_depends_on_later_rows_on_chunks_or_on_other_sequences(noise, monkeypatch):
    given: dict[str, Any] = {"noise": noise, "folds": 2} if noise != "gaussian" else {}
    model, whole = untrained(resolutions=(3, 1), precision="float64", rounds=2, **given), recording(2)
    half = Sequence(whole.inputs[:120], whole.outputs[:120], whole.dt)
    alone = told(model, [whole])
    cases = {"longer": told(model, [half]), "beside": told(model, [recording(4), whole], 1)}
    monkeypatch.setattr(predict, "_CHUNK", 1)  # chunks of 100 rows
    cases["chunks"] = told(model, [whole])
    for case, found in cases.items():
        for name, values in found.items():
            np.testing.assert_allclose(
                values, alone[name][: len(values)], rtol=1e-9, atol=1e-9, err_msg=f"{case}, {name}"
            )
    runs = [model.simulate(u, samples=7, seed=3, keep_samples=True) for u in (whole.inputs[:120], whole.inputs)]
    for level in LEVELS:
        np.testing.assert_allclose(*(r.quantile(level)[:120] for r in runs), rtol=1e-9)


def test_noise_has_a_number_for_every_row_output_and_sample_and_the_runtime_has_the_same():
    model = untrained(resolutions=(3, 1), precision="float64")
    outputs, rows = np.zeros((50, 30, 2)), np.arange(30)
    law = replace(model.fitted_, calibration=np.ones(2)).output_law
    epsilon = law.measure(outputs, np.zeros((30, 2))).draws(rows, seed=1) / law.noise_sd
    assert len(np.unique(epsilon)) == epsilon.size
    assert stats.kstest(epsilon.ravel(), "norm").pvalue > SMALL_P
    for axis in range(3):
        a, b = np.delete(epsilon, 0, axis), np.delete(epsilon, -1, axis)
        assert abs(np.mean(a * b)) < SIGMAS / np.sqrt(a.size)
    plain = runtime.parse(model_bytes(model.fitted_), "model").output_law
    both = [
        law.measure(outputs, np.zeros((30, 2))).draws(rows + 7, seed=2**33 + 1)
        for law in (plain, model.fitted_.output_law)
    ]
    np.testing.assert_allclose(*both, rtol=1e-9)


@pytest.mark.parametrize("given", [{}, {"noise": "student", "folds": 2}], ids=["temperature", "law"])
def test_calibration_simulates_once_and_scores_what_the_model_then_says(given):
    model, unseen = untrained(resolutions=(3, 1), **given).fitted_, [recording(3), recording(4)]
    plain = replace(model, calibration=np.ones(2), noise=None)
    with mock.patch.object(predict, "free_run", wraps=predict.free_run) as walks:
        found = calibrate_model(plain, [Judge(plain, unseen, "two recordings")], lambda *_: None)
    assert walks.call_count == 2  # over all rows, and over short runs after warm-ups
    assert found.before is not None
    assert found.after is not None
    again = predict.scores(found.model, unseen, 100, 0)
    np.testing.assert_allclose(found.after, again, rtol=1e-5)
    uncalibrated = replace(found.model, calibration=np.ones(2), noise=None)
    np.testing.assert_allclose(found.before, predict.scores(uncalibrated, unseen, 100, 0), rtol=1e-5)
    kind = "nll" if given else "crps"
    assert (found.after[kind].to_numpy() < found.before[kind].to_numpy()).all()


@pytest.mark.parametrize("name", [name for name in CASES if name != "recognition"])
def test_a_stepper_without_measurements_is_the_simulation(name):
    """A recognition network is shown inputs that a stepper has not seen yet."""
    plain, inputs = runtime.parse(model_bytes(untrained(**CASES[name]).fitted_), name), recording(2).inputs[:40]
    run, stepper = plain.simulate(inputs, samples=9, seed=4), plain.stepper(samples=9, seed=4)
    found = [stepper.update(u) for u in inputs[:30]]
    np.testing.assert_allclose([e.mean for e in found], run.mean[:30], rtol=1e-12)
    np.testing.assert_allclose([e.std for e in found], run.std[:30], rtol=1e-12)
    ahead = stepper.forecast(inputs[30:])
    np.testing.assert_allclose(ahead.mean, run.mean[30:], rtol=1e-12)
    np.testing.assert_allclose(ahead.std, run.std[30:], rtol=1e-12)


def test_where_the_law_says_that_noise_is_large_a_measurement_moves_less():
    """R is the law's variance less that of the samples, which tells the gain P / (P + R) of the outputs themselves."""
    plain = runtime.parse(model_bytes(untrained(resolutions=(3, 1), outputs=("NOx",)).fitted_), "model")
    plain = replace(plain, calibration=np.ones(1))
    moved, inputs = [], recording(2).inputs[:30]
    for size in (0.5, 2.0):
        law = StudentNoise(np.zeros((1, feature_count(2))), np.array([6.0]), np.full((1, 2), np.log(size)))
        stepper = replace(plain, noise=law).stepper(samples=400)
        for u in inputs:
            stepper.update(u)
        before, spread = stepper.estimate(), stepper._now(np.zeros(2)).samples.var(axis=0, ddof=1)[0, 0]
        after = stepper.update(inputs[-1], before.mean + plain.output_sd)
        deviation = before.std[0] / plain.output_sd[0]
        noise = max(deviation**2 - spread * 399 / 400, float(plain.arrays.noise_sd[0, 0]) ** 2)
        moved.append((after.mean - before.mean)[0] / plain.output_sd[0])
        assert moved[-1] == pytest.approx(spread / (spread + noise), rel=1e-9)
    assert moved[1] < 0.5 * moved[0]


def test_a_large_offset_costs_no_digits():
    """Outputs of 2e7 deviations above zero: the scores of all who score are those without the offset."""
    model, data = untrained(resolutions=(3, 1)), recording(2)
    scaling = model.fitted_.scaling
    tables = []
    for offset in (0.0, 2e7):
        shifted = replace(scaling, output_mean=scaling.output_mean + offset * scaling.output_sd)
        model.fitted_ = replace(model.fitted_, scaling=shifted)
        moved = replace(data, outputs=data.outputs + offset * scaling.output_sd)
        scored, run = model.score(moved, samples=20), model.simulate(moved, samples=20)
        assert {a.dtype for a in (run.mean, run.std, *run.quantiles.values(), *run.components.values())} == {
            np.dtype(float)
        }
        rmse = np.sqrt(np.mean((run.mean - moved.outputs) ** 2, axis=0))
        inside = np.mean((moved.outputs >= run.quantile(0.05)) & (moved.outputs <= run.quantile(0.95)), axis=0)
        evidence = assemble(
            model.fitted_, [moved], simulate_all(model.fitted_, [moved], 20, 0), training=None, name="run"
        )
        reported = evidence.scores
        tables.append(
            [
                scored["rmse"],
                scored["coverage_90"],
                rmse,
                inside,
                *([r[k] for r in reported] for k in ("rmse", "coverage_90")),
            ]
        )
        drawn = np.array(_numbers(run.mean[:, 0]), float)
        assert np.abs(drawn - run.mean[:, 0]).max() < 1e-5 * np.ptp(run.mean[:, 0])
        low, high = column_rows(evidence)[-1]["test"].split(",")[0].split(" to ")
        assert low != high
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-6)
    np.testing.assert_allclose(tables[1][0], tables[1][2], rtol=1e-9)
    np.testing.assert_allclose(tables[1][2], tables[1][4], rtol=1e-9)
