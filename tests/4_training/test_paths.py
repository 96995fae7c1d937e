"""Trajectories of measurements: at every row the calibrated law, from row to row and output to output what was learned."""

from dataclasses import replace

import numpy as np
import pytest
from recordings import recording
from scipy import stats
from untrained import untrained

from mrgpssm import ModelFileError, runtime
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.estimator.paths import Scored, fit_paths
from mrgpssm.file.model import feature_count, pack_model, unpack_model
from mrgpssm.prediction.fitted import model_bytes, parse_model, store_model
from mrgpssm.prediction.forecast import Forecast
from mrgpssm.runtime.distributions.student import student_cdf, student_of_normal
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import OutputLaw
from mrgpssm.runtime.paths import PathLaw, PathNoise, rank_scores

pytestmark = pytest.mark.once

SIGMAS, SMALL_P = 4, 1e-4
TIED = np.array([[1.0, 0.6], [0.6, 1.0]])
LAW = PathLaw(np.array([0.4, 0.2]), np.array([0.8, 0.5]), np.array([20.0, 5.0]), TIED)
STUDENT = StudentNoise(np.zeros((2, feature_count(1))), np.array([2.5, 9.0]), np.array([[-1.0, 0.3]] * 2))


def test_student_numbers_are_those_of_scipy():
    g = np.stack([np.linspace(-6, 6, 501)] * 3, axis=1)
    dof = np.array([2.05, 4.0, 52.0])
    with np.errstate(divide="ignore"):
        wanted = -np.sign(g) * stats.t.ppf(stats.norm.cdf(-np.abs(g)), dof)
    np.testing.assert_allclose(student_of_normal(g, dof), wanted, rtol=1e-4, atol=1e-12)
    t = np.array([[-300.0, -1.0, 0.0, 0.3, np.nan, 40.0]]).T
    np.testing.assert_allclose(student_cdf(t, dof), np.where(np.isnan(t), np.nan, stats.t.cdf(t, dof)), rtol=1e-9)


