"""The paper's experiments: fleets over folds, batched evaluation, records, and what is read from them."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from mrgpssm import MRGPSSM
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling
from mrgpssm.data.synthetic import four_outputs
from mrgpssm.errors import FitError
from mrgpssm.paper import pieces
from mrgpssm.paper.config import EXPERIMENTS, Evaluation, Method
from mrgpssm.paper.evaluation import METRICS, evaluate, lay_out_runs, row_scores
from mrgpssm.paper.fleet import choose_restarts, in_units, make_problem_fleet
from mrgpssm.paper.page.results import Results
from mrgpssm.paper.page.text import make_page
from mrgpssm.paper.pieces import run_method
from mrgpssm.paper.problems import Problem, ProblemFold
from mrgpssm.paper.run import Setting, reproduce
from mrgpssm.prediction import metrics
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.provenance import Provenance
from mrgpssm.runtime.distributions.mixture import mixture_nll
from mrgpssm.spec import arrange, make_spec
from mrgpssm.training import begin, fit_fleet
from mrgpssm.training.backfit import train_turn
from mrgpssm.training.journal import Journal
from mrgpssm.training.planning import make_plan

TINY = {"resolutions": (2,), "inducing": 5, "samples": 3, "windows": 3, "window": 5, "buffer": 1, "cycles": 1,
        "steps": 2, "latent_dim": 1, "restarts": 1}  # fmt: skip

EVALUATION = Evaluation(400, 40)


@pytest.fixture(scope="module")
def problem():
    sequences = tuple(four_outputs(seed=seed, length=n, names=tuple("abcd")) for seed, n in enumerate((90, 60, 75)))
    narrow = tuple(dataclasses.replace(s, outputs=s.outputs[:, :2], output_names=("a", "b")) for s in sequences)
    return Problem("tiny", narrow, (ProblemFold((0, 1), (2,), (1,)), ProblemFold((0, 2), (1,), (0,))))


@pytest.fixture(scope="module")
def trained(problem):
    """A fleet of 2 folds x 2 outputs."""
    with floating_point("float32"):
        fleet = make_problem_fleet(make_spec(TINY).complete(), problem)
        return fleet, fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), lambda _: None)


@pytest.fixture(scope="module")
def fold_1(problem, trained):
    """The estimator as it would be with the fleet's parameters of the second fold."""
    _, fitted = trained
    training = [problem.sequences[n] for n in problem.folds[1].train]
    model, first = MRGPSSM(**arrange(**TINY, seed=1)), training[0]
    model.fitted_ = FittedModel(
        structure=make_spec(TINY).complete().structure,
        ensemble=(tuple(jax.tree.map(lambda x, m=m: x[m], in_units(fitted.state.ssm, (2,))) for m in (2, 3)),),
        scaling=Scaling.fit(training), input_names=first.input_names, output_names=first.output_names, units={},
        dt=first.dt, calibration=np.ones(2), provenance=Provenance.from_json({}, 2),
    )  # fmt: skip
    return model


def same(ours, theirs, **tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.once
def test_a_member_of_a_fleet_over_folds_trains_as_the_estimator_on_that_fold(problem, trained):
    """The plan that `MRGPSSM(seed=1).fit` makes of the second fold's files: same windows, same noise, same steps."""
    fleet, fitted = trained
    options, training, scaling = MRGPSSM(**arrange(**TINY, seed=1, folds=0)).check(
        [problem.sequences[n] for n in problem.folds[1].train]
    )
    with floating_point("float32"):
        plan, ssm = make_plan(options, training, scaling)
        start = begin(plan, ssm)
        journal = Journal(plan.settings, 1, start.alive, (), lambda _: None)
        alone = train_turn(plan, start, journal, lambda _: None)
    assert (fleet.fold.tolist(), fleet.output.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])
    same(jax.tree.map(lambda x: x[2:], fitted.state.ssm), alone.state.ssm, rtol=1e-4, atol=1e-5)
    same(jax.tree.map(lambda x: x[2:], fleet.ssm), ssm, rtol=0)
    np.testing.assert_allclose(fleet.output_sd[2:], scaling.output_sd)


@pytest.mark.slow
@pytest.mark.once
def test_a_member_of_a_fleet_over_folds_is_the_fitted_estimator(problem):
    """All of it, two components in two cycles: caches have other noise, hence the tolerance."""
    given = TINY | {"resolutions": (4, 1), "cycles": 2, "steps": 4, "samples": 400}
    with floating_point("float32"):
        fleet = make_problem_fleet(make_spec(given).complete(), problem)
        fitted = fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), lambda _: None)
    alone = MRGPSSM(**arrange(**given, seed=1, folds=0)).fit(
        [problem.sequences[n] for n in problem.folds[1].train], progress=False
    )
    for member, (_, ssm) in zip((2, 3), alone.models_, strict=True):
        same(jax.tree.map(lambda x, m=member: x[m], fitted.state.ssm), ssm, atol=0.02)
    np.testing.assert_allclose(fitted.bounds[2:], alone.bounds_[:, 0], rtol=0.05)


@pytest.mark.once
def test_evaluation_of_a_fleet_is_what_the_estimator_scores(problem, trained, fold_1):
    fleet, fitted = trained
    with floating_point("float32"):
        layout = lay_out_runs(fleet, problem)
        outcome = evaluate(fitted.state.ssm, fleet, layout, EVALUATION, seed=0, keep=(2,))
    test = problem.sequences[problem.folds[1].test[0]]
    table = fold_1.score(test, samples=400, seed=1)
    for output, member in enumerate((2, 3)):
        sd = fleet.output_sd[member]
        units = {"rmse": sd, "crps": sd}
        for name in METRICS:
            value = outcome.metrics[name][member] * units.get(name, 1.0) + (np.log(sd) if "nll" in name else 0.0)
            tolerance = 0.06 if "coverage" in name else 0.03  # 60 rows
            assert value == pytest.approx(table[name].iloc[output], abs=tolerance, rel=0.03), name
    run, scaling = fold_1.simulate(test, samples=400, seed=1), fold_1.fitted_.scaling
    mean = scaling.output_mean[0] + scaling.output_sd[0] * outcome.mean[2][0]
    np.testing.assert_allclose(mean, run.mean[:, 0], atol=0.05)
    assert outcome.sequence_rmse.shape == (4, 1)


