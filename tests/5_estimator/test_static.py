"""Static simulators: mathematics against dense algebra and scikit-learn, delayed inputs, and their use alone."""

import json
import subprocess
import sys
from dataclasses import fields
from unittest import mock

import numpy as np
import pytest
from recordings import recording
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm

from mrgpssm import ConfigError, Sequence
from mrgpssm.arrays.drive import Drive
from mrgpssm.blend import StaticGP, StaticTrees
from mrgpssm.blend import forest as growing
from mrgpssm.blend import process as fitting
from mrgpssm.blend.forest import LEAF, Forest, boost, fit_forest
from mrgpssm.blend.process import Kernel, Process, distances, fit_process, objective
from mrgpssm.blend.static import drive_before
from mrgpssm.data import Scaling, apply_drive

pytestmark = pytest.mark.once


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
    w = fitting._project(Kernel.unpack(theta), x, y, x)
    exact = dense(theta, at, x) @ np.linalg.solve(dense(theta, x, x) + np.exp(2 * theta[-1]) * np.eye(30), y)
    np.testing.assert_allclose(dense(theta, at, x) @ w, exact, atol=1e-4)  # jitter of 1e-6


def test_a_process_evaluates_its_formula():
    rng = np.random.default_rng(2)
    inducing, weights, slopes = (rng.standard_normal(shape) for shape in ((4, 3), (2, 4), (2, 3)))
    process = Process(inducing, weights, rng.uniform(1, 2, (2, 3)), slopes)
    drive = rng.standard_normal((6, 3))
    for c in range(2):
        far = [[np.sqrt(np.sum(((u - z) / process.lengthscales[c]) ** 2)) for z in inducing] for u in drive]
        expected = drive @ slopes[c] + np.exp(-np.array(far)) @ weights[c]
        np.testing.assert_allclose(process(drive)[:, c], expected, rtol=1e-10)


def test_distances_survive_equal_rows():
    x = np.full((3, 2), 1e8)
    assert (distances(x, x, np.ones(2)) == 0).all()


def test_a_known_function_is_learned(monkeypatch):
    """Noise 0.1: the mean must be closer than the noise, and missing outputs must not matter."""
    monkeypatch.setattr(fitting, "KERNEL_ROWS", 250)
    rng = np.random.default_rng(3)
    u = rng.uniform(-2, 2, (1000, 3))
    clean = np.column_stack([np.sin(2 * u[:, 0]) + 0.5 * u[:, 1], u[:, 2]])
    y = clean + 0.1 * rng.standard_normal(clean.shape)
    y[::5, 0] = np.nan
    process = fit_process(u[:800], y[:800], inducing=200, seed=0)
    error = np.sqrt(np.mean((process(u[800:]) - clean[800:]) ** 2, axis=0))
    assert (error < 0.1).all(), error
    np.testing.assert_array_equal(process.weights, fit_process(u[:800], y[:800], inducing=200, seed=0).weights)


def jumpy(u: np.ndarray) -> np.ndarray:
    return np.column_stack([np.where(u[:, 0] > 0.3, 2.0, -1.0) + np.round(u[:, 1]), np.floor(2 * u[:, 2])])


@pytest.fixture(scope="module")
def jumps():
    rng = np.random.default_rng(0)
    u = rng.uniform(-2, 2, (900, 3))
    u[:, 1] = np.round(u[:, 1], 1)  # ties
    y = jumpy(u) + 0.1 * rng.standard_normal((900, 2))
    y[::7, 0] = np.nan
    return u, y, fit_forest(u, y, rounds=40, seed=0)


def walked(forest: Forest, u: np.ndarray, output: int) -> float:
    """One row through all trees of one output, node by node."""
    total = float(forest.baselines[output])
    for root in forest.roots[output]:
        node = int(root)
        while forest.features[node] != LEAF:
            right = np.float32(u[forest.features[node]]) > forest.values[node]
            node = int(forest.children[node]) + int(right)
        total += float(forest.values[node])
    return total


def test_predictions_are_those_of_scikit_learn(jumps):
    u, y, forest = jumps
    new = np.concatenate([u, np.random.default_rng(1).uniform(-5, 5, (500, 3))])
    for c in range(2):
        np.testing.assert_allclose(forest(new)[:, c], boost(u, y[:, c], 40, 0).predict(new), rtol=0, atol=1e-12)


def test_the_walk_is_that_of_a_plain_loop_however_it_is_cut(jumps, monkeypatch):
    u, _, forest = jumps
    expected = [[walked(forest, row, c) for c in range(2)] for row in u[:60]]
    np.testing.assert_allclose(forest(u[:60]), expected, rtol=0, atol=1e-12)
    monkeypatch.setattr(growing, "_WALKS", 1)
    np.testing.assert_array_equal(forest(u[:60]), forest(u[:60].copy(order="F")))
    np.testing.assert_allclose(forest(u[:60]), expected, rtol=0, atol=1e-12)


def test_values_at_a_threshold_go_to_the_first_child():
    nodes = {"features": [0, LEAF, LEAF], "children": [1, 0, 0], "values": [0.5, -1.0, 1.0]}
    made = {key: np.array(values) for key, values in nodes.items()}
    forest = Forest(**made, roots=np.array([[0, 1]]), baselines=np.array([10.0]))
    assert forest.find_fault(1) is None
    np.testing.assert_array_equal(forest(np.array([[0.5], [0.5 + 1e-6], [0.0]]))[:, 0], [8.0, 10.0, 8.0])


