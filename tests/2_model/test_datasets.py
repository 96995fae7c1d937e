"""Named datasets: registry, loaders, splits, and downloads from a server of our own."""

import hashlib
import http.server
import json
import os
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from places import DATA
from scipy.io import savemat

from mrgpssm.data.classic import from_benchmark
from mrgpssm.data.datasets import DATASETS, Dataset, data_root, dataset, describe, load_dataset, measurement_file
from mrgpssm.data.engine import (
    GROUPS,
    TESTED,
    Split,
    fixed_splits,
    load_engine,
    stratified_splits,
)
from mrgpssm.data.fetch import fetch
from mrgpssm.errors import ConfigError, DataError

pytestmark = pytest.mark.once
CLASSIC = ("actuator", "ballbeam", "drive", "dryer", "gas_furnace")
BODY = b"".join(b"%d,%d\n" % (i, i * i) for i in range(20_000))


def write_classic(folder, name, rows=20):
    """A tiny file of the same layout; input 0, 1, ... and output ten times that."""
    entry, u = DATASETS[name], np.arange(float(rows))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / next(iter(entry.files))
    if path.suffix == ".mat":
        savemat(path, dict(zip(entry.variables, (u[:, None], 10 * u[:, None]), strict=True)))
    elif path.suffix == ".csv":
        path.write_text("InputGasRate,CO2\n" + "".join(f" {v:.3f},{10 * v:.1f}\n" for v in u))
    else:
        path.write_text("".join(f"  {v:.7e}\t  {10 * v:.7e}\t\n" for v in u))
    return path


def write_engine(folder, name, numbers, rows=6):
    entry = DATASETS[name]
    width = len(entry.inputs) + len(entry.outputs)
    folder.mkdir(parents=True, exist_ok=True)
    for n in numbers:
        table = np.arange(rows * width).reshape(rows, width) + 1000.0 * n
        np.savetxt(folder / measurement_file(n), table, delimiter=",", fmt="%.8e")


# The registry


def test_registry_entries_are_complete_and_stay_inside_the_root():
    assert set(DATASETS) == {*CLASSIC, "gengine1", "gengine2"}
    for name, entry in DATASETS.items():
        assert dataset(name) is entry
        assert entry.name == name
        assert entry.licence
        assert entry.description
        assert entry.dt > 0
        assert entry.source is None or entry.source.startswith("https://")
        assert all(known is None or re.fullmatch("[0-9a-f]{64}", known) for known in entry.files.values())
    assert len(DATASETS["gengine1"].files) == 33
    assert len(DATASETS["gengine2"].files) == 22
    for name in ("actuator", "drive"):
        assert "Not verified against a file" in DATASETS[name].description


@pytest.mark.parametrize("bad", ["../x.csv", "/etc/x", "..", "a\\b", "C:x", ""])
def test_names_cannot_leave_the_root(bad, tmp_path):
    facts: dict[str, Any] = {
        "title": "t",
        "licence": "l",
        "homepage": "h",
        "source": None,
        "inputs": ("u",),
        "outputs": ("y",),
        "dt": 1.0,
        "description": "d",
    }
    with pytest.raises(DataError, match="plain file"):
        Dataset(name="toy", files={bad: None}, folder="toy", **facts)
    if bad:
        with pytest.raises(DataError, match="inside the data root"):
            Dataset(name="toy", files={"a": None}, folder=f"x/{bad}", **facts)
    with pytest.raises(DataError, match="lower-case"):
        Dataset(name=bad, files={"a": None}, folder="toy", **facts)
    with pytest.raises(DataError, match="no dataset"):
        fetch(bad, root=tmp_path)
    with pytest.raises(DataError, match="has no file"):
        fetch("dryer", root=tmp_path, only=[bad])


