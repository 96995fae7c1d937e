"""The static part: likelihood and mean against dense algebra, delayed inputs, and its way through the house."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recordings import recording
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from mrgpssm import MRGPSSM, Sequence, load
from mrgpssm.arrays.drive import Drive
from mrgpssm.blend import static as fitting
from mrgpssm.blend.static import Kernel, fit_static, learn_kernels, objective
from mrgpssm.blend.weigh import MOST_SHARE
from mrgpssm.data import apply_drive
from mrgpssm.runtime.part import Blend
from mrgpssm.runtime.static import StaticPart, distances
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 5}


def dense(theta: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernel, one pair of rows at a time."""
    d = a.shape[1]
    scales, variances, amplitude = np.exp(theta[:d]), np.exp(theta[d : 2 * d]), np.exp(theta[-2])
    rows = [[amplitude**2 * np.exp(-np.sqrt(np.sum(((x - z) / scales) ** 2))) + np.sum(variances * x * z) for z in b]
            for x in a]  # fmt: skip
    return np.array(rows)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    x, theta = rng.standard_normal((30, 3)), np.concatenate([rng.normal(1, 0.3, 3), rng.normal(-2, 1, 3), [0.1, -0.7]])
    return x, rng.standard_normal(30), theta


def test_the_objective_is_minus_the_log_density_of_likelihood_and_prior(problem):
    x, y, theta = problem
    K = dense(theta, x, x) + (np.exp(2 * theta[-1]) + 1e-6) * np.eye(30)
    expected = -multivariate_normal.logpdf(y, np.zeros(30), K) - 15 * np.log(2 * np.pi)
    expected += 0.5 * np.sum((theta[:3] - np.log(4)) ** 2) / 4
    assert objective(theta, x, y)[0] == pytest.approx(expected, rel=1e-9)


def test_its_gradient_is_that_of_differences(problem):
    x, y, theta = problem
    numeric = np.asarray(approx_fprime(theta, lambda t: objective(t, x, y)[0], 1e-7))
    np.testing.assert_allclose(objective(theta, x, y)[1], numeric, atol=1e-4)


def test_with_all_rows_as_inducing_points_the_mean_is_that_of_the_exact_process(problem):
    x, y, theta = problem
    at = np.random.default_rng(1).standard_normal((7, 3))
    w = fitting._projected(Kernel.unpack(theta), x, y, x)
    exact = dense(theta, at, x) @ np.linalg.solve(dense(theta, x, x) + np.exp(2 * theta[-1]) * np.eye(30), y)
    np.testing.assert_allclose(dense(theta, at, x) @ w, exact, atol=1e-4)  # jitter of 1e-6


def test_a_part_evaluates_its_formula():
    rng = np.random.default_rng(2)
    inducing, weights, slopes = (rng.standard_normal(shape) for shape in ((4, 3), (2, 4), (2, 3)))
    part = StaticPart(inducing, weights, rng.uniform(1, 2, (2, 3)), slopes, np.array([0.3, 0.7]))
    drive = rng.standard_normal((6, 3))
    for c in range(2):
        far = [[np.sqrt(np.sum(((u - z) / part.lengthscales[c]) ** 2)) for z in part.inducing] for u in drive]
        expected = drive @ part.slopes[c] + np.exp(-np.array(far)) @ part.weights[c]
        np.testing.assert_allclose(part(drive)[:, c], expected, rtol=1e-10)
    blend = Blend.of(2, static=part)
    course = blend.course(drive)
    np.testing.assert_allclose(course[1:], part.shares * part(drive)[:-1], rtol=1e-12)
    np.testing.assert_allclose(course[0], part.shares * part(drive[:1])[0], rtol=1e-12)
    np.testing.assert_allclose(blend.course(drive[3:], drive[2])[0], course[3], rtol=1e-12)


def test_distances_survive_equal_rows():
    x = np.full((3, 2), 1e8)
    assert (distances(x, x, np.ones(2)) == 0).all()


