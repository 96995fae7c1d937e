"""Runs survive: kills at any moment, full disks, interrupts; what is resumed ends as if it had never stopped."""

import contextlib
import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import TESTS
from recordings import recording

from mrgpssm import MRGPSSM, ConfigError, ModelFileError, StorageError
from mrgpssm.errors import Interrupted
from mrgpssm.file import atomic, write_atomic
from mrgpssm.spec import arrange
from mrgpssm.training.progress import Reporter
from mrgpssm.training.runs import RunDirectory

pytestmark = pytest.mark.once
TINY: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "window": 6, "buffer": 1, "cycles": 4, "steps": 6,
                        "folds": 0}  # fmt: skip


def tiny(**more) -> MRGPSSM:
    return MRGPSSM((3, 1), **arrange(**(TINY | more)))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


WRITER = """
import os, random, signal, sys, time
from pathlib import Path
from mrgpssm.file import write_atomic
path, rng = Path(sys.argv[1]), random.Random(0)
contents = [bytes([65 + k]) * (1000 + 50_000 * k) for k in range(4)]
write_atomic(path, contents[0])
seen = set()
for kill in range(200):
    child = os.fork()
    if child == 0:
        while True:
            for content in contents:
                write_atomic(path, content)
    time.sleep(rng.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = path.read_bytes()
    assert found in contents, f"kill {kill}: {len(found)} bytes"
    seen.add(len(found))
assert len(seen) > 1
print("ok")
"""