def test_ranks_become_normal_scores_of_unit_variance():
    samples = np.random.default_rng(0).standard_normal((50, 4, 2)) ** 3
    wanted = stats.norm.ppf((stats.rankdata(samples, axis=0) - 0.5) / 50)
    found = rank_scores(samples)
    np.testing.assert_allclose(found, wanted / wanted.std(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.var(axis=0), 1.0)


def test_noise_of_paths_lasts_and_is_shared_as_its_law_says():
    count, clock = 4000, np.concatenate([np.arange(30.0), 40 + 2 * np.arange(30.0)])
    e = PathNoise(LAW, count, seed=3).follow(np.arange(60), clock)
    error = SIGMAS / np.sqrt(count)
    np.testing.assert_allclose(e.mean(axis=0), 0.0, atol=error)
    np.testing.assert_allclose(e.var(axis=0), 1.0, atol=error * np.sqrt(2))
    for first, second in ((0, 1), (3, 13), (29, 30), (35, 40)):
        apart = clock[second] - clock[first]
        wanted = LAW.lasting * np.exp(-apart / LAW.memory)
        np.testing.assert_allclose(np.mean(e[:, first] * e[:, second], axis=0), wanted, atol=error * np.sqrt(2))
    # At one row both parts of e have the ties of their law, as far as their memories are alike.
    phi = np.exp(-1 / LAW.memory)
    alike = np.sqrt(np.prod(1 - phi**2)) / (1 - np.prod(phi))
    wanted = 0.6 * (np.sqrt(np.prod(LAW.lasting)) * alike + np.sqrt(np.prod(1 - LAW.lasting)))
    assert np.mean(e[:, 29, 0] * e[:, 29, 1]) == pytest.approx(wanted, abs=error * np.sqrt(2))


def test_noise_of_paths_does_not_depend_on_company():
    """Neither on how a run is cut, nor on how many samples there are."""
    clock, rows = np.arange(20.0), np.arange(20)
    whole = PathNoise(LAW, 6, seed=1).follow(rows, clock)
    cut = PathNoise(LAW, 6, seed=1)
    np.testing.assert_array_equal(
        np.concatenate([cut.follow(rows[:7], clock[:7]), cut.follow(rows[7:], clock[7:])], 1), whole
    )
    np.testing.assert_array_equal(PathNoise(LAW, 4, seed=1).follow(rows, clock), whole[:4])
    assert not np.allclose(PathNoise(LAW, 6, seed=2).follow(rows, clock), whole)


@pytest.mark.parametrize("noise", [None, STUDENT], ids=["gaussian", "student"])
def test_draws_at_one_row_are_those_of_the_calibrated_law(noise):
    """However errors last: the levels of all draws of a row under its law are uniform."""
    count = 3000
    samples = 0.3 * np.random.default_rng(1).standard_normal((count, 40, 2))
    law = OutputLaw(np.array([1.5, 0.7]), np.full((1, 2), 0.2), noise, LAW)
    found = law.measure(samples, np.zeros((40, 1)))
    paths = found.follow(PathNoise(LAW, count, seed=5).follow(np.arange(40), np.arange(40.0)), LAW.own)
    for row in (0, 17, 39):
        for c in range(2):
            drawn = paths[:, row, c]
            if noise is None:
                wanted = stats.norm(found.mean[row, c], found.std[row, c]).cdf
            else:
                wanted = stats.t(noise.dof[c], found.mean[row, c], found.scale[row, c]).cdf  # pyright: ignore
            assert stats.kstest(drawn, wanted).pvalue > SMALL_P
    ranks = rank_scores(paths[:, :, 0])
    lasting = [np.mean(ranks[:, k] * ranks[:, k + 5]) for k in range(30)]
    assert np.mean(lasting) > 0.1


@pytest.mark.parametrize("noise", [None, STUDENT], ids=["gaussian", "student"])
def test_scores_of_measurements_are_normal_numbers_of_their_levels(noise):
    rng = np.random.default_rng(0)
    law = OutputLaw(np.ones(2), np.full((1, 2), 0.5), noise, LAW)
    found = law.measure(rng.standard_normal((30, 6, 2)), np.zeros((6, 1)))
    measured = rng.standard_normal((6, 2))
    measured[2, 1] = np.nan
    if noise is None:
        level = stats.norm.cdf((measured - found.samples) / 0.5).mean(axis=0)
    else:
        level = stats.t.cdf((measured - found.mean) / found.scale, noise.dof)  # pyright: ignore[reportOperatorIssue]
    np.testing.assert_allclose(found.scores(measured), stats.norm.ppf(level), rtol=1e-6)


def scored(law: PathLaw, rows: int, learned: bool, seed: int) -> list[Scored]:
    """Scores of made-up sequences that follow a law; the samples' own errors last for 60 rows."""
    tables = []
    own = PathLaw(np.zeros(2), np.ones(2), np.full(2, 60.0), np.eye(2))
    for k in range(8):
        numbers, clock = np.arange(rows), np.arange(float(rows))
        z = PathNoise(own, 21, seed + 50 + k).follow(numbers, clock)
        e = PathNoise(law, 1, seed + k).follow(numbers, clock)[0]
        g = np.sqrt(law.own) * z[0] + np.sqrt(1 - law.own) * e
        share = np.broadcast_to(0.0 if learned else law.own, g.shape)
        tables.append(Scored(g, z[1:].transpose(1, 0, 2), share))
    return tables


@pytest.mark.parametrize("learned", [True, False])
def test_a_law_of_paths_is_found_again(learned):
    """From 8 recordings of 5,000 rows, 80 and more memories each: shares to 0.15, memories to a factor of 1.6."""
    law = PathLaw(np.array([0.4, 0.2]), np.array([0.8, 0.5]), np.array([12.0, 5.0]), TIED)
    found = fit_paths(scored(law, 5000, learned, seed=0), learned)
    np.testing.assert_allclose(found.own, law.own, atol=0.15 if learned else 1e-12)
    np.testing.assert_allclose(found.lasting, law.lasting, atol=0.15)
    assert (np.abs(np.log(found.memory / law.memory)) < np.log(1.6)).all()
    assert found.ties[0, 1] == pytest.approx(0.6, abs=0.15)
    twice = fit_paths(scored(law, 5000, learned, seed=0), learned, gap=2.0)
    np.testing.assert_allclose(twice.memory, 2 * found.memory)


def test_errors_that_do_not_last_are_told_from_those_that_do():
    white = replace(LAW, own=np.zeros(2), lasting=np.zeros(2), ties=np.eye(2))
    found = fit_paths(scored(white, 3000, True, seed=9), True)
    spent = found.own + (1 - found.own) * found.lasting * np.exp(-1 / found.memory)
    assert (spent < 0.1).all()
    assert abs(found.ties[0, 1]) < 0.1


def test_what_was_never_measured_leaves_no_trace():
    tables = scored(LAW, 400, True, seed=2)
    missing = [replace(t, g=np.where([True, False], np.nan, t.g)) for t in tables]
    found = fit_paths(missing, True)
    assert np.isfinite([found.own, found.lasting, found.memory]).all()
    assert found.ties[0, 1] == 0.0
    assert found.own[0] == found.lasting[0] == 0.0


def test_bands_of_means_hold_where_errors_last():
    """A mean over 50 rows, errors that last for 20: paths without memory would hold less than a third."""
    law = PathLaw(np.zeros(1), np.ones(1), np.full(1, 20.0), np.eye(1))
    output = OutputLaw(np.ones(1), np.ones((1, 1)), None, law)
    found, rows = output.measure(np.zeros((400, 50, 1)), np.zeros((50, 0))), np.arange(50)
    truth = PathNoise(law, 2000, seed=11).follow(rows, rows).mean(axis=(1, 2))
    for own, low, high in ((law, 0.86, 0.94), (PathLaw.white(1), 0.0, 0.34)):
        means = found.follow(PathNoise(own, 400, seed=12).follow(rows, rows), own.own).mean(axis=(1, 2))
        edges = np.quantile(means, [0.05, 0.95])
        assert low < np.mean((truth > edges[0]) & (truth < edges[1])) < high


def test_a_model_keeps_its_law_of_paths_in_files_and_runtime():
    model = untrained(resolutions=(3, 1), precision="float64")
    outputs = len(model.fitted_.output_names)
    law = PathLaw(np.full(outputs, 0.3), np.full(outputs, 0.7), np.full(outputs, 9.0), np.eye(outputs))
    model = from_fitted(replace(model.fitted_, paths=law))
    data = model_bytes(model.fitted_)
    again = parse_model(data, "model").paths
    assert again is not None
    np.testing.assert_array_equal(again.memory, law.memory)
    inputs = recording(2).inputs
    ours, theirs = (
        m.simulate(inputs, samples=5, seed=3, keep_samples=True) for m in (runtime.parse(data, "model"), model)
    )
    assert ours.samples is not None
    assert theirs.samples is not None
    np.testing.assert_allclose(ours.samples, theirs.samples, rtol=0, atol=1e-9)
    plain = from_fitted(replace(model.fitted_, paths=None)).simulate(inputs, samples=5, seed=3, keep_samples=True)
    assert plain.samples is not None
    assert not np.allclose(plain.samples, theirs.samples)
    np.testing.assert_array_equal(plain.std, theirs.std)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("own", 1.2, "from 0 to 1"),
        ("lasting", -0.1, "from 0 to 1"),
        ("memory", 0.0, "positive"),
        ("ties", 2.0, "correlat"),
    ],
)
def test_a_law_of_paths_that_is_none_is_refused(key, value, words):
    stored = store_model(untrained(resolutions=(3, 1)).fitted_)
    count = len(stored.output_names)
    paths = {"own": np.zeros(count), "lasting": np.zeros(count), "memory": np.ones(count), "ties": np.eye(count)}
    paths[key] = np.full_like(paths[key], value)
    with pytest.raises(ModelFileError, match=words):
        unpack_model(pack_model(replace(stored, paths=paths)), "m")