def test_a_known_function_is_learned():
    """Noise 0.1 on 1,200 rows: the mean must be closer than the noise, and missing outputs must not matter."""
    rng = np.random.default_rng(3)
    u = rng.uniform(-2, 2, (1200, 3))
    clean = np.column_stack([np.sin(2 * u[:, 0]) + 0.5 * u[:, 1], u[:, 2]])
    y = clean + 0.1 * rng.standard_normal(clean.shape)
    y[::5, 0] = np.nan
    kernels = learn_kernels(u[:1000], y[:1000], seed=0)
    part = fit_static(u[:1000], y[:1000], kernels, inducing=200, seed=0)
    error = np.sqrt(np.mean((part(u[1000:]) - clean[1000:]) ** 2, axis=0))
    assert (error < 0.1).all(), error
    again = fit_static(u[:1000], y[:1000], learn_kernels(u[:1000], y[:1000], seed=0), inducing=200, seed=0)
    np.testing.assert_array_equal(part.weights, again.weights)


@pytest.mark.parametrize("even", [True, False])
def test_delayed_inputs_are_the_last_ones_at_that_time(even):
    rng = np.random.default_rng(5)
    u, steps = rng.standard_normal((40, 2)), rng.integers(1, 4, 40)
    time = 7.0 + 0.1 * np.cumsum(steps)
    sequence = Sequence(u, u[:, :1], 0.1, None if even else time)
    clock = np.round(sequence.clock()).astype(int)
    found = apply_drive(Drive((), (3, 11)), sequence)
    assert found.input_names == (
        "u1",
        "u2",
        "u1, 3 steps ago",
        "u2, 3 steps ago",
        "u1, 11 steps ago",
        "u2, 11 steps ago",
    )
    for k, delay in enumerate((3, 11)):
        for t in range(40):
            earlier = [i for i in range(40) if clock[i] <= clock[t] - delay]
            np.testing.assert_array_equal(found.inputs[t, 2 * k + 2 : 2 * k + 4], u[max(earlier, default=0)])


@pytest.fixture(scope="module")
def fitted():
    model = MRGPSSM(
        (3, 1), **arrange(**SMALL, filters=(8,), delays=(2,), static=60, folds=2, noise="student", restarts=2)
    )
    return model.fit([recording(i) for i in range(4)], progress=False)


def test_a_static_part_is_learned_weighed_and_adds_up(fitted, tmp_path):
    part = fitted.fitted_.static
    assert part.inducing.shape == (60, 6)
    assert ((part.shares > 0) & (part.shares <= MOST_SHARE)).all()  # five steps of training leave it much to do
    run = fitted.simulate(recording(7), samples=5)
    assert list(run.components) == ["component_1_R3", "component_2_R1", "static"]
    np.testing.assert_allclose(sum(run.components.values()) + run.offset, run.mean, rtol=1e-4)
    still = fitted.fitted_.scaling.output_sd * fitted.fitted_.blend.course(fitted.fitted_.drive(recording(7)))
    np.testing.assert_allclose(run.components["static"], still, rtol=1e-4, atol=1e-5)
    fitted.save(tmp_path / "m.mrgpssm")
    np.testing.assert_array_equal(load(tmp_path / "m.mrgpssm").simulate(recording(7), samples=5).mean, run.mean)


def test_a_share_helps_on_data_that_nobody_saw(fitted):
    without = replace(fitted.fitted_, static=None, noise=None)
    plain = MRGPSSM((3, 1))
    plain.fitted_ = without
    ours, theirs = (m.score([recording(8), recording(9)])["rmse"] for m in (fitted, plain))
    assert (ours.to_numpy() < theirs.to_numpy()).all()


def test_a_run_after_a_warm_up_starts_from_its_last_input(fitted):
    whole = recording(7)
    half = (whole.inputs[:80], whole.outputs[:80])
    run = fitted.simulate(whole.inputs[80:], warmup=half, samples=5)
    full = fitted.simulate(whole.inputs, samples=5)
    np.testing.assert_allclose(run.components["static"], full.components["static"][80:], rtol=1e-4, atol=1e-5)


def test_validation_sequences_weigh_it_too():
    model = MRGPSSM((3, 1), **arrange(**SMALL, static=40))
    model.fit([recording(0), recording(1)], validation=recording(2), progress=False)
    assert model.fitted_.static is not None
    assert (model.fitted_.static.shares > 0).any()
