"""Boosted trees: exact beside scikit-learn and a plain walk, their shares, and their way through the house."""

import itertools
import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, ModelFileError, Sequence, load, runtime
from mrgpssm.blend import boost as boosting
from mrgpssm.blend.boost import Growth, boost, fit_trees, mean_of
from mrgpssm.blend.weigh import MOST_SHARE, RIDGE, shares
from mrgpssm.file import pack, unpack
from mrgpssm.prediction.fitted import model_bytes, parse_model
from mrgpssm.runtime import trees as law
from mrgpssm.runtime.part import Blend, row_before
from mrgpssm.runtime.trees import LEAF, TreesPart
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 5}
GOLDEN = Path(__file__).parent / "golden" / "model-v5.mrgpssm"
KIND = "mrgpssm-model"


def jumpy(u: np.ndarray) -> np.ndarray:
    return np.column_stack([np.where(u[:, 0] > 0.3, 2.0, -1.0) + np.round(u[:, 1]), np.floor(2 * u[:, 2])])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    u = rng.uniform(-2, 2, (900, 3))
    u[:, 1] = np.round(u[:, 1], 1)  # ties
    y = jumpy(u) + 0.1 * rng.standard_normal((900, 2))
    y[::7, 0] = np.nan
    return u, y, fit_trees(u, y, rounds=40, seed=0)


def walked(part: TreesPart, u: np.ndarray, output: int) -> float:
    """One row through all trees of one output, node by node."""
    total = float(part.baselines[output])
    for root in part.roots[output]:
        node = int(root)
        while part.features[node] != LEAF:
            right = u[part.features[node]] > part.values[node]
            node = int(part.children[node]) + int(right)
        total += float(part.values[node])
    return total


def test_predictions_are_those_of_scikit_learn(problem):
    u, y, part = problem
    new = np.concatenate([u, np.random.default_rng(1).uniform(-5, 5, (500, 3))])
    for c in range(2):
        expected = boost(u, y[:, c], Growth(40), 0).predict(new)
        np.testing.assert_allclose(part(new)[:, c], expected, rtol=0, atol=1e-12)