def test_root_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MRGPSSM_DATA", "/elsewhere")
    assert data_root(tmp_path) == tmp_path
    assert data_root() == Path("/elsewhere")
    monkeypatch.delenv("MRGPSSM_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "mrgpssm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "mrgpssm"


# The classic sets


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("place", ["", "sysid", "{name}"])
def test_classic_sets_come_in_two_halves(name, place, tmp_path):
    write_classic(tmp_path / place.format(name=name), name)
    halves = load_dataset(name, tmp_path)
    (train,), (test,) = halves["train"], halves["test"]
    np.testing.assert_array_equal(train.inputs[:, 0], np.arange(10))
    np.testing.assert_array_equal(test.outputs[:, 0], 10 * np.arange(10, 20))
    assert train.dt == DATASETS[name].dt
    assert train.input_names == DATASETS[name].inputs
    assert "first half" in train.name


def test_describe_has_one_row_per_present_file(tmp_path):
    assert describe("dryer", tmp_path) == []
    path = write_classic(tmp_path, "dryer")
    (row,) = describe("dryer", tmp_path)
    assert row == {
        "file": "dryer.dat",
        "path": str(path),
        "rows": 20,
        "columns": 2,
        "min": 0.0,
        "max": 190.0,
        "missing": 0,
        "checksum": "differs",
    }
    path.write_text("1 nan\n2 3\n")
    assert describe("dryer", tmp_path)[0]["missing"] == 1
    write_engine(tmp_path / "gengine2", "gengine2", [9])
    assert [row["checksum"] for row in describe("gengine2", tmp_path)] == ["unknown"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("dryer", b"", "holds no rows"),
        ("dryer", b"1 2\n3\n", "not a table of numbers"),
        ("dryer", b"1 2 3\n4 5 6\n", "has 3 columns and should have 2"),
        ("dryer", b"a b\n", "not a table of numbers"),
        ("dryer", b"\xff\xfe\x00", "cannot be read"),
        ("dryer", b"1 2\n2 3\n", "cannot be halved"),
        ("gas_furnace", b"InputGasRate,CO2\n", "holds no rows"),
        ("actuator", b"not a MATLAB file", "not a MATLAB file"),
    ],
)
def test_broken_files_get_one_sentence(name, content, says, tmp_path):
    (tmp_path / next(iter(DATASETS[name].files))).write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        load_dataset(name, tmp_path)
    assert "\n" not in str(caught.value)


def test_matlab_files_need_their_variables(tmp_path):
    savemat(tmp_path / "drive.mat", {"u1": np.zeros(5), "other": np.zeros(5)})
    with pytest.raises(DataError, match="no variable 'z1'; it has u1, other"):
        load_dataset("drive", tmp_path)
    savemat(tmp_path / "drive.mat", {"u1": np.zeros(5), "z1": np.zeros(4)})
    with pytest.raises(DataError, match=r"\[4, 5\] values; they must agree"):
        load_dataset("drive", tmp_path)


# The engine sets


@pytest.mark.parametrize("place", ["", "gengine2", "bosch-engine/gengine2"])
def test_engine_measurements_come_in_the_order_asked_for(place, tmp_path):
    write_engine(tmp_path / place, "gengine2", [3, 15])
    assert [row["file"] for row in describe("gengine2", tmp_path)] == [measurement_file(n) for n in (3, 15)]
    b, a = load_engine("gengine2", [15, 3], ("Temp", "HC"), tmp_path)
    assert (a.inputs[0, 0], b.inputs[0, 0]) == (3000, 15000)
    np.testing.assert_array_equal(a.outputs[0], [3007, 3005])
    assert a.output_names == ("Temp", "HC")
    assert a.dt == 0.1
    assert load_engine("gengine2", [3], root=tmp_path)[0].outputs.shape == (6, 5)


def test_the_two_engine_sets_are_not_confused(tmp_path):
    write_engine(tmp_path / "gengine2", "gengine2", [10])
    write_engine(tmp_path / "gengine1", "gengine1", [10, 65])
    (made,) = load_engine("gengine1", [10], ["O2"], tmp_path)
    assert made.inputs.shape == (6, 5)
    assert made.outputs[0, 0] == 10_010
    assert describe("gengine1", tmp_path / "gengine2") == []
    os.rename(tmp_path / "gengine2" / measurement_file(10), tmp_path / "gengine1" / measurement_file(11))
    with pytest.raises(DataError, match="has 9 columns and should have 13"):
        load_engine("gengine1", [11], None, tmp_path)


def test_fixed_splits_obey_the_protocol_and_use_thirteen_measurements():
    splits = fixed_splits()
    assert len(set(splits)) == 5
    for split in splits:
        assert obeys(split)
        assert len(split.train) == 7
        assert len({*split.train, *split.test}) == 13


