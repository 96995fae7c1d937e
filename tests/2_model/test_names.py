"""Whatever has names is matched by name, and an index of times is the time: tables, Series and arrays as users have them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, Columns, DataError, Sequence, read_sequences
from mrgpssm.data import as_inputs
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "window": 6, "buffer": 1, "cycles": 1, "steps": 2,
                         "folds": 0}  # fmt: skip


def table(seed: int = 0, rows: int = 160) -> pd.DataFrame:
    s = recording(seed, rows)
    return pd.DataFrame(dict(zip((*s.input_names, *s.output_names), [*s.inputs.T, *s.outputs.T], strict=True)))


def dated(frame: pd.DataFrame, seconds=None) -> pd.DataFrame:
    seconds = 0.1 * np.arange(len(frame)) if seconds is None else seconds
    return frame.set_axis(pd.Timestamp("2024-05-31 12:00") + pd.to_timedelta(seconds, unit="s"))


@pytest.fixture(scope="module")
def model() -> MRGPSSM:
    return untrained(resolutions=(3, 1))


@pytest.mark.parametrize(
    "given",
    [
        lambda t: t,
        lambda t: t[["load", "Temp", "speed", "NOx"]],
        lambda t: t[["load", "speed"]].assign(unused="text"),
        lambda t: t.to_dict("series"),
        lambda t: dated(t)[["load", "speed"]],
        lambda t: t[["load", "speed"]].set_axis(pd.to_timedelta(0.1 * np.arange(len(t)), unit="s")),
        lambda t: Sequence(t[["load", "speed"]], t[["Temp", "NOx"]], dt=0.1),  # pyright: ignore[reportArgumentType]
        lambda t: t[["speed", "load"]].to_numpy(),
        lambda t: t[["speed", "load"]].to_numpy().tolist(),
    ],
)
def test_simulate_finds_columns_by_name_and_array_columns_by_position(model, given):
    """Swapped columns move this model's output by far more than rounding."""
    frame = table()
    right = model.simulate(recording(0), samples=4).mean
    np.testing.assert_array_equal(model.simulate(given(frame), samples=4).mean, right)
    swapped = model.simulate(frame[["load", "speed"]].to_numpy(), samples=4).mean
    assert np.abs(swapped - right).max() > 0.1


def test_a_missing_column_is_one_sentence_that_names_it(model):
    with pytest.raises(
        DataError, match="inputs: input column 'load' is missing; the table has speed, Load, NOx"
    ) as caught:
        model.simulate(table().rename(columns={"load": "Load"})[["speed", "Load", "NOx"]])
    assert "Did you mean 'Load'?" in str(caught.value)
    with pytest.raises(DataError, match="output column 'Temp' is missing"):
        model.score(table().drop(columns="Temp"))
    frame = table()
    frame.loc[7, "load"] = np.nan
    with pytest.raises(DataError, match="'load' is not finite in row 7"):
        model.simulate(frame)
    with pytest.raises(DataError, match="input column 'load' is missing in row 7"):
        model.score(frame)


def test_score_takes_tables_in_any_order(model):
    right = model.score([recording(0), recording(1)], samples=4)
    frames = [dated(table(0)), table(1)[["Temp", "load", "NOx", "speed"]]]
    pd.testing.assert_frame_equal(model.score(frames, samples=4), right)
    with pytest.raises(DataError, match=r"median step of 1 s, but dt = 0\.1 s was given"):
        model.score(dated(table(0), np.arange(160.0)))


@pytest.mark.parametrize("column", [np.ravel, lambda x: pd.Series(x[:, 0]), lambda x: pd.Series(x[:, 0], name="u1")])
def test_a_series_or_a_flat_array_is_one_column(column):
    u, y = np.random.default_rng(0).standard_normal((2, 30, 1))
    made = Sequence(column(u), column(y)) if isinstance(column(u), np.ndarray) else Sequence(column(u), y)
    np.testing.assert_array_equal(made.inputs, u)
    np.testing.assert_array_equal(made.outputs, y)
    assert made.input_names == ("u1",)
    given = as_inputs(column(u), ("u1",), ("y1", "y2"), 0.5)
    np.testing.assert_array_equal(given.inputs, u)
    assert (given.outputs.shape, given.dt) == ((30, 2), 0.5)


