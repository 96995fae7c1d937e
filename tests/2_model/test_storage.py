"""Files from somebody else: links, pipes, devices and texts that cost more than they say."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from places import GOLDEN

from mrgpssm import ConfigError, DataError, ModelFileError, load, runtime
from mrgpssm.data.datasets import sha256
from mrgpssm.data.fetch import Resuming
from mrgpssm.data.readers import read_table
from mrgpssm.errors import StorageError
from mrgpssm.estimator.config import read_config
from mrgpssm.file import append_line, make_directory, open_lock, pack, read_json, read_toml, write_json
from mrgpssm.file.texts import MOST_TEXT
from mrgpssm.report.trace import read_trace
from mrgpssm.training.runs import RunDirectory

pytestmark = [pytest.mark.once, pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices of POSIX")]


@pytest.fixture
def precious(tmp_path) -> Path:
    path = tmp_path / "precious.txt"
    path.write_text("mine")
    return path


def test_a_link_in_place_of_the_lock_leaves_what_it_points_to_alone(tmp_path, precious):
    run = RunDirectory(tmp_path / "run")
    run.root.mkdir()
    (run.root / ".lock").symlink_to(precious)
    with pytest.raises(StorageError, match="it is a symbolic link; remove it") as caught, run.claim():
        pass
    assert "\n" not in str(caught.value)
    assert precious.read_text() == "mine"


def test_a_lock_is_held_on_a_file_as_it_is(precious):
    with open_lock(precious):
        pass
    assert precious.read_text() == "mine"


def test_a_link_in_place_of_the_checkpoints_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "00001-0000001.ckpt").write_text("another run's")
    run = RunDirectory(tmp_path / "run")
    run.root.mkdir()
    run.checkpoints.symlink_to(elsewhere)
    with pytest.raises(StorageError, match="it is a symbolic link"), run.claim():
        pass
    assert [p.name for p in elsewhere.iterdir()] == ["00001-0000001.ckpt"]


def test_a_folder_may_be_reached_through_a_link_that_the_user_named(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with RunDirectory(tmp_path / "run").claim():
        pass
    assert (tmp_path / "disk" / "checkpoints").is_dir()


def test_writing_replaces_a_link_and_appending_refuses_it(tmp_path, precious):
    link = tmp_path / "link"
    link.symlink_to(precious)
    with pytest.raises(StorageError, match="it is a symbolic link"):
        append_line(link, "more")
    write_json(link, {"a": 1})
    assert precious.read_text() == "mine"
    assert not link.is_symlink()
    assert read_json(link) == {"a": 1}


def test_a_download_does_not_follow_a_link(tmp_path, precious):
    part = tmp_path / "a.csv.part"
    part.symlink_to(precious)

    class Answer:
        headers: dict[str, str] = {}  # noqa: RUF012  # a stand-in
        pieces = iter((b"new", b""))

        def read(self, _):
            return next(self.pieces)

    Resuming(part, None)._save(Answer(), 0, "http://example.org/a.csv")  # pyright: ignore[reportArgumentType]
    assert (precious.read_text(), part.read_text(), part.is_symlink()) == ("mine", "new", False)
    part.unlink()
    part.symlink_to(precious)
    with pytest.raises(OSError, match="it is a symbolic link"):
        Resuming(part, "0")._save(Answer(), 4, "http://example.org/a.csv")  # pyright: ignore[reportArgumentType]


def readers():
    return [
        (load, ModelFileError),
        (runtime.load, ModelFileError),
        (read_config, ConfigError),
        (read_json, ModelFileError),
    ]


@pytest.mark.parametrize("what", ["/dev/zero", "pipe", "folder"])
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path, what):
    path = tmp_path / "model.mrgpssm"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(what)

    def try_all():
        for reader, kind in readers():
            with pytest.raises(kind, match=r"it is not a regular file|holds no finished model"):
                reader(path)
        if what == "pipe":
            with pytest.raises(StorageError):
                append_line(path, "a")
        said.append("refused")

    said: list[str] = []
    waiting = threading.Thread(target=try_all, daemon=True)
    waiting.start()
    waiting.join(60)
    assert said == ["refused"]


def test_a_model_may_be_reached_through_a_link(tmp_path):
    (tmp_path / "latest.mrgpssm").symlink_to(GOLDEN)
    assert runtime.load(tmp_path / "latest.mrgpssm").output_names == runtime.load(GOLDEN).output_names


def test_the_header_is_looked_at_before_the_rest_is_read(tmp_path):
    """A file of 3 GB of nothing has no header; holes in a file take no room on the disk."""
    path = tmp_path / "holes.mrgpssm"
    with path.open("wb") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(ModelFileError, match="not valid JSON"):
        runtime.load(path)
    with path.open("wb") as file:
        file.truncate(5 * 2**30)
    with pytest.raises(ModelFileError, match="more than 4,294,967,296 bytes"):
        runtime.load(path)


TEXTS = [
    (b"[" * MOST_TEXT, "larger than any"),
    (b"[" + b"[]," * 400_000 + b"[]]", "larger than any"),
    (b"[" * 200_000 + b"]" * 200_000, "nests deeper than 64"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "nests deeper than 64"),
    (b'"' + b'\\"' * 100_000, "not valid JSON"),
]


@pytest.mark.parametrize(("text", "says"), TEXTS)
def test_json_that_costs_more_than_it_says_is_refused_before_it_is_parsed(tmp_path, text, says):
    (tmp_path / "run.json").write_bytes(text)
    with pytest.raises(ModelFileError, match=says):
        read_json(tmp_path / "run.json")
    (tmp_path / "m.mrgpssm").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(ModelFileError, match=says):
        load(tmp_path / "m.mrgpssm")


def test_no_file_is_written_that_could_not_be_read_again(tmp_path):
    with pytest.raises(StorageError, match="too large to be read again"):
        pack("kind", {}, {f"tensor-{k}": np.zeros(0) for k in range(30_000)})
    (tmp_path / "deep.json").write_text('{"a": ' * 64 + '"[[[[["' + "}" * 64)
    assert list(read_json(tmp_path / "deep.json")) == ["a"]


DEEP = [
    ("a." * 15_000 + "a = 1", "more than 16 parts"),
    ('[run]\n"=" . ' + "'b' . " * 40 + "c = 1", "more than 16 parts"),
    ("x = { " + ".".join(["a"] * 17) + " = 1 }", "more than 16 parts"),
    ("[" + ".".join(["a"] * 17) + "]", "more than 16 parts"),
    ('x = """\\"""" # """\n' + ".".join(["a"] * 17) + " = 1", "more than 16 parts"),
    ("x = " + "[" * 65 + "]" * 65, "nest deeper than 64"),
    ("x = [" + "1," * 40_000 + "]", "more than 30,000 values"),
    ("".join(f"[a{k}]\n" for k in range(40_000)), "more than 30,000 values"),
    ("#" * (2**20 + 1), "more than 1,048,576 bytes"),
]


