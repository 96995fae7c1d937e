"""Users' tables become sequences: every format gives the same numbers, every bad file one sentence."""

import importlib.util
import io
import time as clock
import warnings
import zipfile
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from mrgpssm.data.tables import Columns, as_frame, read_sequences, read_table
from mrgpssm.errors import DataError

pytestmark = pytest.mark.once

ROWS = 7
UY = Columns(("u",), ("y",))
TUY = Columns(("u",), ("y",), time="t")
PARQUET = importlib.util.find_spec("pyarrow") is not None
needs_parquet = pytest.mark.skipif(not PARQUET, reason="pyarrow is not installed; install mrgpssm[data]")


def numbers():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"t": 0.1 * np.arange(ROWS), "u": rng.standard_normal(ROWS), "y": rng.standard_normal(ROWS)})


def text(frame, delimiter=",", comma=False, header=True):
    rows = [delimiter.join(frame.columns)] if header else []
    rows += [delimiter.join(repr(float(v)) for v in row) for row in frame.to_numpy()]
    joined = "\n".join(rows) + "\n"
    return joined.replace(".", ",") if comma else joined


def write(folder, content, name="run.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_npz(path, frame):
    np.savez(path, **{name: frame[name].to_numpy() for name in frame}, rate=10.0)


def write_npz_matrix(path, frame):
    np.savez(path, data=frame.to_numpy(), names=list(frame.columns))


def write_mat(path, frame):
    savemat(
        path, {"t": frame["t"].to_numpy(), "u": frame["u"].to_numpy()[:, None], "y": frame["y"].to_numpy(), "fs": 10}
    )


class Foreign:
    """A table of another library, as far as the interchange protocol can see."""

    def __init__(self, frame):
        self.frame = frame

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.frame.__dataframe__(nan_as_null, allow_copy)


FORMATS = {
    "comma": ("a.csv", lambda path, f: path.write_text(text(f))),
    "semicolon": ("a.csv", lambda path, f: path.write_text(text(f, ";"))),
    "decimal comma": ("a.csv", lambda path, f: path.write_text(text(f, ";", comma=True))),
    "tab": ("a.tsv", lambda path, f: path.write_text(text(f, "\t"))),
    "tab and decimal comma": ("a.txt", lambda path, f: path.write_text(text(f, "\t", comma=True))),
    "spaces": ("a.DAT", lambda path, f: path.write_text("  " + text(f, "  ").replace("\n", "  \n \t "))),
    "spaces and decimal comma": ("a.dat", lambda path, f: path.write_text(text(f, "  ", comma=True))),
    "padded": ("a.csv", lambda path, f: path.write_text(text(f, " , "))),
    "byte order mark": ("a.csv", lambda path, f: path.write_bytes(b"\xef\xbb\xbf" + text(f).encode())),
    "windows lines": ("a.csv", lambda path, f: path.write_bytes(text(f).replace("\n", "\r\n").encode())),
    "old mac lines": ("a.csv", lambda path, f: path.write_bytes(text(f).replace("\n", "\r").encode())),
    "no newline at the end": ("a.csv", lambda path, f: path.write_text(text(f).rstrip("\n"))),
    "blank lines": ("a.csv", lambda path, f: path.write_text("\n" + text(f).replace("\n", "\n\n"))),
    "quoted": (
        "a.csv",
        lambda path, f: path.write_text(text(f, '","').replace("\n", '"\n"').join('""').removesuffix('"\n""') + '"\n'),
    ),
    "npz": ("a.npz", write_npz),
    "npz with a matrix": ("a.npz", write_npz_matrix),
    "mat": ("a.mat", write_mat),
    "parquet": ("a.parquet", lambda path, f: f.to_parquet(path)),
}


@pytest.mark.parametrize("kind", [pytest.param(k, marks=needs_parquet) if k == "parquet" else k for k in FORMATS])
def test_every_format_gives_the_same_numbers(kind, tmp_path):
    name, save = FORMATS[kind]
    frame = numbers()
    save(tmp_path / name, frame)
    [made] = read_sequences(tmp_path / name, TUY)
    np.testing.assert_array_equal(made.inputs[:, 0], frame["u"])
    np.testing.assert_array_equal(made.outputs[:, 0], frame["y"])
    assert made.dt == pytest.approx(0.1)
    assert made.time is None
    assert (made.name, made.input_names, made.output_names) == (name, ("u",), ("y",))


@pytest.mark.parametrize("wrap", [lambda f: f, Foreign, dict, lambda f: {k: f[k].to_list() for k in f}, lambda f: f.set_index("t"), lambda f: f.astype("Float64"), lambda f: f.set_axis(range(5, 5 + ROWS)), lambda f: f.set_axis([3] * ROWS)])  # fmt: skip
def test_tables_in_memory_give_the_same_numbers_and_stay_as_they_are(wrap):
    frame = numbers()
    table = wrap(frame)
    [made] = read_sequences(table, TUY)
    np.testing.assert_array_equal(made.inputs[:, 0], numbers()["u"])
    pd.testing.assert_frame_equal(frame, numbers())
    taken = as_frame(table, "table")
    taken["u"] = 0.0
    taken["new"] = 1.0
    pd.testing.assert_frame_equal(frame, numbers())
    if isinstance(table, pd.DataFrame):
        assert "new" not in table
        assert np.all(table["u"].to_numpy() != 0)


def test_foreign_tables_keep_integers_truth_values_dates_and_missing_values():
    frame = pd.DataFrame(
        {
            "t": pd.date_range("2024-01-01", periods=3, freq="2s"),
            "u": [1, 2, 3],
            "v": [True, False, True],
            "y": [1.0, np.nan, 3.0],
        }
    )
    [made] = read_sequences(Foreign(frame), Columns(("u", "v"), ("y",), time="t"))
    np.testing.assert_array_equal(made.inputs, [[1, 1], [2, 0], [3, 1]])
    np.testing.assert_array_equal(made.outputs[:, 0], [1, np.nan, 3])
    assert made.dt == 2.0


def test_without_a_header_columns_are_counted(tmp_path):
    path = write(tmp_path, text(numbers(), header=False))
    assert list(read_table(path).columns) == ["c1", "c2", "c3"]
    [made] = read_sequences(path, Columns(("c2",), ("c3",), time="c1"))
    np.testing.assert_array_equal(made.inputs[:, 0], numbers()["u"])
    dated = write(tmp_path, "2024-01-01T00:00:00,1,NaN\n2024-01-01T00:00:01,2,3\n", "dated.csv")
    [made] = read_sequences(dated, Columns(("c2",), ("c3",), time="c1"))
    assert len(made) == 2
    index = write(tmp_path, ",u,y\n0,1,2\n1,3,4\n", "index.csv")
    assert list(read_table(index).columns) == ["c1", "u", "y"]


def test_missing_outputs_are_masked_however_they_are_written(tmp_path):
    cells = ["", "NaN", "nan", "NA", "null", "-", " - ", "NaN ", '""']
    path = write(tmp_path, "u,y\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)) + "99,1.5\n")
    [made] = read_sequences(path, UY)
    np.testing.assert_array_equal(made.outputs[:, 0], [np.nan] * len(cells) + [1.5])


def test_tab_separated_rows_may_be_all_missing(tmp_path):
    path = write(tmp_path, "u\ty\tz\n1\t2\t3\n\t\t\n", "a.tsv")
    assert read_table(path).isna().iloc[1].all()


def test_numbers_of_every_kind(tmp_path):
    table = pd.DataFrame(
        {
            "i": [1, 2],
            "b": [True, False],
            "n": pd.array([1, None], dtype="Int64"),
            "o": np.array([1, None], dtype=object),
        }
    )
    [made] = read_sequences(table, Columns(("i", "b"), ("n", "o")))
    np.testing.assert_array_equal(made.inputs, [[1, 1], [2, 0]])
    np.testing.assert_array_equal(made.outputs, [[1, 1], [np.nan, np.nan]])
    path = write(tmp_path, "u,y,v\n+1E-3,123456789012345678901234,True\n2,3,False\n")
    [made] = read_sequences(path, Columns(("u", "v"), ("y",)))
    np.testing.assert_array_equal(made.outputs[:, 0], [123456789012345678901234.0, 3])
    np.testing.assert_array_equal(made.inputs, [[0.001, 1], [2, 0]])


def test_masked_arrays_are_missing_where_masked():
    y = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    [made] = read_sequences({"u": np.arange(3), "y": y}, UY)
    np.testing.assert_array_equal(made.outputs[:, 0], [1, np.nan, 3])


def test_matrices_in_archives_become_numbered_columns(tmp_path):
    savemat(
        tmp_path / "a.mat",
        {"U": np.arange(6.0).reshape(3, 2), "y": [1.0, 2.0, 3.0], "other": np.zeros(9), "label": "x"},
    )
    [made] = read_sequences(tmp_path / "a.mat", Columns(("U_1", "U_2"), ("y",)))
    np.testing.assert_array_equal(made.inputs, np.arange(6.0).reshape(3, 2))
    with pytest.raises(DataError, match=r"different numbers of rows: U_1 \(3\), U_2 \(3\), y \(3\), other \(9\)"):
        read_table(tmp_path / "a.mat")


def test_many_rows_are_read_quickly(tmp_path):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((200_000, 9))
    names = ",".join("abcdefghi")
    path = write(tmp_path, names + "\n" + "\n".join(",".join(map(repr, row)) for row in data.tolist()))
    start = clock.process_time()
    [made] = read_sequences(path, Columns(tuple("abcdefgh"), ("i",)))
    assert clock.process_time() - start < 2.0  # about 0.5 s; of this process alone, however busy the machine is
    np.testing.assert_array_equal(made.inputs, data[:, :8])


# Sources


def test_folders_patterns_and_lists_are_read_in_order(tmp_path):
    for k, name in enumerate(("b.csv", "a.csv", "c.txt")):
        write(tmp_path, f"u,y\n{k},1\n{k},2\n", name)
    write(tmp_path, "notes", "readme.md")
    write(tmp_path, "no table", ".hidden.csv")
    assert [s.name for s in read_sequences(tmp_path, UY)] == ["a.csv", "b.csv", "c.txt"]
    assert [s.name for s in read_sequences(str(tmp_path / "*.csv"), UY)] == ["a.csv", "b.csv"]
    table = pd.DataFrame({"u": [1, 2], "y": [3, 4]})
    made = read_sequences([tmp_path / "c.txt", table, str(tmp_path / "[a]*")], UY)
    assert [s.name for s in made] == ["c.txt", "table 2", "a.csv"]
    bracket = write(tmp_path, "u,y\n1,2\n3,4\n", "run[1].csv")
    assert len(read_sequences(bracket, UY)) == 1


def test_outputs_may_be_absent_where_only_simulating(tmp_path):
    path = write(tmp_path, "u,z\n1,5\n2,6\n")
    [made] = read_sequences(path, Columns(("u",), ("y", "z")), outputs_required=False)
    np.testing.assert_array_equal(made.outputs, [[np.nan, 5], [np.nan, 6]])
    [made] = read_sequences(path, Columns(("u",), ()), outputs_required=False)
    assert made.outputs.shape == (2, 0)


# Time


def timed(t, **more):
    return {"t": t, "u": np.arange(len(t), dtype=float), "y": np.zeros(len(t)), **more}


@pytest.mark.parametrize(
    "times",
    [
        ["2024-03-31T00:59:59", "2024-03-31T01:00:00", "2024-03-31T01:00:01.000"],
        ["2024-03-31 01:59:59+01:00", "2024-03-31 03:00:00+02:00", "2024-03-31T01:00:01Z"],
        [datetime(2024, 1, 1) + timedelta(seconds=k) for k in range(3)],
        pd.date_range("2024-01-01", periods=3, freq="s", tz="Europe/Berlin"),
        pd.Series(pd.date_range("2024-01-01", periods=3, freq="s")),
        np.datetime64("2024-01-01T00:00:00") + np.arange(3),
        pd.to_timedelta([0, 1, 2], unit="s"),
        pd.period_range("2024", periods=3, freq="s"),
        [10, 11, 12],
        pd.Series(["2024-01-01T00:00:00", "2024-01-01T00:00:01", "2024-01-01T00:00:02"], dtype="category"),
    ],
)  # fmt: skip
def test_times_are_numbers_or_dates(times):
    [made] = read_sequences(timed(times), TUY)
    assert made.dt == 1.0
    assert made.time is None


def test_dates_in_text(tmp_path):
    path = write(tmp_path, 't u y\n"2024-01-01 00:00:00" 1 2\n"2024-01-01 00:00:00.500" 3 4\n')
    [made] = read_sequences(path, TUY)
    assert made.dt == 0.5
    path = write(tmp_path, "t , u , y\n2024-01-01 00:00:00 , 1 , 2\n2024-01-01 00:00:30 , 3 , 4\n")
    [made] = read_sequences(path, TUY)
    assert made.dt == 30.0


def test_gaps_split_or_stay():
    t = np.array([0, 1, 2, 3, 10, 11, 12, 20, 30, 31]) * 0.1 + 1e9
    first, second, third = read_sequences(timed(t), TUY)
    assert [s.name for s in (first, second, third)] == ["table, part 1", "table, part 2", "table, part 3"]
    np.testing.assert_array_equal(first.inputs[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(second.inputs[:, 0], [4, 5, 6])
    np.testing.assert_array_equal(third.inputs[:, 0], [8, 9])  # the row alone between two gaps is dropped
    assert first.time is None
    [whole] = read_sequences(timed(t), TUY, gaps="irregular")
    assert (len(whole), whole.name) == (10, "table")
    np.testing.assert_allclose(whole.clock(), [0, 1, 2, 3, 10, 11, 12, 20, 30, 31], rtol=1e-5)


def test_even_times_are_even_for_every_rule():
    t = 0.1 * np.arange(50) + np.random.default_rng(0).uniform(-4e-4, 4e-4, 50)
    for rule in ("split", "irregular", "refuse"):
        [made] = read_sequences(timed(t), TUY, gaps=rule)
        assert made.time is None
        assert made.dt == pytest.approx(0.1, rel=0.01)


def test_a_given_dt_overrides_the_median():
    [made] = read_sequences(timed([0, 0.1, 0.2005]), Columns(("u",), ("y",), time="t", dt=0.1))
    assert made.dt == 0.1
    [made] = read_sequences(timed([0, 0.1, 0.5, 0.7]), Columns(("u",), ("y",), time="t", dt=0.1), gaps="irregular")
    assert made.dt == 0.1
    np.testing.assert_allclose(made.clock(), [0, 1, 5, 7])
    assert read_sequences(timed([5, 5, 5]), Columns(("u",), ("y",), dt=0.3))[0].dt == 0.3
    assert read_sequences(timed([5, 5, 5]), UY)[0].dt == 1.0


# What goes wrong

GOOD = "u,y\n1,2\n3,4\n"


def archive(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr(name, content)
    return made.getvalue()


BAD_FILES = [
    ("run.npz", archive("code.py", b"import os"), UY, {}, ["'code.py' in the archive is not an array"]),
    ("run.csv", b"", UY, {}, ["run.csv", "empty"]),
    ("run.csv", " \n\n", UY, {}, ["run.csv", "empty"]),
    ("run.csv", "u,y\n", UY, {}, ["run.csv", "only a header", "u, y"]),
    ("run.csv", "u,y\n1,2\n", UY, {}, ["at least 2 rows; got 1"]),
    ("run.csv", GOOD.encode("utf-16"), UY, {}, ["run.csv", "UTF-16", "UTF-8"]),
    ("run.csv", GOOD.encode("utf-16-le"), UY, {}, ["run.csv", "UTF-16", "UTF-8"]),
    ("run.csv", b"u,y\n1,2\n3,4\n" * 9 + b"\0\0", UY, {}, ["line 28", "NUL"]),
    ("run.csv", "u,y,°\n1,2,3\n".encode("latin-1"), UY, {}, ["byte 4 (0xb0, line 1)", "UTF-8"]),
    ("run.csv", b"\xef\xbb\xbfu,y\n1,2\n\xe9,3\n", UY, {}, ["byte 11 (0xe9, line 3)"]),
    ("run.csv", "u,y\n1,2\n3\n", UY, {}, ["line 3 has 1 cell", "first line 2"]),
    ("run.csv", "u,y\n1,2\n\n3,4,5\n", UY, {}, ["line 4 has 3 cells"]),
    ("run.txt", "u y\n1 2\n3 4 5\n", UY, {}, ["line 3 has 3 cells"]),
    ("run.csv", 'u,y\n1,2\n"3,4\n', UY, {}, ["quote in line 3"]),
    ("run.csv", "u\n1\n\n2\n", Columns(("u",), ()), {"outputs_required": False}, ["line 3 is empty", "NaN"]),
    ("run.csv", "u,y\n1,2\n3,4 V\n", UY, {}, ["run.csv", "output column 'y'", "'4 V'", "row 1 (line 3)"]),
    ("run.csv", "u,y\ns,V\n\n3,4\n", UY, {}, ["input column 'u'", "'s'", "row 0 (line 2)"]),
    ("run.csv", "u,y\n1_0,2\n3,4\n", UY, {}, ["'1_0'"]),
    ("run.csv", 'u,y\n"1,5",2\n3,4\n', UY, {}, ["'1,5'", "row 0 (line 2)"]),
    ("run.csv", "u;y\n1,5;2\n1.000,5;4\n", UY, {}, ["'1.000,5'", "row 1 (line 3)"]),
    ("run.csv", "u,y\n1,2\n\n,4\n-,5\n", UY, {}, ["input column 'u' is missing in row 1 (line 4) (2 such values)"]),
    ("run.csv", "u,y\n1,2\ninf,4\n", UY, {}, ["input column 'u' is infinite in row 1 (line 3)"]),
    ("run.csv", "u,y\n1,2\n3,-inf\n", UY, {}, ["output column 'y' is infinite in row 1 (line 3)"]),
    ("run.csv", "u,u,y\n1,2,3\n4,5,6\n", UY, {}, ["column 'u' occurs 2 times"]),
    ("run.csv", "Speed,y\n1,2\n3,4\n", Columns(("sped",), ("y",)), {}, ["input column 'sped' is missing; the table has Speed, y.", "'Speed'?"]),
    ("run.csv", "t,u,y\n0,1,2\n1,3,4\n", Columns(("u",), ("z",)), {}, ["output column 'z' is missing", "t, u, y"]),
    ("run.csv", GOOD, TUY, {"outputs_required": False}, ["time column 't' is missing"]),
    ("run.csv", "t,u,y\n0,1,2\n0,3,4\n", TUY, {}, ["time column 't' repeats", "row 1 (line 3)", "duplicates"]),
    ("run.csv", "t,u,y\n0,1,2\n1,3,4\n0.5,5,6\n", TUY, {}, ["time column 't' goes back in row 2 (line 4)", "sort"]),
    ("run.csv", "t,u,y\n0,1,2\n,3,4\n2,5,6\n", TUY, {}, ["time column 't' is missing", "row 1 (line 3)"]),
    ("run.csv", "t,u,y\n0,1,2\nx,3,4\n2,5,6\n", TUY, {}, ["time column 't' holds 'x' in row 1 (line 3)"]),
    ("run.csv", "t,u,y\n2024-01-01,1,2\n1.2.2024,3,4\n", TUY, {}, ["time column 't' holds '1.2.2024' in row 1 (line 3)", "2024-05-31"]),
    ("run.csv", "t,u,y\n10:00:00,1,2\n10:00:01,3,4\n", TUY, {}, ["time column 't' holds '10:00:00' in row 0 (line 2)"]),
    ("run.csv", "t,u,y\n2024-01-01,1,2\n,3,4\n2024-01-02,5,6\n", TUY, {}, ["missing", "row 1 (line 3)"]),
    ("run.csv", "t,u,y\n-,1,2\n-,3,4\n", TUY, {}, ["time column 't' is missing or infinite in row 0 (line 2)"]),
    ("run.csv", "t,u,y\n0,1,2\n1,3,4\n2.3,5,6\n3.3,7,8\n", TUY, {}, ["steps by 1.3 s to row 2 (line 4)", "gaps='irregular'", "resample"]),
    ("run.csv", "t,u,y\n0,1,2\n1,3,4\n2,5,6\n9,7,8\n", TUY, {"gaps": "refuse"}, ["steps by 7 s to row 3 (line 5)", "gap", "gaps='split'"]),
    ("run.csv", "t,u,y\n0,1,2\n1,3,4\n2,5,6\n", Columns(("u",), ("y",), "t", 0.1), {}, ["dt = 0.1 s", "median step of 1 s"]),
    ("run.csv", "t,u,y\n0,1,2\n1,3,4\n3,5,6\n", Columns(("u",), ("y",), "t", 9.0), {"gaps": "irregular"}, ["dt = 9 s"]),
    ("run.xlsx", b"PK", UY, {}, ["files ending in .xlsx", ".csv", ".parquet", ".mat"]),
    ("run", GOOD, UY, {}, ["without an ending", ".csv"]),
    ("run.npz", b"PK\x03\x04 broken", UY, {}, ["run.npz", "not a readable npz"]),
    ("run.npz", b"\x80\x04 pickle", UY, {}, ["run.npz", "not a readable npz"]),
    ("run.npz", b"", UY, {}, ["run.npz", "not a readable npz"]),
    ("run.mat", b"not a mat file at all" * 20, UY, {}, ["run.mat", "not a readable MATLAB"]),
    ("run.mat", b"", UY, {}, ["run.mat", "not a readable MATLAB"]),
    ("run.mat", b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + b"\x89HDF\r\n\x1a\n", UY, {}, ["7.3", "-v7"]),
    ("run.csv", GOOD, UY, {"gaps": "fill"}, ["gaps must be one of split, irregular, refuse; got 'fill'"]),
    ("run.csv", GOOD, Columns(("u",), ()), {}, ["at least one output", "outputs_required=False"]),
]  # fmt: skip


def refused(make, fragments):
    with pytest.raises(DataError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for fragment in fragments:
        assert fragment in message, message


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mrgpssm.data.readers._UNPACKED", 1000)
    path = write(tmp_path, archive("u.npy", bytes(300_000)), "run.npz")
    with pytest.raises(
        DataError, match=r"run.npz: the archive would unpack to 300,000 bytes, over 100 times its own size"
    ):
        read_table(path)


@pytest.mark.parametrize(("name", "content", "columns", "more", "says"), BAD_FILES)
def test_bad_files_get_one_sentence(name, content, columns, more, says, tmp_path):
    path = write(tmp_path, content, name)
    refused(lambda: read_sequences(path, columns, **more), says)


def objects(values):
    return pd.DataFrame({"u": np.array(values, dtype=object), "y": np.zeros(len(values))})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (objects([1.0, "2.5"]), ["table: input column 'u' holds '2.5' in row 1"]),
        (pd.DataFrame({"u": ["1", "2"], "y": [0, 0]}), ["holds '1' in row 0"]),
        (objects([1.0, [2, 3]]), ["holds [2, 3] in row 1"]),
        (objects([1.0, 2 + 1j]), ["holds (2+1j) in row 1"]),
        (pd.DataFrame({"u": [1j, 2j], "y": [0, 0]}), ["holds 1j in row 0", "real number"]),
        (pd.DataFrame({"u": pd.date_range("2024", periods=2), "y": [0, 0]}), ["input column 'u' holds 2024-01-01"]),
        (pd.DataFrame({"u": [1, None], "y": [0, 0]}), ["input column 'u' is missing in row 1 (1 such values)"]),
        (pd.DataFrame([[1, 2, 3]] * 2, columns=["u", "y", "y"]), ["output column 'y' occurs 2 times"]),
        (pd.DataFrame({"a\nb": [1, 2]}), ["the table has a b."]),
        (pd.DataFrame({f"x{k}": [1, 2] for k in range(50)}), ["and 20 more"]),
        (pd.DataFrame({"u": [], "y": []}), ["at least 2 rows; got 0"]),
        ({"u": [1, 2], "y": [1, 2, 3]}, ["different numbers of rows: u (2), y (3)"]),
        ({"u": np.zeros((2, 1)), "y": [1, 2]}, ["column 'u' must be a 1-d array; got shape (2, 1)"]),
        ({"u": [[1], [1, 2]], "y": [1, 2]}, ["column 'u' must be a 1-d array; got rows of several lengths"]),
        ({}, ["at least 2 rows; got 0"]),
        (np.zeros((5, 2)), ["a ndarray is not a table"]),
        (7, ["a int is not a table"]),
        ([np.zeros((5, 2))], ["table 1: a ndarray"]),
        ([], ["list of tables is empty"]),
        ("nowhere.csv", ["nowhere.csv: there is no such file"]),
        ("nowhere/*.csv", ["The pattern nowhere/*.csv has no readable file", ".parquet"]),
        (Foreign(pd.DataFrame({"u": pd.period_range("2024", periods=2, freq="D")})), ["pandas cannot read this Foreign", "DataFrame"]),
    ],
)  # fmt: skip
def test_bad_tables_get_one_sentence(table, says):
    refused(lambda: read_sequences(table, UY), says)


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (pd.to_datetime(["2024-01-01", None, "2024-01-02"]), ["missing or infinite in row 1"]),
        (pd.to_datetime([None, None, None]), ["missing or infinite in row 0"]),
        ([1j, 2j, 3j], ["time column 't' holds 1j"]),
        ([0, 1, np.inf], ["missing or infinite in row 2"]),
        (["a", "b", "c"], ["time column 't' holds 'a' in row 0"]),
    ],
)
def test_bad_times_get_one_sentence(times, says):
    refused(lambda: read_sequences(timed(times), TUY), says)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Columns(("u",), ("u",)), ["'u' is both an input and an output"]),
        (lambda: Columns(("u", "u"), ("y",)), ["'u' is named twice among the inputs"]),
        (lambda: Columns(("u",), ("y", "y")), ["'y' is named twice among the outputs"]),
        (lambda: Columns(("t",), ("y",), time="t"), ["'t' is both the time and an input"]),
        (lambda: Columns(("u",), ("t",), time="t"), ["'t' is both the time and an output"]),
        (lambda: Columns("uv", ("y",)), ["inputs must be a tuple", "('uv',)"]),  # pyright: ignore[reportArgumentType]
        (lambda: Columns((), ("y",)), ["at least one input"]),
        (lambda: Columns(("u",), ("y",), dt=0.0), ["dt must be a positive"]),
        (lambda: Columns(("u",), ("y",), dt=np.nan), ["dt must be a positive"]),
    ],
)
def test_columns_that_make_no_sense_are_refused(make, says):
    refused(make, says)