@pytest.mark.parametrize("measurements", [range(22), sorted({*fixed_splits()[0].train, *fixed_splits()[0].test})])
def test_stratified_draws_obey_the_protocol_and_differ(measurements):
    splits = stratified_splits(measurements, 20, seed=1)
    assert splits == stratified_splits(measurements, 20, seed=1)
    assert splits != stratified_splits(measurements, 20, seed=2)
    assert len(set(splits)) == 20
    for split in splits:
        assert obeys(split)
        assert sorted(split.train + split.test) == list(measurements)


def test_stratified_draws_reach_every_split():
    """2 of G0, 3 of G1, 2 of G3 and 2 of G4 are among the thirteen: 2 * 3 * 2 * 2 splits."""
    thirteen = {*fixed_splits()[0].train, *fixed_splits()[0].test}
    every = stratified_splits(thirteen, 24, seed=0)
    assert len(set(every)) == 24
    assert set(fixed_splits()) <= set(every)
    with pytest.raises(DataError, match="1 to 24 different splits; got count = 25"):
        stratified_splits(thirteen, 25, seed=0)


def obeys(split: Split) -> bool:
    return {g: len(set(split.test) & set(members)) for g, members in GROUPS.items()} == {"G2": 0, **TESTED}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: dataset("gengin2"), "did you mean 'gengine2'"),
        (lambda root: dataset("zzz"), "known are gengine1, gengine2, actuator"),
        (lambda root: load_dataset("gengine2", root), "use load_engine"),
        (lambda root: load_dataset("dryer", root), "dryer.dat is not under .*mrgpssm data fetch dryer.*MRGPSSM_DATA"),
        (lambda root: load_dataset("ballbeam", root), "by hand and point --data-root"),
        (lambda root: load_engine("dryer", [1], None, root), "is not an engine set"),
        (lambda root: load_engine("gengine2", [3, 5], None, root), r"measurement 3, 5 \(raw_000003_measurement_000000.csv ...\) is not under .*fetch gengine2"),
        (lambda root: load_engine("gengine2", [22], None, root), "no measurement 22; the published ones are 0, 1"),
        (lambda root: load_engine("gengine2", [True], None, root), "no measurement True"),
        (lambda root: load_engine("gengine2", 3, None, root), "list of numbers"),  # pyright: ignore
        (lambda root: load_engine("gengine2", [3], ["CO"], root), "no output 'CO'; choose from PN, HC"),
        (lambda root: load_engine("gengine2", [3], [], root), "at least one output"),
        (lambda root: Split((3, 1), (3,)), "Measurement 3 is in both halves"),
        (lambda root: stratified_splits([4, 10, 11, 1, 21], 1, 0), r"1 of group G3 \(0, 5, 14, 15, 19\); got \[\]"),
        (lambda root: stratified_splits([4, 10, 15, 1, 21], 1, 0), "needs 2 of group G1"),
        (lambda root: stratified_splits([4, 10, 11, 15, 1, 21], 1, 0), "train on"),
        (lambda root: stratified_splits(range(22), 0, 0), "1 to 480 different splits; got count = 0"),
    ],
)  # fmt: skip
def test_wrong_requests_get_one_sentence(make, says, tmp_path):
    with pytest.raises(DataError, match=says) as caught:
        make(tmp_path)
    assert "\n" not in str(caught.value)


# Objects of nonlinear_benchmarks


def stand_in(u=None, y=None, **more) -> Any:
    u, y = (np.arange(8.0) if v is None else v for v in (u, y))
    facts = {"sampling_time": 0.02, "name": "test CED", "state_initialization_window_length": 4}
    return SimpleNamespace(u=u, y=y, **{**facts, **more})


