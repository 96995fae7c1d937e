"""A run on disk: who it is, its trace, its checkpoints, its model. Killed at any moment, it can go on.

RUN/run.json       options, columns, versions and the fingerprint of options and data
RUN/config.toml    the resolved configuration (written by the command line)
RUN/trace.jsonl    one line per chunk of steps
RUN/checkpoints/   the last two
RUN/model.mrgpssm  when training is done
RUN/metrics.json   scores, where there was validation data
"""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.errors import ConfigError, Interrupted, ModelFileError
from mrgpssm.storage import (
    append_line,
    discard,
    make_directory,
    open_lock,
    read_json,
    read_tensors,
    write_atomic,
    write_json,
)
from mrgpssm.training import Progress, Snapshot
from mrgpssm.training.checkpoint import pack_snapshot, unpack_snapshot

CHECKPOINT_SECONDS = 30.0
_KEEP = 2


class RunDirectory:
    """The files of one run; `claim` it before writing."""

    def __init__(self, root: Path, every: float = CHECKPOINT_SECONDS):
        self.root, self.every = Path(root), every
        self.identity, self.trace = self.root / "run.json", self.root / "trace.jsonl"
        self.config, self.metrics = self.root / "config.toml", self.root / "metrics.json"
        self.model, self.checkpoints = self.root / "model.mrgpssm", self.root / "checkpoints"
        self.mark = ""

    @contextlib.contextmanager
    def claim(self, mark: str, identity: dict[str, Any]) -> Iterator[None]:
        """Make the folder this run's, or check that it is; no second process may write to it meanwhile."""
        make_directory(self.checkpoints)
        with _locked(self.root):
            if self.model.exists():
                raise ConfigError(f"{self.root} holds a finished run; choose another folder, or delete it.")
            if self.identity.exists():
                self._check_same(mark, identity)
            else:
                packages = {name: version(name) for name in ("mrgpssm", "jax", "jaxlib", "numpy")}
                write_json(self.identity, identity | {"fingerprint": mark, "packages": packages})
            self.mark = mark
            yield

    def latest(self, template: Snapshot) -> Snapshot | None:
        """The newest checkpoint that can be read; a damaged one is passed over."""
        faults = []
        for path in reversed(self._files()):
            try:
                return unpack_snapshot(read_tensors(path), template, self.mark, str(path))
            except ModelFileError as fault:
                faults.append(str(fault))
        if faults:
            raise ModelFileError(f"{faults[0]} No older checkpoint of {self.root} can be used either; start afresh.")
        return None

    def save(self, snapshot: Snapshot) -> Path:
        """Write a checkpoint, then drop all but the last two."""
        path = self.checkpoints / f"{snapshot.turn:05d}-{snapshot.step:07d}.ckpt"
        write_atomic(path, pack_snapshot(snapshot, self.mark))
        for old in self._files()[:-_KEEP]:
            discard(old)
        return path

    def restart_trace(self, history: tuple[Progress, ...]) -> None:
        """The trace as it was at a checkpoint: lines of steps that are taken again are dropped."""
        write_atomic(self.trace, "".join(_line(progress) + "\n" for progress in history).encode())

    def note(self, progress: Progress) -> None:
        """One more line of the trace."""
        append_line(self.trace, _line(progress))

    def _files(self) -> list[Path]:
        return sorted(self.checkpoints.glob("*.ckpt"))

    def _check_same(self, mark: str, identity: dict[str, Any]) -> None:
        there = read_json(self.identity)
        if there.get("fingerprint") == mark:
            return
        old, new = there.get("options", {}), identity["options"]
        changed = [key for key in new if old.get(key) != new[key]]
        what = (
            f"its {changed[0]} is {old.get(changed[0])!r}, now {new[changed[0]]!r}" if changed else "its data differs"
        )
        raise ConfigError(f"{self.root} holds another run: {what}. Choose another folder, or delete this one.")


@contextlib.contextmanager
def session(
    run: RunDirectory, fresh: Snapshot, report: Callable[[Progress], None]
) -> Iterator[tuple[Snapshot, Callable[[Progress], None], Callable[[Snapshot], None]]]:
    """Where to start, and the two callbacks that write the trace and the checkpoints.

    Ctrl-C (or a polite kill) is answered at the end of the chunk under way, with a checkpoint.
    """
    start = run.latest(fresh) or fresh
    run.restart_trace(start.history)
    last = time.monotonic()

    def note(progress: Progress) -> None:
        run.note(progress)
        report(progress)

    with _polite_stop() as asked:

        def keep(snapshot: Snapshot) -> None:
            nonlocal last
            if asked.is_set() or time.monotonic() - last >= run.every:
                run.save(snapshot)
                last = time.monotonic()
            if asked.is_set():
                raise Interrupted(f"Stopped, with a checkpoint. Go on with: mrgpssm resume {run.root}")

        yield start, note, keep


def _line(progress: Progress) -> str:
    fields = {
        "cycle": progress.cycle + 1,
        "component": progress.component + 1,
        "step": progress.step,
        "done": progress.done,
        "total": progress.total,
        "bound": _numbers(progress.bound),
        "kl": _numbers(progress.kl),
        "window_rmse": _numbers(progress.rmse),
        "skipped": progress.skipped.tolist(),
    }
    return json.dumps(fields)


def _numbers(values: np.ndarray) -> list[float | None]:
    """JSON knows no NaN."""
    return [None if value != value else value for value in values.tolist()]


@contextlib.contextmanager
def _polite_stop() -> Iterator[threading.Event]:
    """Set by the first interrupt; the second one acts at once. Only the main thread may listen to signals."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One process per run; the lock goes with the process, however it ends."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with open_lock(root / ".lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{root}: another process is training in this folder; wait for it, or stop it.") from None
        yield
