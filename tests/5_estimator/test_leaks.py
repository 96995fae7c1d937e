"""What a fold is judged on reaches nothing that it has learned: not one bit changes when those rows are poisoned."""

from dataclasses import replace
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from recordings import recording

from mrgpssm import MRGPSSM, Sequence
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling, unseen_rows
from mrgpssm.estimator.judges import Judge
from mrgpssm.estimator.unseen import Judged
from mrgpssm.spec import arrange
from mrgpssm.training.planning import make_plan

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 2, "windows": 4, "window": 8, "buffer": 2, "cycles": 2, "steps": 4}
LEARNED: dict[str, Any] = {"filters": (4,), "delays": (3,)}


def judges_of(data: list[Sequence], folds: int, **given: Any) -> list[Judge]:
    """Every fold's model, before anything is learned from what it has not seen."""
    found: list[Judge] = []

    def stop(model, judges, stage):
        found.extend(judges)
        return Judged(model, None, None)

    with mock.patch("mrgpssm.estimator.fitting.calibrate_model", stop):
        MRGPSSM((3, 1), **arrange(**SMALL, **LEARNED, folds=folds, **given)).fit(data, progress=False)
    return found


def numbers(judge: Judge) -> list[np.ndarray]:
    """All that a fold has learned: parameters and scaling."""
    model = judge.model
    return [
        *map(np.asarray, jax.tree.leaves(model.ensemble)),
        *(np.asarray(v) for v in vars(model.scaling).values()),
    ]


def poisoned(s: Sequence, rows: np.ndarray, inputs: bool) -> Sequence:
    """1e9 in the outputs of some rows, and in the inputs where asked."""
    outputs = np.where(rows[:, None], 1e9, s.outputs)
    return replace(s, outputs=outputs, inputs=np.where(rows[:, None] & inputs, -1e9, s.inputs))


@pytest.mark.parametrize(("count", "folds"), [(3, 3), (2, 3)], ids=["recordings", "stretches"])
def test_poison_in_what_a_fold_leaves_out_changes_nothing_in_it(count, folds):
    """Whole recordings with inputs and outputs; where stretches are left out, the inputs between are known."""
    data, fold = [recording(k, 96) for k in range(count)], 1
    rows = np.split(unseen_rows(data, folds, fold), np.cumsum([len(s) for s in data])[:-1])
    bad = [poisoned(s, r, inputs=count >= folds) for s, r in zip(data, rows, strict=True)]
    clean, dirty = (judges_of(some, folds) for some in (data, bad))
    for ours, theirs in zip(numbers(clean[fold]), numbers(dirty[fold]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    others = [k for k in range(folds) if k != fold]
    for k in others:
        assert not np.array_equal(clean[k].model.scaling.output_mean, dirty[k].model.scaling.output_mean)


def test_early_stopping_starts_no_inducing_input_on_validation_data():
    model = MRGPSSM((3, 1), **arrange(**SMALL, filters=(4,), early_stopping=True))
    held_out = recording(7, 96)
    bad = poisoned(held_out, np.ones(96, bool), inputs=True)
    options, training, scaling = model.check([recording(0, 96), recording(1, 96)], validated=True)
    with floating_point("float32"):
        clean, dirty = (make_plan(options, training, scaling, [s])[1] for s in (held_out, bad))
    for ours, theirs in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_inducing_inputs_of_a_fold_are_rows_that_it_trains_on():
    data = [recording(k, 96) for k in range(3)]
    options, training, scaling = MRGPSSM((3, 1), **arrange(**SMALL, filters=(4,), folds=3)).check(data)
    with floating_point("float32"):
        plan, ssm = make_plan(options, training, scaling)
    for member, fold in enumerate([None, 0, 1, 2]):
        rows = np.asarray(plan.series.inputs)[member].reshape(3, 96, 4)
        seen = rows[[k for k in range(3) if k != fold]].reshape(-1, 4)
        points = np.asarray(ssm.components[0].transition.gp.inducing)[member, ..., 2:].reshape(-1, 4)
        assert all((seen == point).all(1).any() for point in points)


def test_a_column_that_does_not_vary_in_a_part_is_only_moved_there():
    whole = [Sequence(np.array([[3.0, 0.0]] * 4), np.array([[1.0], [np.nan], [2.0], [1.5]]))]
    other = Sequence(np.arange(8.0).reshape(4, 2), np.full((4, 1), np.nan))
    scaling = Scaling.fit([*whole, other])
    part, blank = scaling.refit(whole), scaling.refit([other])
    np.testing.assert_array_equal(part.input_mean, [3, 0])
    np.testing.assert_array_equal(part.input_sd, [3, 1])
    np.testing.assert_allclose(np.array([part.output_mean, part.output_sd]), np.array([[1.5], [np.std([1, 2, 1.5])]]))
    np.testing.assert_array_equal((blank.output_mean, blank.output_sd), (scaling.output_mean, scaling.output_sd))
