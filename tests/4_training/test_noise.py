"""The law of measurements: density and gradient against SciPy and differences, recovery, use, folds."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from recordings import recording
from scipy.optimize import approx_fprime
from scipy.stats import t as student

from mrgpssm import MRGPSSM, ConfigError
from mrgpssm.cli import main
from mrgpssm.data import Scaling, masks, take_unseen, trained_on, with_copies
from mrgpssm.estimator.choosing import fold_ensembles
from mrgpssm.estimator.fitting import leave_model, read_folds
from mrgpssm.estimator.noise import Runs, conformal_factors, fit_law, fit_noise, objective
from mrgpssm.estimator.unseen import Judged
from mrgpssm.file.model import feature_count
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.runtime.noise import StudentNoise, features
from mrgpssm.spec import arrange
from mrgpssm.training.planning import list_members
from mrgpssm.training.runs import RunDirectory

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 5}


def test_gradient_is_that_of_differences():
    rng = np.random.default_rng(1)
    phi = features(rng.standard_normal(40), rng.uniform(0.1, 2, 40), rng.standard_normal((40, 2)))
    assert phi.shape[1] == feature_count(2)
    residual, at = rng.standard_normal(40), 0.2 * rng.standard_normal(phi.shape[1] + 1)
    numeric = np.asarray(approx_fprime(at, lambda p: objective(p, residual, phi)[0], 1e-7))
    np.testing.assert_allclose(objective(at, residual, phi)[1], numeric, atol=2e-6)


def test_a_known_law_is_found_again():
    """4,000 rows, so the standard error of a log scale is about 0.016 a weight; 0.1 is five of them with room."""
    rng = np.random.default_rng(2)
    mean, deviation, drive = rng.standard_normal((4000, 1)), np.full((4000, 1), 0.5), rng.standard_normal((4000, 1))
    scale = np.exp(-1.0 + 0.5 * mean + 0.4 * drive)
    measured = mean + scale * rng.standard_t(4.0, (4000, 1))
    measured[::7] = np.nan
    found = fit_law(Runs(measured, mean, deviation, drive, np.zeros(4000)))
    again = found.scale(mean, deviation, drive)
    inside = (np.abs(mean) < 2) & (np.abs(drive) < 2)
    assert np.abs(np.log(again / scale))[inside].mean() < 0.15  # the penalty shrinks the weights a little
    assert 3.0 < found.dof[0] < 6.0
    band = again * student.ppf(0.95, found.dof[0])
    assert np.nanmean(np.abs(measured - mean)[~np.isnan(measured)] <= band[~np.isnan(measured)]) == pytest.approx(
        0.9, abs=4 * np.sqrt(0.09 / 3400)
    )


def test_recordings_that_differ_ask_for_wider_bands():
    """Four recordings whose noise differs twofold: the factor is what leaving each out asks for, computed here by hand."""
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(4), 500)
    mean, deviation, drive = rng.standard_normal((2000, 1)), np.full((2000, 1), 0.5), rng.standard_normal((2000, 1))
    size = np.array([0.1, 0.2, 0.1, 0.4])[groups][:, None]
    measured = mean + size * rng.standard_normal((2000, 1))
    measured[::11] = np.nan
    runs, ratios = Runs(measured, mean, deviation, drive, groups), []
    for g in range(4):
        law = fit_law(runs.where(groups != g))
        own = groups == g
        width = law.scale(mean[own], deviation[own], drive[own]) * student.ppf(0.95, law.dof[0])
        ratios.append((np.abs(measured - mean)[own] / width).ravel())
    everything = np.concatenate(ratios)
    expected = np.quantile(everything[~np.isnan(everything)], 0.9)
    assert expected > 1.1
    np.testing.assert_allclose(conformal_factors(runs), [expected], rtol=1e-9)
    before, after = fit_law(runs), fit_noise(runs)
    widened = after.scale(mean, deviation, drive) / before.scale(mean, deviation, drive)
    np.testing.assert_allclose(widened, expected, rtol=1e-9)
    alone = Runs(measured, mean, deviation, drive, np.zeros(2000))
    assert conformal_factors(alone) == 1


def test_far_away_the_scale_stays_within_its_edges():
    law = StudentNoise(np.full((1, feature_count(1)), 3.0), np.array([6.0]), np.array([[-1.0, 0.5]]))
    far = np.array([[-50.0], [0.0], [50.0]])
    found = np.log(law.scale(far, np.ones((3, 1)), far))
    assert found.min() >= -1.0
    assert found.max() == 0.5


def test_folds_leave_every_sequence_out_once():
    np.testing.assert_array_equal(
        masks(3, 7), ~np.array([[1, 0, 0, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1, 0]], bool)
    )
    assert masks(0, 5).shape == (0, 5)
    data = [recording(i) for i in range(5)]
    assert sorted(s.name for k in range(2) for s in take_unseen(data, 2, k)) == sorted(s.name for s in data)
    for k in range(2):
        names = {s.name for s in take_unseen(data, 2, k)}
        assert names.isdisjoint(s.name for s in trained_on(data, 2, k))
    assert with_copies(data, 2) is data


def test_few_sequences_are_cut_into_stretches():
    """Every measured value is unseen by one fold, judged there, and nowhere else."""
    data = [recording(0), recording(1, rows=80)]
    everything = with_copies(data, 3)
    assert len(everything) == 2 * (1 + 3)
    mask = masks(3, 2)
    for k in range(3):
        chosen = [s for s, used in zip(everything, mask[k], strict=True) if used]
        for whole, seen, judged in zip(data, chosen, take_unseen(data, 3, k), strict=True):
            hidden = np.asarray(np.isnan(seen.outputs).all(1))
            np.testing.assert_array_equal(hidden, ~np.isnan(judged.outputs).any(1))
            np.testing.assert_array_equal(np.where(hidden[:, None], judged.outputs, seen.outputs), whole.outputs)
            np.testing.assert_array_equal(seen.inputs, whole.inputs)
            assert abs(hidden.sum() - len(whole) / 3) <= 1
            assert np.all(np.diff(np.flatnonzero(hidden)) == 1)
    assert not mask[:, :2].any()


def test_one_recording_can_be_folded():
    model = MRGPSSM((3, 1), **arrange(**SMALL, folds=3)).fit(recording(0), progress=False)
    assert model.validation_scores_ is not None
    assert np.isfinite(model.validation_scores_.to_numpy()).all()
    assert model.bounds_.shape == (2, 1)


@pytest.fixture(scope="module")
def fitted():
    model = MRGPSSM((3, 1), **arrange(**SMALL, folds=2, fold_restarts=3, noise="student", restarts=2, ensemble=2))
    return model.fit([recording(i) for i in range(3)], progress=False)


def test_members_of_a_fold_train_on_the_same_rows_from_other_starts():
    spec = MRGPSSM((3, 1), **arrange(**SMALL, folds=2, fold_restarts=3, restarts=2)).spec.complete()
    members = list_members(spec, 4, 1)
    assert [m.number for m in members] == list(range(8))
    assert [m.scaling for m in members] == [0, 0, 1, 1, 1, 2, 2, 2]
    everything, first, second = [True] * 4, [False, True, False, True], [True, False, True, False]
    np.testing.assert_array_equal([m.training for m in members], [everything] * 2 + [first] * 3 + [second] * 3)


def test_the_best_restarts_of_a_fold_are_its_ensemble():
    """Two outputs, two restarts each, then two folds of three; every member is told by its place in the fleet."""
    spec = MRGPSSM((3, 1), **arrange(**SMALL, folds=2, fold_restarts=3, restarts=2, ensemble=2)).spec.complete()
    bounds = np.array([9.0, 9, 1, 3, 2, 5, 4, 6, 9, 9, 3, 2, 1, 7, 8, 9])
    alive = np.ones(16, bool)
    alive[[7, 13, 14, 15]] = False
    fleet: Any = SimpleNamespace(bounds=bounds, alive=alive, of_folds=np.arange(16), folds=None)
    found: Any = dict(fold_ensembles(spec, fleet, 2))
    assert found == {0: ((3, 10), (4, 11))}  # of the other fold, no restart of the second output is left
    alive[13] = True
    assert dict(fold_ensembles(spec, fleet, 2))[1] == ((5, 13),)
    fleet.folds = fleet.of_folds  # bounds are of models that have seen what folds are judged on
    assert dict(fold_ensembles(spec, fleet, 2)) == {0: ((2, 10), (3, 11)), 1: ((5, 13),)}


def test_the_models_of_folds_are_kept(fitted, tmp_path):
    assert list(fitted.folds_) == [0, 1]
    for k, fold in fitted.folds_.items():
        assert len(fold.ensemble) == 2
        own = Scaling.fit(trained_on([recording(i) for i in range(3)], 2, k))
        np.testing.assert_allclose(fold.scaling.output_mean, own.output_mean)
    run = RunDirectory(tmp_path)
    leave_model(run, Judged(fitted.fitted_, None, None, fitted.folds_))
    again = read_folds(run)
    assert list(again) == [0, 1]
    for k, fold in fitted.folds_.items():
        assert model_bytes(again[k]) == model_bytes(fold)


def test_folds_calibrate_without_validation(fitted):
    assert fitted.fitted_.noise is not None
    assert fitted.bounds_.shape == (2, 2)  # restarts, not folds
    before, after = fitted.uncalibrated_scores_, fitted.validation_scores_
    assert (after["nll"] < before["nll"]).all()  # it is fitted to these very runs
    assert (after["rmse"] == before["rmse"]).all()  # and moves no mean


def test_bands_follow_the_law(fitted):
    run = fitted.simulate(recording(5).inputs, samples=2000, seed=1)
    width = run.quantile(0.95) - run.quantile(0.05)
    for column in range(2):
        dof = fitted.fitted_.noise.dof[column]
        expected = 2 * student.ppf(0.95, dof) / np.sqrt(dof / (dof - 2))
        assert np.median(width[:, column] / run.std[:, column]) == pytest.approx(expected, rel=0.1)


def test_restarts_are_those_of_a_fit_without_folds(fitted):
    """Folds are further members: they must not change what the others learn."""
    alone = MRGPSSM((3, 1), **arrange(**SMALL, restarts=2, ensemble=2, folds=0)).fit(
        [recording(i) for i in range(3)], progress=False
    )
    first, second = (m.simulate(recording(5).inputs, samples=4).mean for m in (alone, fitted))
    np.testing.assert_allclose(first, second, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"folds": 1}, "0 or at least 2"),
        ({"folds": -1}, "folds must be a whole number"),
        ({"folds": 100}, "folds = 100 would cut 160 rows"),
        ({"early_stopping": True, "folds": 0}, "early_stopping is judged on unseen data"),
        ({"delays": 3}, "delays must be a sequence"),
        ({"delays": (0,)}, "each of delays must be a whole number, at least 1"),
        ({"delays": (2, 2)}, "delays must be at most 16 different values"),
        ({"noise": "student", "folds": 0}, "give validation sequences, or folds"),
        ({"noise": "student", "calibrate": False, "folds": 2}, "use calibrate=True"),
        ({"noise": "laplace"}, "noise must be one of gaussian, student"),
    ],
)
def test_what_cannot_work_is_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        MRGPSSM((3, 1), **arrange(**SMALL, **given)).fit([recording(0), recording(1)], progress=False)


def test_folds_that_were_all_given_up_are_spoken_of():
    model = MRGPSSM((3, 1), **arrange(**SMALL, folds=2))
    with (
        mock.patch("mrgpssm.estimator.fitting.fold_ensembles", return_value=iter(())),
        pytest.warns(UserWarning, match="the bands are not calibrated"),
    ):
        model.fit([recording(0), recording(1)], progress=False)
    assert model.validation_scores_ is None


def command(*words: str) -> int:
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_the_command_refuses_before_it_writes_and_says_what_was_learned(tmp_path, capsys):
    for seed in range(2):
        s = recording(seed)
        table = np.column_stack([s.clock() * s.dt, s.inputs, s.outputs])
        np.savetxt(tmp_path / f"{seed}.csv", table, delimiter=",", header="t,speed,load,NOx,Temp", comments="")
    words = ["fit", "--data", str(tmp_path / "*.csv"), "--inputs", "speed,load", "--outputs", "NOx,Temp", "--time", "t",
             "--resolutions", "3,1", "--noise", "student", "--run-dir", str(tmp_path / "run"), "--quiet",
             *(word for key, value in SMALL.items() for word in (f"--{key}", str(value)))]  # fmt: skip
    assert command(*words, "--folds", "0") == 2
    assert "give validation sequences, or folds" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert command(*words, "--folds", "2", "--filters", "2,10") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "files that each fold left out" in said
    assert "degrees of freedom, 90 % bands cover" in said