def test_two_hundred_kills_leave_the_old_file_or_the_new_one(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr


@pytest.mark.parametrize("place", ["mkdir", "mkstemp", "fdopen", "fsync", "read back", "chmod", "replace"])
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_disk_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch, place, fault):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_, **__):
        raise OSError(fault, os.strerror(fault))

    module, name = {
        "mkdir": (Path, "mkdir"),
        "fdopen": (atomic.os, "fdopen"),
        "chmod": (atomic.os, "chmod"),
        "mkstemp": (atomic.tempfile, "mkstemp"),
        "fsync": (atomic.os, "fsync"),
        "replace": (atomic.os, "replace"),
        "read back": (atomic, "_verify"),
    }[place]
    with monkeypatch.context() as patch:
        patch.setattr(module, name, fail)
        with pytest.raises(StorageError, match=os.strerror(fault)) as caught:
            write_atomic(path, b"new")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_folder_that_cannot_be_flushed_leaves_the_new_file_and_says_so(tmp_path, monkeypatch, fault):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(folder):
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(atomic, "flush_folder", fail)
    with pytest.raises(StorageError, match="It is whole, but may be the old one again after a crash"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"new"


def test_an_old_checkpoint_that_cannot_be_removed_stops_nothing(tmp_path, monkeypatch):
    """Found by letting every single write of a run fail (`trust/disk.py`)."""

    def fail(path, missing_ok=False):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        tiny(cycles=1).fit(recording(0), progress=False, run_dir=tmp_path, checkpoint_seconds=0.0)
    assert len(list((tmp_path / "checkpoints").glob("*.ckpt"))) == 5
    assert (tmp_path / "model.mrgpssm").exists()


def test_what_is_read_back_must_be_what_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", lambda self: b"noise")
    with pytest.raises(StorageError, match="not what was written"):
        write_atomic(tmp_path / "file", b"data")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run."""
    root = tmp_path_factory.mktemp("runs") / "whole"
    tiny().fit([recording(0), recording(1)], progress=False, run_dir=root)
    return root


def test_a_run_leaves_its_files(whole):
    lines = [json.loads(line) for line in (whole / "trace.jsonl").read_text().splitlines()]
    assert [line["done"] for line in lines] == [3 * (k + 1) for k in range(16)]
    assert [line["component"] for line in lines[:4]] == [2, 2, 1, 1]
    assert lines[-1]["done"] == lines[-1]["total"]
    identity = json.loads((whole / "run.json").read_text())
    assert identity["outputs"] == ["NOx", "Temp"]
    assert identity["rows"] == 320
    assert (whole / "model.mrgpssm").exists()
    with pytest.raises(ConfigError, match="holds a finished run"):
        tiny().fit([recording(0), recording(1)], progress=False, run_dir=whole)


class StopAfter:
    """Interrupts a run after so many chunks, as Ctrl-C would."""

    def __init__(self, monkeypatch, chunks):
        original = RunDirectory.note
        self.left = chunks

        def note(run, progress):
            original(run, progress)
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(RunDirectory, "note", note)


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(whole, tmp_path, monkeypatch):
    """Stopped twice and gone on with, the model has the same bits; the trace has every line once."""
    data, root = [recording(0), recording(1)], tmp_path / "run"
    handler = signal.getsignal(signal.SIGINT)
    for chunks in (3, 2):
        with monkeypatch.context() as patch:
            StopAfter(patch, chunks)
            with pytest.raises(Interrupted, match="a checkpoint was written, go on by calling fit again") as stopped:
                tiny().fit(data, progress=False, run_dir=root)
        assert str(stopped.value).endswith(f"run_dir={root}")
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(list((root / "checkpoints").glob("*.ckpt"))) == 2
    tiny().fit(data, progress=False, run_dir=root)
    assert digest(root / "model.mrgpssm") == digest(whole / "model.mrgpssm")
    assert (root / "trace.jsonl").read_text() == (whole / "trace.jsonl").read_text()


class StopInStage:
    """Interrupts a fit in its n-th stage after training, with a look at what others may do meanwhile."""

    def __init__(self, monkeypatch, root: Path, number: int, by: signal.Signals = signal.SIGINT):
        self.root, self.number, self.by = root, number, by
        self.stages: list[str] = []
        self.steps = 0
        monkeypatch.setattr("mrgpssm.estimator.costs.reporter", self.reporter)

    @contextlib.contextmanager
    def reporter(self, *_):
        yield Reporter(self.step, self.stage)

    def step(self, _):
        self.steps += 1

    def stage(self, name: str):
        self.stages.append(name)
        if len(self.stages) == self.number:
            with pytest.raises(ConfigError, match="another process is working"), RunDirectory(self.root).claim():
                pass
            os.kill(os.getpid(), self.by)


LEARNED: dict[str, Any] = {"noise": "student"}


@pytest.mark.usefixtures("whole")  # the same programs are compiled already
def test_a_stop_in_any_stage_after_training_goes_on_with_that_stage_alone(tmp_path, monkeypatch):
    """Free runs, noise and scores: each says how to go on, holds the lock, and ends the same."""
    data, root = ([recording(0), recording(1)], recording(2)), tmp_path / "run"
    with monkeypatch.context() as patch:
        watched = StopInStage(patch, tmp_path / "whole", 0)
        tiny(**LEARNED).fit(*data, run_dir=tmp_path / "whole")
    assert watched.steps == 16
    assert "calibration: free runs of the validation recordings" in watched.stages
    last = {name.split(" of ")[0]: number + 1 for number, name in enumerate(watched.stages)}  # the last of every kind
    assert len(last) >= 3
    for attempt, number in enumerate(last.values()):
        with monkeypatch.context() as patch:
            found = StopInStage(patch, root, number, signal.SIGINT if attempt % 2 else signal.SIGTERM)
            with pytest.raises(Interrupted, match="a checkpoint was written, go on by calling fit") as stopped:
                tiny(**LEARNED).fit(*data, run_dir=root)
        assert stopped.value.number == found.by
        assert found.stages == watched.stages[:number]
        assert found.steps == (0 if attempt else 16)  # trained once
        assert not (root / "model.mrgpssm").exists()
    tiny(**LEARNED).fit(*data, progress=False, run_dir=root)
    for name in ("model.mrgpssm", "metrics.json", "trace.jsonl"):
        assert digest(root / name) == digest(tmp_path / "whole" / name)


def test_a_wish_to_stop_waits_for_the_steps_under_way_and_a_second_one_does_not(tmp_path):
    run = RunDirectory(tmp_path)
    with run.claim():
        assert run.stop is not None
        run.stop.patient = True
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted, match="there is no checkpoint yet") as stopped:
            os.kill(os.getpid(), signal.SIGINT)
    assert stopped.value.number == signal.SIGINT


def test_without_a_folder_ctrl_c_is_pythons_own():
    with pytest.raises(KeyboardInterrupt) as stopped:
        tiny().fit(recording(0), progress=False, callbacks=[lambda _: os.kill(os.getpid(), signal.SIGINT)])
    assert not isinstance(stopped.value, Interrupted)


def test_a_damaged_checkpoint_is_passed_over_and_another_run_is_refused(tmp_path, monkeypatch):
    data, root = [recording(0), recording(1)], tmp_path / "run"
    with monkeypatch.context() as patch:
        StopAfter(patch, 3)
        with pytest.raises(Interrupted):
            tiny().fit(data, progress=False, run_dir=root, checkpoint_seconds=0.0)
    old, new = sorted((root / "checkpoints").glob("*.ckpt"))
    with pytest.raises(ConfigError, match=r"holds another run: its seed is 0, now 1"):
        tiny(seed=1).fit(data, progress=False, run_dir=root)
    with pytest.raises(ConfigError, match="holds another run: its data differs"):
        tiny().fit([recording(0), recording(5)], progress=False, run_dir=root)
    new.write_bytes(new.read_bytes()[:-1])
    with monkeypatch.context() as patch:
        StopAfter(patch, 1)
        with pytest.raises(Interrupted):
            tiny().fit(data, progress=False, run_dir=root)
    assert len((root / "trace.jsonl").read_text().splitlines()) == 3  # went on from the older one, after two chunks
    for path in (root / "checkpoints").glob("*.ckpt"):
        path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="start afresh"):
        tiny().fit(data, progress=False, run_dir=root)
    assert old.exists()


def test_a_full_disk_stops_a_run_and_keeps_its_checkpoint(tmp_path, monkeypatch):
    data, root = [recording(0), recording(1)], tmp_path / "run"
    saved = RunDirectory.save

    def full(run, snapshot):
        if list(run.checkpoints.glob("*.ckpt")):
            monkeypatch.setattr(atomic.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        return saved(run, snapshot)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "save", full)
        with pytest.raises(StorageError, match="full"):
            tiny().fit(data, progress=False, run_dir=root, checkpoint_seconds=0.0)
    monkeypatch.undo()
    (kept,) = (root / "checkpoints").glob("*.ckpt")
    assert kept.name == "00000-0000003.ckpt"


def test_two_processes_do_not_share_a_run(tmp_path):
    run, other = RunDirectory(tmp_path), RunDirectory(tmp_path)
    with run.claim(), run.claim(), pytest.raises(ConfigError, match="another process is working"), other.claim():
        pass
    with other.claim():
        pass


TRAINING = """
import sys
sys.path.insert(0, sys.argv[2])
from recordings import recording
from mrgpssm import MRGPSSM, Bands, Training
training = Training(samples=2, windows=3, window=6, buffer=1, cycles=40, steps=12)
model = MRGPSSM((3, 1), inducing=4, training=training, bands=Bands(folds=0))
model.fit([recording(0), recording(1)], progress=False, run_dir=sys.argv[1], checkpoint_seconds=0.0)
"""


def start_training(root: Path, cache: Path) -> subprocess.Popen:
    keep = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-c", TRAINING, str(root), str(TESTS)]
    return subprocess.Popen(command, env=os.environ | keep)


def kill_and_resume(root: Path, cache: Path, kills: int, seed: int) -> int:
    """Kill a training process at random moments until it has been killed `kills` times; returns how often it was."""
    rng, done = random.Random(seed), 0
    while done < kills:
        process = start_training(root, cache)
        while process.poll() is None and not (root / "trace.jsonl").exists():
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1.2))
        process.kill()
        done += process.wait() == -signal.SIGKILL
        if (root / "model.mrgpssm").exists():
            return done
    assert start_training(root, cache).wait() == 0
    return done


@pytest.mark.slow
def test_twenty_kills_of_a_real_training_end_bit_identical(tmp_path):
    """Over as many runs as 20 kills take; every one ends with the uninterrupted run's bits."""
    cache = tmp_path / "cache"
    assert start_training(tmp_path / "whole", cache).wait() == 0
    total, runs = 0, 0
    while total < 20:
        root = tmp_path / f"run{runs}"
        total += kill_and_resume(root, cache, min(5, 20 - total), runs)
        assert digest(root / "model.mrgpssm") == digest(tmp_path / "whole" / "model.mrgpssm")
        runs += 1
    print(f"{total} kills over {runs} runs")


def test_a_killed_training_ends_bit_identical(tmp_path):
    cache = tmp_path / "cache"
    assert start_training(tmp_path / "whole", cache).wait() == 0
    assert kill_and_resume(tmp_path / "run", cache, 2, 1) > 0
    assert digest(tmp_path / "run" / "model.mrgpssm") == digest(tmp_path / "whole" / "model.mrgpssm")
    assert np.isfinite(json.loads((tmp_path / "run" / "trace.jsonl").read_text().splitlines()[-1])["bound"]).all()