def test_the_median_is_one_of_the_steps():
    """Some step is no longer than dt, so that splitting always leaves a sequence."""
    [made] = read_sequences(timed([0, 1, 10]), TUY)
    assert (made.dt, len(made), made.name) == (1.0, 2, "table, part 1")
    columns = Columns(("u",), ("y",), time="t", dt=1.0)
    refused(lambda: read_sequences(timed([0, 1, 2, 3.9, 9]), columns, gaps="refuse"), ["1.9 s to row 3", "gap"])
    refused(lambda: read_sequences(timed([0, 5, 10]), columns), ["dt = 1 s was given", "median step of 5 s"])


def test_empty_folders_and_folders_with_nothing_to_read(tmp_path):
    refused(lambda: read_sequences(tmp_path, UY), ["has no readable file"])
    write(tmp_path, "notes", "readme.md")
    refused(lambda: read_sequences(str(tmp_path), UY), ["has no readable file", ".csv"])


def test_archives_with_nothing_to_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, u=np.array([1, "a"], dtype=object))
    refused(lambda: read_table(path), ["not a readable npz"])
    np.savez(path, rate=1.0)
    refused(lambda: read_table(path), ["no column of numbers"])
    np.savez(path, data=np.zeros((3, 2)), names=["u"])
    refused(lambda: read_table(path), ["'data' has shape (3, 2) and 'names' (1,)"])
    np.savez(path, data=np.zeros((3, 2)), names=["u", "u"])
    refused(lambda: read_table(path), ["'names' repeat (u, u)"])
    np.savez(path, u=np.zeros(3), y=np.zeros(4))
    refused(lambda: read_sequences(path, UY), ["different numbers of rows: u (3), y (4)"])
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    refused(lambda: read_table(path), ["not a readable npz"])
    savemat(tmp_path / "a.mat", {"record": {"u": [1, 2]}})
    refused(lambda: read_table(tmp_path / "a.mat"), ["no column of numbers"])


@needs_parquet
def test_parquet_keeps_a_named_index_and_refuses_broken_files(tmp_path):
    numbers().set_index("t").to_parquet(tmp_path / "a.parquet")
    assert read_sequences(tmp_path / "a.parquet", TUY)[0].dt == pytest.approx(0.1)
    path = write(tmp_path, b"PAR1 broken", "b.parquet")
    refused(lambda: read_table(path), ["b.parquet", "not a readable Parquet"])


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    path = write(tmp_path, b"PAR1", "a.parquet")
    refused(lambda: read_table(path), ["a.parquet", "pyarrow", "install mrgpssm[data]"])