def test_benchmark_objects_become_sequences():
    made = from_benchmark(stand_in())
    assert made.initialisation == 4
    assert made.sequence.inputs.shape == (8, 1)
    assert (made.sequence.dt, made.sequence.name) == (0.02, "test CED")
    wide = from_benchmark(
        stand_in(u=np.zeros((8, 3)), sampling_time=np.array([0.5]), state_initialization_window_length=np.int64(2))
    )
    assert (wide.sequence.inputs.shape, wide.sequence.dt, wide.initialisation) == ((8, 3), 0.5, 2)
    bare = from_benchmark(stand_in(sampling_time=None, name="", state_initialization_window_length=None))
    assert (bare.sequence.dt, bare.sequence.name, bare.initialisation) == (1.0, "benchmark", 0)
    assert [r.initialisation for r in from_benchmark((stand_in(), stand_in()))] == [4, 4]


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (7, "is a int and has no input u"),
        ([stand_in(), "x"], "item 1 is a str"),
        (((stand_in(),), (stand_in(),)), "item 0 is a tuple .* one after the other"),
        (stand_in(state_initialization_window_length=8), "from 0 to 7"),
        (stand_in(state_initialization_window_length=1.5), "whole number"),
        (stand_in(sampling_time="fast"), "one number of seconds"),
        (stand_in(sampling_time=-1.0), "dt must be a positive"),
        (stand_in(u=np.zeros(5)), "5 rows and outputs 8"),
    ],
)
def test_other_objects_are_refused(thing, says):
    with pytest.raises(DataError, match=says):
        from_benchmark(thing)


