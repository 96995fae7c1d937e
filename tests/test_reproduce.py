"""The paper's experiments: fleets over folds, batched evaluation, records, and what is read from them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mrgpssm import MRGPSSM, metrics
from mrgpssm.data.synthetic import four_outputs
from mrgpssm.experiments.reproduce.config import Evaluation, make_options
from mrgpssm.experiments.reproduce.evaluate import METRICS, evaluate, make_course, row_scores
from mrgpssm.experiments.reproduce.fleet import chosen, make_fleet
from mrgpssm.experiments.reproduce.problems import Fold, Problem
from mrgpssm.precision import floating_point
from mrgpssm.training import begin, fit_fleet

TINY = {"resolutions": (2,), "inducing": 5, "samples": 3, "windows": 3, "window": 5, "buffer": 1, "cycles": 1,
        "steps": 2, "latent_dim": 1, "restarts": 1}  # fmt: skip


@pytest.fixture(scope="module")
def problem():
    sequences = tuple(four_outputs(seed=seed, length=n, names=tuple("abcd")) for seed, n in enumerate((90, 60, 75)))
    narrow = tuple(dataclasses.replace(s, outputs=s.outputs[:, :2], output_names=("a", "b")) for s in sequences)
    return Problem("tiny", narrow, (Fold((0, 1), (2,)), Fold((1, 2), (0,))))


@pytest.fixture(scope="module")
def trained(problem):
    """A fleet of 2 folds x 2 outputs."""
    with floating_point("float32"):
        fleet = make_fleet(make_options(TINY), problem)
        return fleet, fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), lambda _: None)


@pytest.fixture(scope="module")
def alone(problem):
    """The estimator on the second fold."""
    return MRGPSSM(**TINY, seed=1).fit([problem.sequences[n] for n in problem.folds[1].train], progress=False)


@pytest.mark.once
def test_a_member_of_a_fleet_over_folds_is_the_estimator_on_that_fold(trained, alone):
    fleet, fitted = trained
    assert chosen(fleet, fitted.bounds).tolist() == [[0, 1], [2, 3]]
    for member, (columns, ssm) in zip((2, 3), alone.models_, strict=True):
        assert (fleet.fold[member], fleet.output[member]) == (1, columns[0])
        mine = jax.tree.map(lambda x, m=member: x[m], fitted.state.ssm)
        for ours, theirs in zip(jax.tree.leaves(mine), jax.tree.leaves(ssm), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fitted.bounds[2:], alone.bounds_[:, 0], rtol=0.3)  # three samples of other noise
    np.testing.assert_allclose(fleet.output_sd[2:], alone.fitted_.scaling.output_sd)


@pytest.mark.once
def test_evaluation_of_a_fleet_is_what_the_estimator_scores(problem, trained, alone):
    fleet, fitted = trained
    with floating_point("float32"):
        course = make_course(fleet, problem)
        outcome = evaluate(fitted.state.ssm, fleet, course, Evaluation(400, 40), seed=0, keep=(2,))
    test = problem.sequences[problem.folds[1].test[0]]
    table = alone.score(test, samples=400, seed=1)
    for output, member in enumerate((2, 3)):
        sd = fleet.output_sd[member]
        units = {"rmse": sd, "crps": sd}
        for name in METRICS:
            value = outcome.metrics[name][member] * units.get(name, 1.0) + (np.log(sd) if "nll" in name else 0.0)
            assert value == pytest.approx(table[name].iloc[output], abs=0.03, rel=0.03), name
    run = alone.simulate(test, samples=400, seed=1)
    scaling = alone.fitted_.scaling
    np.testing.assert_allclose(
        scaling.output_mean[0] + scaling.output_sd[0] * outcome.mean[2][0], run.mean[:, 0], atol=0.05
    )


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
        assert values[2] == pytest.approx(float(metrics.mixture_nll(y, x, noise_sd)[0]))
        assert values[3] == pytest.approx(float(metrics.gaussian_nll(y, mean, std)[0]))
        assert values[4] == pytest.approx(float(metrics.crps(y, draws)[0]))
        inside = np.abs(metrics.pit(y, x, noise_sd) - 0.5)
        np.testing.assert_allclose(values[5:], [np.mean(inside <= q / 2) for q in (0.5, 0.9, 0.95)])
