"""Sequences, scaling, windows and the synthetic systems."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from budget import SIGMAS

from mrgpssm.data import Scaling, Sequence
from mrgpssm.data.synthetic import SETS, two_scales
from mrgpssm.errors import DataError
from mrgpssm.training.series import flatten
from mrgpssm.training.windows import draw_windows, inner_places

pytestmark = pytest.mark.once

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


def rows_and_weights(lengths, resolution, windows, window, buffer, key):
    series = flatten([sequence(n, n) for n in lengths], [Scaling.fit([sequence(40)])], DTYPE)
    drawn = draw_windows(series, jnp.asarray(resolution, jnp.int32), windows, window, buffer, key=key)
    return tuple(map(np.asarray, drawn))


def test_windows_are_the_rows_they_should_be():
    """Rows i, i + R, ..., i + t R inside one sequence, from row 1 on; what is past its end counts nothing."""
    lengths, resolution = (40, 9, 25), 3
    counts = inner_places(jnp.asarray(lengths, jnp.int32), jnp.asarray(resolution, jnp.int32), 1)
    np.testing.assert_array_equal(counts, [33, 2, 18])
    rows, at_start, weights = rows_and_weights(lengths, resolution, 4000, 3, 1, jax.random.key(0))
    assert rows.shape == (4000, 5)
    assert weights.shape == (4000, 4)
    inner, ends = rows[~at_start], np.array([39, 48, 73])
    assert set(inner[:, 0]) == {*range(1, 34), 41, 42, *range(50, 68)}
    owner = np.searchsorted(ends, rows)
    assert np.all(owner == owner[:, :1])
    wanted = inner[:, :1] + resolution * np.arange(5)
    past = wanted > ends[owner[~at_start]]
    np.testing.assert_array_equal(inner, np.where(past, ends[owner[~at_start]], wanted))
    np.testing.assert_array_equal(weights[~at_start] == 0, past[:, 1:] | (np.arange(4) < 1))
    share = np.mean(owner[~at_start][:, 0] == 0)
    assert abs(share - 33 / 53) < SIGMAS * np.sqrt(33 * 20 / 53**2 / len(inner))


def test_windows_at_a_start_have_no_buffer_and_pass_every_row():
    rows, at_start, weights = rows_and_weights((40, 2, 30), 3, 2000, 4, 2, jax.random.key(0))
    starting = rows[at_start]
    assert set(starting[:, 0]) == {0, 40, 42}
    starting, weights = starting[starting[:, 0] != 40], weights[at_start][starting[:, 0] != 40]
    assert set(starting[:, 1] - starting[:, 0]) == {1, 2, 3}
    np.testing.assert_array_equal(np.diff(starting[:, 1:], axis=1), 3)
    np.testing.assert_allclose(weights / weights[:, :1], [[1, 1, 1, 0.75, 0.5, 0.25]] * len(weights))


@pytest.mark.parametrize("lengths", [(70, 9, 33, 2), (9, 8), (2,)], ids=str)
@pytest.mark.parametrize("windows", [1, 7])
def test_every_row_counts_the_same_in_expectation(lengths, windows):
    """1 / R for every row but the first of each sequence, by the sampler and the weights of training."""
    resolution, window, buffer, batches = 3, 4, 1, 4000
    keys = jax.random.split(jax.random.key(1), batches)
    series = flatten([sequence(n, n) for n in lengths], [Scaling.fit([sequence(40)])], DTYPE)
    own = eqx.tree_at(lambda s: s.lengths, series, series.lengths.at[2:3].set(0))  # as where a member leaves it out

    @jax.jit
    @jax.vmap
    def counts(key):
        rows, _, weights = draw_windows(own, jnp.asarray(resolution, jnp.int32), windows, window, buffer, key=key)
        return jnp.zeros((sum(lengths),), DTYPE).at[rows[:, 1:]].add(weights), jnp.max(weights)

    found, heaviest = (np.asarray(x, float) for x in counts(keys))
    expected = np.full(sum(lengths), 1 / resolution)
    expected[np.asarray(series.offsets)] = 0
    expected[sum(lengths[:2]) : sum(lengths[:3])] = 0
    error = found.std(axis=0) / np.sqrt(batches) + 1e-6
    assert np.all(np.abs(found.mean(axis=0) - expected) < SIGMAS * error)
    trained = [n for k, n in enumerate(lengths) if k != 2]
    places = sum(max(n - 1 - (buffer + 1) * resolution, 0) for n in trained)
    even = (len(trained) + places / (resolution * window)) / windows
    assert heaviest.max() <= 10 / 9 * even * (1 + 1e-5)


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