@pytest.mark.once
def test_a_record_holds_every_member_and_a_run_in_through_the_sequence_before(problem, trained, fold_1):
    """The same fleet once more; fold 1 tests on sequence 1, which begins where sequence 0 ends."""
    fleet, fitted = trained
    method = Method("tiny", make_spec(TINY).complete())
    result = json.loads(json.dumps(run_method(method, problem, EVALUATION, show=False, traces=True)))
    members = result["members"]
    assert members["output"] == ["a", "b", "a", "b"]
    assert members["seed"] == [0, 0, 1, 1]
    np.testing.assert_allclose(members["bound"], fitted.bounds, rtol=1e-3)
    with floating_point("float32"):
        layout = lay_out_runs(fleet, problem, through=True)
        whole = evaluate(fitted.state.ssm, fleet, layout, EVALUATION, seed=0, keep=(3,))
    before, test = problem.sequences[:2]
    assert len(whole.mean[3][0]) == len(before) + len(test)
    scaled = fold_1.fitted_.scaling.outputs(test.outputs)[:, 1]
    error = np.sqrt(np.mean((scaled - whole.mean[3][0][len(before) :]) ** 2))
    assert whole.metrics["rmse"][3] == pytest.approx(error, rel=1e-4)
    assert result["through"]["rmse"][3] == pytest.approx(error, rel=1e-3)
    trace = result["traces"]["runs"]["b"]
    assert result["traces"]["rows"] == len(problem.sequences[2])
    assert len(trace["whole"]["mean"]) == len(trace["whole"]["std"]) == len(problem.sequences[2])
    first = [problem.sequences[n].outputs[:, 1] for n in problem.folds[0].train]
    assert trace["offset"] == pytest.approx(np.concatenate(first).mean())
    assert trace["scale"] == pytest.approx(fleet.output_sd[1])


@pytest.mark.once
def test_a_fleet_that_dies_is_a_record(problem, monkeypatch):
    def die(*_):
        raise FitError("all restarts were given up")

    monkeypatch.setattr(pieces, "fit_fleet", die)
    result = pieces.run_method(
        Method("tiny", make_spec(TINY).complete()), problem, EVALUATION, show=False, traces=False
    )
    assert result["failure"] == "all restarts were given up"
    assert result["members"]["alive"] == [0, 0, 0, 0]
    assert result["members"]["rmse"] == [None] * 4
    assert result["members"]["chosen"] == [1, 1, 1, 1]


@pytest.mark.once
def test_the_best_bound_is_chosen_and_nan_is_the_worst(trained):
    fleet, _ = trained
    four = dataclasses.replace(fleet, restart=np.array([0, 1, 0, 1]), output=np.zeros(4, int))
    assert choose_restarts(four, np.array([np.nan, -5.0, -np.inf, -np.inf])).tolist() == [[1], [2]]


@pytest.mark.slow
@pytest.mark.once
def test_all_experiments_at_smoke_scale(tmp_path):
    """What `mrgpssm reproduce all --scale smoke` does, and a page with all figures from what it leaves."""
    setting = Setting("smoke", None, tmp_path, show=False)
    for what in EXPERIMENTS:
        done = reproduce(what, setting, deadline=None, only=None, tell=lambda line: None)
        assert done.ran
        assert not done.left
        again = reproduce(what, setting, deadline=None, only=None, tell=lambda line: None)
        assert not again.ran
    results = Results.read(tmp_path, "smoke")
    text = make_page(results, ())
    assert "not run" not in text.replace("| not run |\n", "|\n").split("## What differs")[1].replace('"not run"', "")
    pytest.importorskip("matplotlib")
    from mrgpssm.paper.page.figures import draw_all

    assert len(draw_all(results, tmp_path)) == 8


@pytest.mark.float64
def test_row_scores_are_the_metrics():
    rng = np.random.default_rng(0)
    measured, samples, noise = (
        rng.standard_normal((2, 7)),
        rng.standard_normal((2, 5, 7)),
        rng.standard_normal((2, 5, 7)),
    )
    sd = 0.4
    terms = np.asarray(row_scores(*map(jnp.asarray, (measured, samples, sd, noise))))
    for k in range(2):
        y, x, noise_sd = measured[k][:, None], samples[k][:, :, None], np.array([sd])
        draws = x + sd * noise[k][:, :, None]
        mean, std = x.mean(0), np.sqrt(x.var(0) + sd**2)
        values = terms[:, k].mean(axis=1)
        assert values[0] == 1
        assert values[1] == pytest.approx(float(metrics.rmse(y, mean)[0]) ** 2)
        assert values[2] == pytest.approx(float(np.nanmean(mixture_nll(y, x, noise_sd))))
        assert values[3] == pytest.approx(float(metrics.gaussian_nll(y, mean, std)[0]))
        assert values[4] == pytest.approx(float(metrics.crps(y, draws)[0]))
        inside = np.abs(np.mean(ndtr((y - x) / sd), axis=0) - 0.5)
        np.testing.assert_allclose(values[5:], [np.mean(inside <= q / 2) for q in (0.5, 0.9, 0.95)])