@pytest.mark.parametrize(("text", "says"), DEEP)
def test_toml_that_costs_more_than_it_says_is_refused_before_it_is_parsed(tmp_path, text, says):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_config(path)


def test_a_configuration_with_many_files_and_odd_texts_is_read(tmp_path):
    files = [
        f"measurements.of.some.length/2026.01.01/run-{k}.part.a.b.c.d.e.f.g.h.i.j.k.l.m.n.csv" for k in range(5_000)
    ]
    lines = [f"files = {files}", "note = '''a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r'''  # a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q",
             "filters = [" + ", ".join(["0.1"] * 50) + "]"]  # fmt: skip
    (tmp_path / "c.toml").write_text("[data]\n" + "\n".join(lines))
    assert read_toml(tmp_path / "c.toml")["data"]["files"] == files


def test_a_trace_ends_at_the_first_line_that_is_none_of_ours(tmp_path):
    path = tmp_path / "trace.jsonl"
    good = '{"component": 1, "cycle": 1, "done": 5, "total": 10, "bound": [1.0], "kl": [0.5]}'
    path.write_text(f'{good}\n{{"component": 1}}\n{good}\n')
    trace = read_trace(path)
    assert trace is not None
    assert trace.done.tolist() == [5]


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="it is a symbolic link"):
        make_directory(tmp_path / "link")


def test_pipes_among_the_data_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(OSError, match="not a regular file"):
        sha256(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "pipe.csv")