def test_a_jumpy_map_is_learned_and_twice_the_same(jumps):
    u, y, forest = jumps
    new = np.random.default_rng(2).uniform(-2, 2, (500, 3))
    error = np.sqrt(np.mean((forest(new) - jumpy(new)) ** 2, axis=0))
    assert (error < 0.4 * jumpy(new).std(axis=0)).all(), error  # jumps are met where rows were
    again = fit_forest(u, y, rounds=40, seed=0)
    for field in fields(forest):
        np.testing.assert_array_equal(getattr(forest, field.name), getattr(again, field.name))


def test_long_data_are_thinned_and_few_rows_leave_single_leaves(jumps, monkeypatch):
    u, y, _ = jumps
    flat = fit_forest(u[:6], y[:6, :1], rounds=3, seed=0)
    assert (flat.features == LEAF).all()
    np.testing.assert_allclose(flat(u[:9]), np.nanmean(y[:6, 0]), atol=1e-12)
    assert flat.find_fault(3) is None
    assert (fit_forest(u[:6], np.full((6, 1), np.nan), rounds=3, seed=0)(u[:9]) == 0).all()
    monkeypatch.setattr(growing, "_ROWS", 100)
    assert max(tree.tree_.n_node_samples.max() for tree in boost(u, y[:, 0], 2, 0).estimators_.ravel()) <= 100


@pytest.mark.parametrize("even", [True, False])
def test_delayed_inputs_are_the_last_ones_at_that_time(even):
    rng = np.random.default_rng(5)
    u, steps = rng.standard_normal((40, 2)), rng.integers(1, 4, 40)
    time = 7.0 + 0.1 * np.cumsum(steps)
    sequence = Sequence(u, u[:, :1], 0.1, None if even else time)
    clock = np.round(sequence.clock()).astype(int)
    found = apply_drive(Drive((), (3, 11)), sequence)
    assert found.input_names[2:4] == ("u1, 3 steps ago", "u2, 3 steps ago")
    for k, delay in enumerate((3, 11)):
        for t in range(40):
            earlier = [i for i in range(40) if clock[i] <= clock[t] - delay]
            np.testing.assert_array_equal(found.inputs[t, 2 * k + 2 : 2 * k + 4], u[max(earlier, default=0)])


def test_a_row_is_driven_by_the_one_before_and_a_warm_up_is_gone_on_from():
    s, drive = recording(3), Drive((4.0,), (3,))
    driven = apply_drive(drive, s)
    scaling = Scaling.fit([driven])
    before = drive_before(drive, scaling, s)
    np.testing.assert_allclose(before[1:], scaling.inputs(driven.inputs)[:-1])
    np.testing.assert_array_equal(before[0], before[1])
    first, rest = (Sequence(s.inputs[a], s.outputs[a], s.dt) for a in (slice(80), slice(80, None)))
    np.testing.assert_allclose(drive_before(drive, scaling, rest, first), before[80:], atol=1e-12)


@pytest.mark.parametrize("part", [StaticGP((4,), (3,), inducing=30), StaticTrees((4,), (3,), rounds=20)])
def test_a_static_simulator_is_used_as_every_other(part, monkeypatch):
    monkeypatch.setattr(fitting, "KERNEL_ROWS", 60)
    whole = recording(7)
    part.fit([recording(0), recording(1)])
    run = part.simulate(whole)
    expected = part.fitted_.function(drive_before(part.fitted_.drive, part.fitted_.scaling, whole))
    np.testing.assert_allclose(run.mean, run.offset + part.fitted_.scaling.output_sd * expected)
    np.testing.assert_allclose(run.quantile(0.95), run.mean + norm.ppf(0.95) * run.std, rtol=1e-5)
    late = part.simulate(whole.inputs[80:], warmup=(whole.inputs[:80], whole.outputs[:80]), stride=3)
    np.testing.assert_allclose(late.mean, run.mean[80::3])
    scores = part.score([whole])
    np.testing.assert_allclose(scores["rmse"], np.sqrt(np.mean((run.mean - whole.outputs) ** 2, axis=0)))
    assert (scores["rmse"] < whole.outputs.std(axis=0)).all()
    assert type(part)(**part.get_params(deep=False)).get_params() == part.get_params()


def test_drives_that_are_left_out_are_those_of_the_default_model(monkeypatch):
    data = [recording(0)]
    assert StaticGP().choose(data) == Drive()
    monkeypatch.setattr("mrgpssm.blend.static.choose_drive", lambda training: Drive((10.0,), (2,)))
    assert StaticGP().choose(data) == Drive((10.0,), (2,))
    assert StaticGP(filters=()).choose(data) == Drive((), (2,))
    assert StaticTrees(delays=(5,)).choose(data) == Drive((10.0,), (5,))


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (StaticGP(inducing=0), "inducing must be a whole number, at least 1 and at most 20,000"),
        (StaticTrees(rounds=2001), "rounds must be at most 2,000"),
        (StaticGP(filters=(0,)), "filters"),
        (StaticTrees(delays=(2, 2)), "delays"),
    ],
)
def test_what_cannot_work_is_refused(part, says):
    with pytest.raises(ConfigError, match=says):
        part.fit(recording(0))
    with pytest.raises(ConfigError, match="not fitted yet"):
        part.simulate(recording(0))


def test_scikit_learn_is_an_extra_that_is_not_loaded_before_it_is_needed():
    code = "import json, sys, mrgpssm.blend.blend, mrgpssm.runtime; print(json.dumps('sklearn' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
    with (
        mock.patch.dict(sys.modules, {"sklearn": None, "sklearn.ensemble": None}),
        pytest.raises(ConfigError, match=r"Boosted trees need scikit-learn; install mrgpssm\[baselines\]\."),
    ):
        StaticTrees((), (), rounds=2).fit(recording(0))