def test_the_mean_of_boosters_is_the_mean_of_their_predictions(problem):
    u, y, _ = problem
    some = [[boost(u[k::2], y[k::2, c], Growth(9, 6, 20), 0) for k in range(2)] for c in range(2)]
    part = mean_of(some)
    for c in range(2):
        expected = (some[c][0].predict(u) + some[c][1].predict(u)) / 2
        np.testing.assert_allclose(part(u)[:, c], expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(part.only(c)(u)[:, 0], expected, rtol=0, atol=1e-12)


def test_the_walk_is_that_of_a_plain_loop_however_it_is_cut(problem, monkeypatch):
    u, _, part = problem
    expected = [[walked(part, row, c) for c in range(2)] for row in u[:60]]
    np.testing.assert_allclose(part(u[:60]), expected, rtol=0, atol=1e-12)
    monkeypatch.setattr(law, "_WALKS", 1)
    np.testing.assert_array_equal(part(u[:60]), part(u[:60].copy(order="F")))
    np.testing.assert_allclose(part(u[:60]), expected, rtol=0, atol=1e-12)


def test_values_at_a_threshold_go_to_the_first_child():
    nodes = {"features": [0, LEAF, LEAF], "children": [1, 0, 0], "values": [0.5, -1.0, 1.0]}
    made = {key: np.array(values) for key, values in nodes.items()}
    part = TreesPart(**made, roots=np.array([[0, 1]]), baselines=np.array([10.0]), shares=np.array([0.25]))
    assert part.fault(1) is None
    np.testing.assert_array_equal(part(np.array([[0.5], [0.5 + 1e-12], [0.0]]))[:, 0], [8.0, 10.0, 8.0])
    course = Blend.of(1, trees=part).course(np.array([[0.0], [1.0], [0.0]]), np.array([2.0]))
    np.testing.assert_array_equal(course[:, 0], [2.5, 2.0, 2.5])


def test_a_jumpy_map_is_learned_and_twice_the_same(problem):
    u, y, part = problem
    new = np.random.default_rng(2).uniform(-2, 2, (500, 3))
    error = np.sqrt(np.mean((part(new) - jumpy(new)) ** 2, axis=0))
    assert (error < 0.4 * jumpy(new).std(axis=0)).all(), error  # jumps are met where rows were
    again = fit_trees(u, y, rounds=40, seed=0)
    for field in fields(part):
        np.testing.assert_array_equal(getattr(part, field.name), getattr(again, field.name))


def test_long_data_are_thinned_and_rows_without_a_split_leave_single_leaves(problem, monkeypatch):
    u, y, _ = problem
    monkeypatch.setattr(boosting, "_ROWS", 100)
    assert (boost(u, y[:, 0], Growth(2), 0)._predictors[0][0].nodes["count"].max()) <= 100
    flat = fit_trees(u[:6], y[:6, :1], rounds=3, seed=0)
    assert (flat.features == LEAF).all()
    np.testing.assert_allclose(flat(u[:9]), np.nanmean(y[:6, 0]), atol=1e-12)
    assert flat.fault(3) is None


def objective(s: np.ndarray, errors: list[tuple[np.ndarray, np.ndarray]]) -> float:
    total = []
    for a, b in errors:
        seen = ~np.isnan(a) & ~np.isnan(b).any(axis=0)
        mixed = (1 - s.sum()) * a[seen] + s @ b[:, seen]
        total.append(np.sum(mixed**2) / np.sum(a[seen] ** 2))
    return float(np.mean(total) + RIDGE * np.sum(s**2))


@pytest.mark.parametrize("seed", range(12))
def test_shares_of_two_parts_are_those_of_a_grid(seed):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(200)
    errors = [
        (
            size * (common + rng.standard_normal(200)),
            size * rng.uniform(0.05, 1.5, (2, 1)) * rng.standard_normal((2, 200)),
        )
        for size in (1.0, 100.0)
    ]
    if seed % 2:  # a part that is as the model, only worse, gets nothing; one without error as much as there is
        errors = [(a, np.stack([1.2 * a, 1e-3 * b[1] - 0.3 * a])) for a, b in errors]
    errors[0][0][::5] = np.nan
    found, steps = shares(errors), np.linspace(0, MOST_SHARE, 91)
    grid = [np.array(s) for s in itertools.product(steps, steps) if sum(s) <= MOST_SHARE + 1e-9]
    best = min(grid, key=lambda s: objective(s, errors))
    assert (found >= 0).all()
    assert found.sum() <= MOST_SHARE + 1e-12
    assert objective(found, errors) <= objective(best, errors) + 1e-12
    np.testing.assert_allclose(found, best, atol=0.02)


def test_shares_at_the_edges():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 500))
    (single,) = shares([(a, 0.5 * b[None])])
    tried = np.linspace(0, MOST_SHARE, 9001)
    assert single == pytest.approx(
        tried[np.argmin([objective(np.array([s]), [(a, 0.5 * b[None])]) for s in tried])], abs=1e-4
    )
    (loud,) = shares([(a, 0.5 * b[None]), (1000 * a, 500 * b[None])])  # a recording does not count for its size
    assert loud == pytest.approx(single, abs=1e-12)
    np.testing.assert_allclose(shares([(a, -0.5 * np.stack([a, a]))]).sum(), 2 * 1.5 / (0.2 + 2 * 1.5**2))
    np.testing.assert_allclose(shares([(a, np.zeros((2, 500)))]), MOST_SHARE / 2)  # both perfect
    assert (shares([(a, np.full((2, 500), np.nan))]) == 0).all()
    assert (shares([(a, 3 * np.stack([a, a]))]) == 0).all()