# Downloads


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY as /good.csv; breaks off in /cut.csv unless asked for the rest; /old.csv has no ranges."""

    def do_GET(self):
        log, asked = self.server.log, self.headers.get("Range")  # pyright: ignore
        log.append((self.path, asked))
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.path != "/old.csv" else 0
        if self.path not in ("/good.csv", "/cut.csv", "/old.csv"):
            self.send_error(404)
            return
        if start >= len(BODY):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        broken = self.path == "/cut.csv" and not start
        self.wfile.write(BODY[start : 70_000 if broken else None])

    def log_message(self, format, *args):  # noqa: A002 - the name of the base class
        pass


@pytest.fixture
def server():
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.log = []
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def toy(server, monkeypatch, tmp_path):
    """Fetch one file of a set that only this test knows; the folder and the lines reported come back too."""
    pytest.importorskip("pooch")
    lines: list[str] = []

    def get(file, known: str | None = hashlib.sha256(BODY).hexdigest(), url=server.url):
        entry = Dataset("toy", "t", "CC0", "https://example.org", None, ("u",), ("y",), 1.0, {file: known}, "d", "box")
        monkeypatch.setitem(DATASETS, "toy", entry)
        return fetch("toy", tmp_path, url, report=lines.append)

    return SimpleNamespace(get=get, folder=tmp_path / "box", lines=lines, log=server.log)


def test_good_files_arrive_and_are_kept(toy):
    (path,) = toy.get("good.csv")
    assert path == toy.folder / "good.csv"
    assert path.read_bytes() == BODY
    assert toy.get("good.csv") == [path]
    assert len(toy.log) == 1
    assert os.listdir(toy.folder) == ["good.csv"]
    assert "licence CC0" in toy.lines[0]
    assert not any("UNVERIFIED" in line for line in toy.lines)


def test_files_without_a_checksum_are_loudly_unverified(toy):
    toy.get("good.csv", None)
    assert any(line.startswith("UNVERIFIED: good.csv has no known checksum") for line in toy.lines)
    toy.lines.clear()
    toy.get("good.csv", None)
    assert toy.lines[0].startswith("UNVERIFIED: good.csv")


def test_wrong_checksums_leave_nothing_behind(toy):
    with pytest.raises(DataError, match=r"good\.csv should have the SHA-256 0{64} and has") as caught:
        toy.get("good.csv", "0" * 64)
    assert hashlib.sha256(BODY).hexdigest() in str(caught.value)
    assert os.listdir(toy.folder) == []


def test_a_users_own_file_is_never_replaced(toy):
    toy.folder.mkdir()
    (toy.folder / "good.csv").write_text("mine")
    with pytest.raises(DataError, match="nothing was replaced"):
        toy.get("good.csv")
    assert (toy.folder / "good.csv").read_text() == "mine"
    assert toy.log == []


def test_broken_downloads_go_on_where_they_stopped(toy):
    with pytest.raises(DataError, match=f"broke off after 70000 of {len(BODY)} bytes; fetch again"):
        toy.get("cut.csv")
    assert os.listdir(toy.folder) == ["cut.csv.part"]
    (path,) = toy.get("cut.csv")
    assert path.read_bytes() == BODY
    assert toy.log == [("/cut.csv", None), ("/cut.csv", "bytes=70000-")]
    assert os.listdir(toy.folder) == ["cut.csv"]


@pytest.mark.parametrize(
    ("file", "part", "asked"),
    [
        ("old.csv", BODY[:100], ["bytes=100-"]),  # a server without ranges sends all of it
        ("good.csv", BODY + b"more", [f"bytes={len(BODY) + 4}-", None]),  # longer than the file: starts again
        ("good.csv", BODY, []),  # complete, killed before it got its name
    ],
)
def test_partial_files_end_as_the_whole(toy, file, part, asked):
    toy.folder.mkdir()
    (toy.folder / f"{file}.part").write_bytes(part)
    (path,) = toy.get(file)
    assert path.read_bytes() == BODY
    assert [header for _, header in toy.log] == asked


def test_partial_files_without_a_checksum_start_again(toy):
    toy.folder.mkdir()
    (toy.folder / "good.csv.part").write_bytes(b"of another version")
    assert toy.get("good.csv", None)[0].read_bytes() == BODY
    assert toy.log == [("/good.csv", None)]


def test_a_partial_file_of_another_version_is_removed(toy):
    toy.folder.mkdir()
    (toy.folder / "good.csv.part").write_bytes(b"another version")
    with pytest.raises(DataError, match="nothing replaced"):
        toy.get("good.csv")
    assert os.listdir(toy.folder) == []


def test_missing_files_and_networks_are_named(toy):
    with pytest.raises(DataError, match=r"http://127.0.0.1:\d+/none.csv: the server says 404"):
        toy.get("none.csv")
    with pytest.raises(DataError, match=r"cannot be reached .*--data-root or MRGPSSM_DATA"):
        toy.get("good.csv", url="http://127.0.0.1:1")
    with pytest.raises(DataError, match="must begin with http"):
        toy.get("good.csv", url="file:///etc")
    with pytest.raises(DataError, match=r"no address .* by hand"):
        toy.get("good.csv", url=None)
    assert os.listdir(toy.folder) == []


def test_without_pooch_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ConfigError, match=r"needs the package pooch; install mrgpssm\[data\]"):
        fetch("dryer", tmp_path, "http://127.0.0.1:1", report=lambda line: None)


# The real files, where they are at hand


def real(*parts):
    if not DATA.joinpath(*parts).exists():
        pytest.skip(f"no {'/'.join(parts)} under MRGPSSM_DATA or ../shared/data")
    return DATA


@pytest.mark.parametrize(("name", "rows"), [("ballbeam", 1000), ("dryer", 1000), ("gas_furnace", 296)])
def test_real_classic_sets(name, rows):
    """The train-mean predictor's RMSE over the test half is the published reference of the data at hand."""
    root = real("sysid")
    halves = load_dataset(name, root)
    (train,), (test,) = halves["train"], halves["test"]
    assert len(train) == len(test) == rows // 2
    error = np.sqrt(np.mean((test.outputs - train.outputs.mean()) ** 2))
    assert error == pytest.approx({"ballbeam": 0.0733, "dryer": 0.824, "gas_furnace": 3.398}[name], rel=1e-3)
    assert describe(name, root)[0]["checksum"] == "ok"


def test_real_engine_set():
    root = real("bosch-engine", "gengine2")
    rows = describe("gengine2", root)
    have = {row["file"] for row in rows}
    assert {measurement_file(n) for n in (*fixed_splits()[0].train, *fixed_splits()[0].test)} <= have
    (longest,) = load_engine("gengine2", [15], ["NOx", "Temp"], root)
    assert longest.outputs.shape == (20_126, 2)
    raw = np.loadtxt(root / "bosch-engine" / "gengine2" / measurement_file(15), delimiter=",")
    np.testing.assert_array_equal(longest.inputs, raw[:, :4])
    np.testing.assert_array_equal(longest.outputs, raw[:, 6:8])
    assert {row["checksum"] for row in rows} <= {"ok", "unknown"}
    if (root / "bosch-engine" / "splits.json").exists():
        splits = json.loads((root / "bosch-engine" / "splits.json").read_text())["splits"]
        assert tuple(Split(tuple(sorted(s["train"])), tuple(sorted(s["test"]))) for s in splits) == fixed_splits()