def test_a_series_is_matched_by_its_name_too(model):
    with pytest.raises(DataError, match="input column 'load' is missing; the table has speed"):
        model.simulate(table()["speed"])


def test_a_sequence_takes_names_and_times_from_tables():
    frame = dated(table())
    made = Sequence(frame[["load", "speed"]], frame["NOx"])  # pyright: ignore[reportArgumentType]
    assert (made.input_names, made.output_names, made.dt, made.time) == (("load", "speed"), ("NOx",), 0.1, None)
    picked = Sequence(frame, frame, input_names=("speed",), output_names=("Temp",))  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(picked.inputs[:, 0], frame["speed"])
    np.testing.assert_array_equal(picked.outputs[:, 0], frame["Temp"])
    plain = Sequence(table()[["speed"]], table()[["NOx"]], dt=0.5)  # pyright: ignore[reportArgumentType]
    assert plain.dt == 0.5
    assert Sequence(np.zeros(3), np.zeros(3)).dt == 1.0


def test_uneven_times_of_an_index_are_kept():
    seconds = np.concatenate([np.arange(80), np.arange(120, 200)]) * 0.1
    frame = dated(table(), seconds)
    made = Sequence(frame[["speed"]], frame[["NOx"]])  # pyright: ignore[reportArgumentType]
    assert made.dt == pytest.approx(0.1)
    np.testing.assert_allclose(made.clock()[[79, 80]], [79, 120])
    assert made.time is not None
    np.testing.assert_allclose(made.time, seconds)
    pieces = read_sequences(frame, Columns(("speed",), ("NOx",)))
    assert [(len(piece), piece.dt, piece.time) for piece in pieces] == [(80, 0.1, None)] * 2
    other = frame.set_axis(frame.index[::-1])
    with pytest.raises(DataError, match="the time index goes back in row 1"):
        Sequence(other[["speed"]], other[["NOx"]])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="time indices of inputs and outputs differ"):
        Sequence(frame[["speed"]], other[["NOx"]])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="but dt = 30 s was given"):
        Sequence(frame[["speed"]], frame[["NOx"]], dt=30.0)  # pyright: ignore[reportArgumentType]


def test_fit_takes_tables_and_remembers_the_names():
    """The model is the one that sequences give, and validation is matched by name."""
    columns: dict[str, Any] = {"inputs": ["speed", "load"], "outputs": ["NOx", "Temp"]}
    frames = [dated(table(0)), dated(table(1))[["Temp", "load", "NOx", "speed"]]]
    validation = table(2)[["NOx", "speed", "Temp", "load"]]
    right = MRGPSSM((1,), **arrange(**SMALL)).fit([recording(0), recording(1)], recording(2), progress=False)
    made = MRGPSSM((1,), **arrange(**SMALL)).fit(frames, validation, progress=False, **columns)
    assert (made.fitted_.input_names, made.fitted_.dt) == (("speed", "load"), 0.1)
    np.testing.assert_array_equal(made.bounds_, right.bounds_)
    np.testing.assert_array_equal(made.fitted_.calibration, right.fitted_.calibration)
    one = MRGPSSM((1,), **arrange(**SMALL)).fit(table(0), progress=False, inputs=["load"], outputs=["NOx"], dt=0.5)
    assert (one.fitted_.input_names, one.fitted_.dt) == (("load",), 0.5)
    with pytest.raises(DataError, match=r"which columns of the tables are what: fit\(tables, inputs=\[...\]"):
        MRGPSSM((1,), **arrange(**SMALL)).fit(table(0), progress=False)
    with pytest.raises(DataError, match="table 2: input column 'speed' is missing"):
        MRGPSSM((1,), **arrange(**SMALL)).fit([table(0), table(1).drop(columns="speed")], progress=False, **columns)
