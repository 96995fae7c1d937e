"""A warm-up starts as broad as the states of training were: it may begin anywhere."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, Sequence, Training, runtime
from mrgpssm.arrays.params import lower_triangular_inverse
from mrgpssm.arrays.precision import floating_point
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.estimator.starts import spread_starts
from mrgpssm.prediction.fitted import model_bytes
from mrgpssm.prediction.mean import mean_paths

pytestmark = pytest.mark.once


def test_the_start_has_the_moments_of_states_over_training():
    model = untrained(resolutions=(3, 1), precision="float64", rounds=2).fitted_
    data = [recording(0), recording(1, rows=120), recording(2, rows=48)]  # the last is too short beside the others
    for before, after in zip(sum(model.ensemble, ()), sum(spread_starts(model, data), ()), strict=True):
        starts = [c.initial.mean for c in before.components]
        with floating_point("float64"):
            paths = [mean_paths(before, starts, model.drive(s)[:120], np.ones(120)) for s in data[:2]]
        for part, component in enumerate(after.components):
            states = np.concatenate([path[part] for path in paths])
            with floating_point("float64"):
                q, prior = np.asarray(component.initial.posterior().factor), component.initial.prior()
            np.testing.assert_allclose(prior.mean, states.mean(axis=0), atol=1e-9)
            factor = np.asarray(prior.factor)
            np.testing.assert_allclose(factor @ factor.T, np.cov(states.T, ddof=0) + q @ q.T, atol=1e-5)
            np.testing.assert_array_equal(component.initial.mean, before.components[part].initial.mean)


def test_a_run_that_is_not_finite_leaves_the_start_as_it_is():
    model = untrained(resolutions=(1,), precision="float64").fitted_
    ssm = model.ensemble[0][0]
    broken = eqx.tree_at(lambda s: s.components[0].initial.mean, ssm, jnp.full(2, jnp.nan))
    ((kept, _),) = spread_starts(replace(model, ensemble=((broken, model.ensemble[0][1]),)), [recording(0)])
    np.testing.assert_array_equal(kept.components[0].initial.prior_mean, ssm.components[0].initial.prior_mean)


def lagging(seed: int, rows: int) -> Sequence:
    """A slow lag behind an input that holds for long; every recording begins at rest."""
    rng = np.random.default_rng(seed)
    u, x = np.repeat(rng.uniform(-1, 1, rows // 50), 50), np.zeros(rows)
    for t in range(1, rows):
        x[t] = x[t - 1] + 0.02 * (u[t - 1] - x[t - 1])
    return Sequence(u[:, None], (x + 0.01 * rng.standard_normal(rows))[:, None])


@pytest.fixture(scope="module")
def fitted() -> MRGPSSM:
    training = Training(samples=6, windows=8, window=25, buffer=5, cycles=2, steps=60)
    return MRGPSSM((5,), 1, 8, training=training).fit([lagging(k, 1000) for k in range(4)], progress=False)


def test_a_warm_up_in_the_middle_finds_the_state(fitted):
    """A start where recordings begin, which is what q(x_0) knows, would stay near rest."""
    test, rows = lagging(9, 3000), 20
    sure = lambda c: lower_triangular_inverse(c.initial.posterior().factor)  # noqa: E731
    narrow = tuple(
        tuple(
            eqx.tree_at(
                lambda s: [p for c in s.components for p in (c.initial.prior_mean, c.initial.prior_raw_factor)],
                ssm,
                [p for c in ssm.components for p in (c.initial.mean, sure(c))],
            )
            for ssm in models
        )
        for models in fitted.fitted_.ensemble
    )
    errors = []
    for model in (from_fitted(replace(fitted.fitted_, ensemble=narrow)), fitted):
        found = []
        for first in range(400, 2800, 300):
            run = model.simulate(
                test.take(slice(first, first + 20)), warmup=test.take(slice(first - rows, first)), samples=50
            )
            found.append(run.mean - test.outputs[first : first + 20])
        errors.append(np.sqrt(np.mean(np.square(found))))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.15 * test.outputs.std()


def test_a_stepper_can_start_anywhere(fitted):
    """Without measurements it begins with the spread of p(x_0); with them it soon knows where the system is."""
    test, model = lagging(9, 3000), runtime.parse(model_bytes(fitted.fitted_), "m")
    at_rest, anywhere = (model.stepper(samples=200, seed=1, anywhere=given) for given in (False, True))
    prior = fitted.models_[0][1].components[0].initial.prior()
    states = anywhere.state.states[0, 0]
    np.testing.assert_allclose(states.std(axis=1), np.abs(np.asarray(prior.factor))[0], rtol=0.25)
    errors = []
    for stepper in (at_rest, anywhere):
        *_, now = (stepper.update(test.inputs[row], test.outputs[row]) for row in range(1000, 1010))
        errors.append(abs(now.mean[0] - test.outputs[1009, 0]))
    assert errors[1] < errors[0]