def test_a_blend_adds_up():
    model = untrained(resolutions=(3, 1), static=10, trees=5, precision="float64")
    fitted, drive = model.fitted_, np.random.default_rng(0).standard_normal((20, 2))
    blend = fitted.blend
    assert isinstance(blend, Blend)
    assert list(blend.parts) == ["static", "trees"]
    assert fitted.static is not None
    assert fitted.trees is not None
    np.testing.assert_allclose(blend.rest, 1 - fitted.static.shares - fitted.trees.shares)
    added = [part.shares * part(row_before(drive)) for part in (fitted.static, fitted.trees)]
    np.testing.assert_allclose(blend.course(drive), sum(added))
    bare = replace(fitted, static=None, trees=None).blend
    assert (bare.rest == 1).all()
    assert (bare.course(drive) == 0).all()
    run = model.simulate(recording(2), samples=5)
    assert list(run.components) == ["component_1_R3", "component_2_R1", "static", "trees"]
    np.testing.assert_allclose(sum(run.components.values()) + run.offset, run.mean, rtol=1e-9)


def test_a_stepper_without_measurements_is_the_free_run():
    model = runtime.parse(model_bytes(untrained(resolutions=(3, 1), delays=(2,), static=10, trees=5).fitted_), "model")
    inputs, stepper = recording(2).inputs[:40], model.stepper(samples=4, seed=3)
    found = np.stack([stepper.update(u).mean for u in inputs[:20]])
    found = np.concatenate([found, stepper.forecast(inputs[20:]).mean])
    np.testing.assert_allclose(found, model.simulate(inputs, samples=4, seed=3).mean, rtol=1e-9)


def changed(key: str, change) -> bytes:
    content, tensors = unpack(GOLDEN.read_bytes(), KIND, "golden")
    return pack(KIND, content, tensors | {f"trees.{key}": change(tensors[f"trees.{key}"].copy())})


