"""Filtered inputs: the averages against their closed form, in fitting, simulation, warm-up and files."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recordings import recording

from mrgpssm import MRGPSSM, ConfigError, DataError, Sequence, load
from mrgpssm.arrays.drive import Drive
from mrgpssm.arrays.params import positive
from mrgpssm.data import Scaling, apply_drive, fill, follow_drive, samples_between
from mrgpssm.spec import arrange
from mrgpssm.training.fleet import make_fleet
from mrgpssm.training.members import start_on_data
from mrgpssm.training.planning import list_members

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 5,
                         "folds": 0}  # fmt: skip


def averages(u, clock, tau):
    """s_t as the weighted sum it is: the first input fades, every later change has its exponential share."""
    fade = np.exp(-(clock[:, None] - clock[None, :]) / tau)
    weights = np.tril(fade[1:, 1:]) * (1 - np.exp(-np.diff(clock) / tau))[None, :]
    later = weights @ u[1:] + np.exp(-(clock[1:] - clock[0]) / tau)[:, None] * u[:1]
    return np.concatenate([u[:1], later])


@pytest.mark.parametrize("rows", [1, 2, 40, 300])
def test_averages_of_many_rows_are_those_of_one_after_the_other(rows):
    """Blocks of rows side by side, against a loop that remembers."""
    rng = np.random.default_rng(1)
    u, steps, memory, found = rng.standard_normal((rows, 2)), rng.uniform(0.1, 1, rows), None, []
    for row in range(rows):
        drive, memory = Drive((3.0, 50.0), (2, 7)).follow(u[row : row + 1], steps[row : row + 1], memory)
        found.append(drive[0])
    whole, after = Drive((3.0, 50.0), (2, 7)).follow(u, steps)
    np.testing.assert_allclose(whole, found, rtol=0, atol=1e-13)
    assert memory is not None
    np.testing.assert_allclose(after.averages, memory.averages, atol=1e-13)
    np.testing.assert_allclose(after.ages, memory.ages, atol=1e-12)
    np.testing.assert_array_equal(after.past, memory.past)


@pytest.mark.parametrize("even", [True, False])
def test_averages_are_their_closed_form(even):
    rng = np.random.default_rng(0)
    u, time = rng.standard_normal((40, 2)), np.cumsum(rng.uniform(0.02, 0.1, 40))
    sequence = Sequence(u, u[:, :1], 0.1, None if even else time)
    found = apply_drive(Drive((3.0, 20.0)), sequence)
    assert found.input_names == Drive((3.0, 20.0)).names(("u1", "u2"))
    np.testing.assert_array_equal(found.inputs[:, :2], u)
    for k, tau in enumerate((3.0, 20.0)):
        expected = averages(u, sequence.clock(), tau)
        np.testing.assert_allclose(found.inputs[:, 2 + 2 * k : 4 + 2 * k], expected, atol=1e-12)


@pytest.mark.parametrize("gap", [2, 10, 200])
def test_over_a_gap_the_last_input_is_averaged_and_delayed(gap):
    """As if the rows of the gap were there, with the input held."""
    u, drive = np.random.default_rng(2).standard_normal((40, 2)), Drive((3.0, 20.0), (1, 5))
    full = np.concatenate([u[:20], np.repeat(u[19:20], gap - 1, axis=0), u[20:]])
    kept = np.r_[0:20, 19 + gap : len(full)]
    found = apply_drive(drive, Sequence(u, u[:, :1], 0.1, 0.1 * kept)).inputs
    np.testing.assert_allclose(found, apply_drive(drive, Sequence(full, full[:, :1], 0.1)).inputs[kept], atol=1e-12)


def test_no_filters_change_nothing_and_halves_follow_each_other():
    whole, drive = recording(0), Drive((7.0,), (4,))
    assert apply_drive(Drive(), whole) is whole
    first, second = (Sequence(whole.inputs[s], whole.outputs[s], whole.dt) for s in (slice(None, 30), slice(30, None)))
    before, memory = follow_drive(drive, fill(first))
    after, _ = follow_drive(drive, fill(second), memory)
    np.testing.assert_allclose(np.concatenate([before, after]), apply_drive(drive, whole).inputs, atol=1e-12)


def test_halves_are_one_sample_apart_unless_both_times_say_more():
    u, time = np.arange(8.0)[:, None], np.cumsum([0.1, 0.2, 0.1, 0.3, 0.25, 0.1, 0.2, 0.2])
    before, after = (Sequence(u[s], u[s], 0.1, time[s], name=str(s.start)) for s in (slice(None, 4), slice(4, None)))
    assert samples_between(before, after) == pytest.approx(2.5)
    assert samples_between(replace(before, time=None), after) == 1.0
    assert samples_between(before, replace(after, time=None)) == 1.0
    with pytest.raises(
        DataError, match=r"None: begins at 0\.1 s, but 4 ends at 1\.45 s; give the times of both by one clock"
    ):
        samples_between(after, before)


def test_inducing_points_start_on_rows_of_the_data():
    options = MRGPSSM((3, 1), **arrange(**SMALL, filters=(2.0,))).spec.complete()
    rows = np.random.default_rng(0).standard_normal((50, 10)).astype(np.float32)
    scaling = Scaling(np.zeros(10), np.ones(10), np.zeros(1), np.ones(1))
    plain = options.change(filters=())
    plan, ssm = make_fleet(plain, [Sequence(rows, np.zeros((50, 1)))], [scaling], list_members(plain, 1, 1))
    placed = start_on_data(ssm, plan.series, plan.tasks)
    for before, after in zip(ssm.components, placed.components, strict=True):
        old, new = (np.asarray(c.transition.gp.inducing) for c in (before, after))
        points = new[..., 2:].reshape(-1, 10)
        assert max(np.abs(rows - point).sum(1).min() for point in points) < 1e-5
        assert len(np.unique(points.round(5), axis=0)) > len(points) / 2
        np.testing.assert_array_equal(new[..., :2], old[..., :2])
        raw = [c.transition.gp.kernel.raw_lengthscales for c in (before, after)]
        scales = [np.asarray(positive(values)) for values in raw if values is not None]
        np.testing.assert_allclose(scales[1], scales[0] * np.sqrt(12 / 6), rtol=1e-6)


def test_a_model_with_filters_is_driven_by_them_and_survives_a_file(tmp_path):
    model = MRGPSSM((3, 1), **arrange(**SMALL, filters=(2, 30), restarts=2, ensemble=2))
    model.fit([recording(0), recording(1)], progress=False)
    assert model.fitted_.drive_names == Drive((2.0, 30.0)).names(recording(0).input_names)
    assert len(model.fitted_.scaling.input_mean) == 3 * len(recording(0).input_names)
    model.save(tmp_path / "m.mrgpssm")
    again, inputs = load(tmp_path / "m.mrgpssm"), recording(2).inputs
    runs = [m.simulate(inputs, samples=4) for m in (model, again)]
    np.testing.assert_array_equal(runs[0].mean, runs[1].mean)
    assert again.filters == (2.0, 30.0)


def test_averages_go_on_from_the_warm_up():
    model = MRGPSSM((3, 1), **arrange(**SMALL, filters=(30,))).fit([recording(0), recording(1)], progress=False)
    whole = recording(2)
    past, rest = whole.inputs[:40], whole.inputs[40:]
    near, far = (
        model.simulate(rest, warmup=(p, np.full((40, 2), np.nan)), samples=4, seed=1).mean[-40:]
        for p in (past, np.concatenate([past[:20] + 30.0, past[20:]]))
    )
    assert np.abs(near - far).max() > 1e-6


@pytest.mark.parametrize("filters", [5, "10", (0,), (-1,), (np.inf,), (2, 2), ("a",), tuple(range(1, 18)), (True,)])
def test_filters_that_make_no_sense_are_refused(filters):
    with pytest.raises(ConfigError, match="filter"):
        MRGPSSM((1,), filters=filters).check(recording(0))