def test_a_band_for_whole_runs_holds_whole_trajectories():
    """Of independent normal rows, the largest of 40 has a known distribution; an output that lasts has a narrower one."""
    rng, rows = np.random.default_rng(5), 40
    fresh, still = rng.standard_normal((4000, rows)), np.repeat(rng.standard_normal((4000, 1)), rows, axis=1)
    mean, std = np.tile([3.0, -1.0], (rows, 1)), np.tile([2.0, 0.5], (rows, 1))
    samples = mean + std * np.stack([fresh, still], axis=2)
    run = Forecast(np.arange(rows), mean, std, {}, {}, np.zeros(2), ("a", "b"), {}, samples)
    low, high = run.whole_band(0.9)
    np.testing.assert_allclose((low + high) / 2, mean)
    c = ((high - mean) / std)[0]
    wanted = stats.norm.ppf((1 + np.array([0.9 ** (1 / rows), 0.9])) / 2)
    np.testing.assert_allclose(c, wanted, rtol=0.03)  # standard error 0.01
    inside = ((samples >= low) & (samples <= high)).all(axis=1).mean(axis=0)
    np.testing.assert_allclose(inside, 0.9, atol=1e-3)
    few = replace(run, samples=samples[:9])
    np.testing.assert_allclose(
        ((few.whole_band(0.9)[1] - mean) / std)[0], np.abs((samples[:9] - mean) / std).max((0, 1))
    )
    with pytest.raises(ValueError, match=r"9 trajectories give bands for whole runs up to level 0\.9; got 0\.95"):
        few.whole_band(0.95)
    with pytest.raises(ValueError, match="ask simulate"):
        replace(run, samples=None).whole_band()
    assert run.score_paths(mean).index.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"measured must have shape \(40, 2\), as the forecast; got \(40, 1\)"):
        run.score_paths(mean[:, :1])