def put(index: Any, value: Any):
    def change(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return change


WRONG = [
    ("roots", put((0, 0), -1), "the roots of the trees must be among their nodes"),
    ("roots", put((0, 0), 2**31 - 1), "the roots of the trees must be among their nodes"),
    ("roots", lambda x: x[:1], "tensor trees.roots is"),
    ("roots", lambda x: np.tile(x, 2), "tensor trees.roots has 12 columns; its settings ask for 1 to 6"),
    ("roots", lambda x: x[:, :0], "tensor trees.roots has 0 columns"),
    ("roots", lambda x: np.int32(3), "tensor trees.roots has 0 columns"),
    ("children", put(0, 0), "the children of a tree's node must come after it"),
    ("children", put(0, -5), "the children of a tree's node must come after it"),
    ("children", lambda x: put(0, len(x) - 1)(x), "the children of a tree's node must come after it"),
    ("children", put(-1, 1), "the children of a tree's node must come after it"),
    ("children", lambda x: x.astype(np.int64), "tensor trees.children is of int64; it must hold whole numbers of 32 bits"),
    ("children", lambda x: x[1:], "tensor trees.children is"),
    ("features", put(0, 10), "the trees must ask for features from 0 to 9"),
    ("features", put(0, -2), "the trees must ask for features from 0 to 9"),
    ("values", put(0, np.nan), "tensor trees.values holds values that are not finite"),
    ("values", lambda x: x[None], "tensor trees.values is"),
    ("baselines", put(0, np.inf), "tensor trees.baselines holds values that are not finite"),
    ("shares", put(0, -0.1), "the shares of static and trees must be in 0..1, and so must their sum"),
    ("shares", put(0, 1.0), "the shares of static and trees must be in 0..1, and so must their sum"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "change", "says"), WRONG)
def test_damaged_trees_are_refused_in_one_sentence_everywhere(key, change, says):
    for read in (parse_model, runtime.parse):
        with pytest.raises(ModelFileError, match=r"odd\.mrgpssm") as caught:
            read(changed(key, change), "odd.mrgpssm")
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


def test_trees_that_the_settings_do_not_ask_for_are_refused():
    content, tensors = unpack(GOLDEN.read_bytes(), KIND, "golden")
    content["options"]["trees"] = 0
    with pytest.raises(ModelFileError, match=r"tensor 'trees\.baselines' is not part of a model"):
        parse_model(pack(KIND, content, tensors), "odd.mrgpssm")
    content["options"]["trees"] = "many"
    with pytest.raises(ModelFileError, match="trees must be a whole number"):
        runtime.parse(pack(KIND, content, tensors), "odd.mrgpssm")


def steps(number: int) -> Sequence:
    """An output that jumps with the input of the row before, one the components can follow, and holes in both."""
    rng = np.random.default_rng(number)
    u = np.repeat(rng.uniform(-2, 2, (60, 3)), rng.integers(1, 7, 60), axis=0)
    y = jumpy(np.concatenate([u[:1], u[:-1]])) + 0.05 * rng.standard_normal((len(u), 2))
    y[10:14, 0] = np.nan
    return Sequence(u, y, 0.1)


@pytest.fixture(scope="module")
def fitted():
    return MRGPSSM((3, 1), **arrange(**SMALL, static=30, trees=60, folds=2)).fit(
        [steps(i) for i in range(4)], progress=False
    )


def test_trees_take_over_a_jumpy_map(fitted, tmp_path):
    whole = fitted.fitted_
    assert whole.trees.roots.shape == (2, 60)
    assert (whole.trees.shares > whole.static.shares).all()
    assert (whole.trees.shares + whole.static.shares <= MOST_SHARE + 1e-9).all()
    test, plain = [steps(8), steps(9)], MRGPSSM((3, 1))
    error = fitted.score(test)["rmse"].to_numpy()
    for less in ({"trees": None}, {"static": None, "trees": None}):
        plain.fitted_ = replace(whole, **less)
        assert (error < 0.8 * plain.score(test)["rmse"].to_numpy()).all()
    fitted.save(tmp_path / "m.mrgpssm")
    run = fitted.simulate(steps(7), samples=5)
    np.testing.assert_array_equal(load(tmp_path / "m.mrgpssm").simulate(steps(7), samples=5).mean, run.mean)


def test_a_run_after_a_warm_up_starts_from_its_last_input(fitted):
    s = steps(7)
    run = fitted.simulate(s.inputs[80:], warmup=(s.inputs[:80], s.outputs[:80]), samples=5)
    full = fitted.simulate(s.inputs, samples=5)
    np.testing.assert_allclose(run.components["trees"], full.components["trees"][80:], rtol=1e-5, atol=1e-6)


def test_a_fold_that_never_saw_an_output_judges_all_the_same():
    """The second output was measured in one recording alone, so that one fold has none of it."""
    blank = [replace(s, outputs=s.outputs * [1.0, np.nan]) for s in (steps(1), steps(2), steps(3))]
    model = MRGPSSM((3, 1), **arrange(**SMALL, static=20, trees=5, folds=2)).fit([steps(0), *blank], progress=False)
    assert np.isfinite(model.simulate(steps(7), samples=4).mean).all()
    part = fit_trees(steps(0).inputs, np.full((len(steps(0)), 1), np.nan), rounds=3, seed=0)
    assert (part(steps(1).inputs) == 0).all()


def test_validation_sequences_weigh_trees_alone():
    model = MRGPSSM((3, 1), **arrange(**SMALL, trees=20))
    model.fit([steps(0), steps(1)], validation=steps(2), progress=False)
    assert model.fitted_.static is None
    assert model.fitted_.trees is not None
    assert (model.fitted_.trees.shares > 0).all()


def test_scikit_learn_is_not_loaded_before_it_is_needed():
    code = "import json, sys, mrgpssm.estimator.unseen, mrgpssm.runtime; print(json.dumps('sklearn' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
