"""Sequences, scaling, windows and the synthetic systems."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from budget import SIGMAS

from mrgpssm.data import Scaling, Sequence, draw_windows, flatten, window_counts
from mrgpssm.data.synthetic import SETS, two_scales
from mrgpssm.errors import DataError

DTYPE = jnp.zeros(()).dtype


def sequence(rows, seed=0, name="a", **more):
    rng = np.random.default_rng(seed)
    return Sequence(rng.standard_normal((rows, 2)), rng.standard_normal((rows, 1)), name=name, **more)


def test_scaling_is_that_of_the_training_rows_and_ignores_missing_outputs():
    a, b = sequence(50, 1), sequence(70, 2)
    outputs = np.array(b.outputs)
    outputs[3] = np.nan
    b = Sequence(b.inputs * 5 + 3, outputs)
    scaling = Scaling.fit([a, b])
    inputs = np.concatenate([a.inputs, b.inputs])
    seen = np.delete(np.concatenate([a.outputs, b.outputs]), 53, axis=0)
    np.testing.assert_allclose(scaling.input_mean, inputs.mean(0))
    np.testing.assert_allclose(scaling.output_sd, seen.std(0))
    np.testing.assert_allclose(scaling.inputs(inputs).std(0), 1.0)


@pytest.mark.parametrize("size", [1e-100, 1e-15, 1.0, 1e15, 1e100])
def test_scaling_does_not_care_for_the_unit(size):
    made = sequence(50, 1)
    scaling = Scaling.fit([Sequence(size * made.inputs, size * made.outputs)])
    np.testing.assert_allclose(scaling.outputs(size * made.outputs).std(0), 1.0)


def test_windows_are_the_rows_they_should_be():
    """Rows i, i + R, ..., i + t R, all inside one sequence, every allowed start drawn, and no other."""
    lengths, resolution, steps = (40, 9, 25), 3, 4
    series = flatten([sequence(n, n) for n in lengths], Scaling.fit([sequence(40)]), DTYPE)
    counts = window_counts(series.lengths, jnp.asarray(resolution, jnp.int32), steps)
    np.testing.assert_array_equal(counts, [28, 0, 13])
    rows, at_start = draw_windows(series, jnp.asarray(resolution, jnp.int32), 4000, steps, 0, key=jax.random.key(0))
    rows = np.asarray(rows)
    assert rows.shape == (4000, steps + 1)
    np.testing.assert_array_equal(np.diff(rows, axis=1), resolution)
    allowed = {*range(28), *range(49, 49 + 13)}
    assert set(rows[:, 0]) == allowed
    ends = np.array([39, 48, 73])
    owner = np.searchsorted(ends, rows)
    assert np.all(owner == owner[:, :1])
    np.testing.assert_array_equal(np.asarray(at_start), np.isin(rows[:, 0], [0, 49]))
    share = np.mean(rows[:, 0] < 28)
    assert abs(share - 28 / 41) < SIGMAS * np.sqrt(28 * 13 / 41**2 / 4000)


def test_some_windows_can_be_placed_at_the_start():
    series = flatten([sequence(40), sequence(30, 1)], Scaling.fit([sequence(40)]), DTYPE)
    rows, at_start = draw_windows(series, jnp.asarray(2, jnp.int32), 10, 5, 3, key=jax.random.key(0))
    assert np.all(np.asarray(at_start)[:3])
    assert set(np.asarray(rows)[:3, 0]) <= {0, 40}


def test_irregular_times_become_uneven_clock_ticks():
    time = np.array([0.0, 0.1, 0.2, 0.7, 0.8])
    s = Sequence(np.zeros((5, 1)), np.zeros((5, 1)), dt=0.1, time=time + 5)
    np.testing.assert_allclose(s.clock(), [0, 1, 2, 7, 8])


def test_sequences_do_not_share_memory_with_the_caller():
    inputs, outputs = np.zeros((5, 1)), np.zeros((5, 1))
    s = Sequence(inputs, outputs)
    inputs[0] = 7
    assert s.inputs[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        s.inputs[0] = 1


def test_tables_become_sequences_by_column_name():
    table = pd.DataFrame({"y": [1.0, 2.0, np.nan], "a": [3, 4, 5], "b": [0.0, 0.1, 0.2]})
    made = Sequence.from_dataframe(table, inputs=["b", "a"], outputs=["y"], dt=0.5)
    np.testing.assert_array_equal(made.inputs, [[0.0, 3.0], [0.1, 4.0], [0.2, 5.0]])
    assert made.input_names == ("b", "a")
    assert np.isnan(made.outputs[2, 0])
    with pytest.raises(DataError, match="input column 'c' is missing; the table has y, a, b"):
        Sequence.from_dataframe(table, inputs=["c"], outputs=["y"])


@pytest.mark.parametrize("kind", SETS)
def test_synthetic_sets_are_deterministic_and_add_up(kind):
    a, b, other = (
        two_scales(kind, seed=3, length=3000),
        two_scales(kind, seed=3, length=3000),
        two_scales(kind, seed=4, length=3000),
    )
    np.testing.assert_array_equal(a.sequence.outputs, b.sequence.outputs)
    assert np.any(a.sequence.outputs != other.sequence.outputs)
    clean = sum(a.components.values())
    noise = a.sequence.outputs - clean
    assert 0.015 * np.std(clean) < np.std(noise) < 0.025 * np.std(clean)
    assert len(two_scales(kind, seed=0).sequence) == 20_000


def test_synthetic_components_have_the_time_constants_they_claim():
    """The autocorrelation of fast components falls within seconds, that of slow ones within minutes."""
    made = two_scales("M1", seed=0)
    for name, part in made.components.items():
        x = part[:, 0] - part.mean()
        correlation = np.corrcoef(x[:-50], x[50:])[0, 1]  # over 5 s
        assert (correlation > 0.97) == (made.time_constants[name] > 10)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Sequence(np.zeros(()), np.zeros((5, 1))), r"shape \(T, D\); got \(\)"),
        (lambda: Sequence(np.zeros((5, 1)), np.zeros((4, 1))), "5 rows and outputs 4"),
        (lambda: Sequence(np.zeros((5, 1)), np.zeros((5, 1, 1))), "give rows of times"),
        (lambda: Sequence(np.zeros((1, 1)), np.zeros((1, 1))), "at least 2 rows"),
        (lambda: Sequence(np.array([["a"], ["b"]]), np.zeros((2, 1))), "must be numbers"),
        (lambda: Sequence(np.array([[0.0], [np.nan]]), np.zeros((2, 1)), input_names=("load",)), "'load' is not finite in row 1"),
        (lambda: Sequence(np.array([[0.0], [np.inf]]), np.zeros((2, 1))), "'u1' is not finite in row 1"),
        (lambda: Sequence(np.zeros((2, 1)), np.array([[0.0], [np.inf]])), "'y1' is infinite in row 1"),
        (lambda: Sequence(np.zeros((2, 1)), np.zeros((2, 1)), dt=0.0), "dt must be a positive"),
        (lambda: Sequence(np.zeros((2, 1)), np.zeros((2, 1)), dt=np.nan), "dt must be a positive"),
        (lambda: Sequence(np.zeros((2, 2)), np.zeros((2, 1)), input_names=("a",)), "2 columns were given for 1 inputs: a"),
        (lambda: Sequence(np.zeros((2, 2)), np.zeros((2, 1)), input_names=("a", "a")), "repeat"),
        (lambda: Sequence(np.zeros((2, 1)), np.zeros((2, 1)), time=np.array([1.0, 1.0])), "must increase; it does not at row 1"),
        (lambda: Sequence(np.zeros((2, 1)), np.zeros((2, 1)), time=np.zeros(3)), "one value per row"),
        (lambda: Scaling.fit([Sequence(np.ones((5, 1)), np.random.default_rng(0).normal(size=(5, 1)))]), "'u1' is constant"),
        (lambda: Scaling.fit([Sequence(np.arange(5.0)[:, None], np.full((5, 1), 2.0))]), "Output 'y1' is constant"),
        (lambda: Scaling.fit([Sequence(np.arange(5.0)[:, None], np.full((5, 1), np.nan))]), "no measured value"),
        (lambda: Scaling.fit([Sequence(np.arange(5.0)[:, None], 1e200 * np.arange(5.0)[:, None])]), "'y1' has values too large to be scaled"),
        (lambda: Scaling.fit([Sequence(1e9 + np.zeros((5, 1)), np.arange(5.0)[:, None])]), "'u1' is constant"),
    ],
)  # fmt: skip
def test_bad_data_gets_one_sentence(make, says):
    with pytest.raises(DataError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)
