"""A run on disk: who it is, its trace, its checkpoints, its model. Killed at any moment, it can go on.

RUN/run.json       options, columns, versions and the fingerprint of options and data
RUN/config.toml    the resolved configuration (written by the command line)
RUN/trace.jsonl    one line per chunk of steps
RUN/checkpoints/   the last two; the last one of all holds the end of training
RUN/trials/        short fits that chose between candidates, each a run of its own
RUN/metrics.json   scores, where there was unseen data
RUN/folds/         the models of the folds, from 1 on
RUN/model.mrgpssm  written last: a run that has it is finished
"""

import contextlib
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.file import (
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
from mrgpssm.training.interrupts import Stop, listening

CHECKPOINT_SECONDS = 30.0
_KEEP = 2


class RunDirectory:
    """The files of one run; `claim` it before writing."""

    def __init__(self, root: Path, every: float = CHECKPOINT_SECONDS):
        self.root, self.every = Path(root), every
        self.identity, self.trace = self.root / "run.json", self.root / "trace.jsonl"
        self.config, self.metrics = self.root / "config.toml", self.root / "metrics.json"
        self.model, self.checkpoints = self.root / "model.mrgpssm", self.root / "checkpoints"
        self.folds = self.root / "folds"
        self.mark = ""
        self.stop: Stop | None = None  # while it is claimed

    def __fspath__(self) -> str:
        return str(self.root)

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Keep other processes out until the run has all its files; Ctrl-C and SIGTERM then say how to go on.

        Claimed again while it is claimed, it stays so.
        """
        if self.stop is not None:
            yield
            return
        make_directory(self.checkpoints)
        with _lock(self.root), listening(self.explain_stop) as self.stop:
            try:
                if self.model.exists():
                    raise ConfigError(f"{self.root} holds a finished run; choose another folder, or delete it.")
                yield
            finally:
                self.stop = None

    def below(self, name: str) -> "RunDirectory":
        """A run in a folder of this one, claimed with it."""
        inner = RunDirectory(self.root / name, self.every)
        make_directory(inner.checkpoints)
        inner.stop = self.stop
        return inner

    def identify(self, mark: str, identity: dict[str, Any]) -> None:
        """Make the folder this run's, or check that it is."""
        if self.identity.exists():
            self._check_same(mark, identity)
        else:
            packages = {name: version(name) for name in ("mrgpssm", "jax", "jaxlib", "numpy")}
            write_json(self.identity, identity | {"fingerprint": mark, "packages": packages})
        self.mark = mark

    def explain_stop(self, left: str = "") -> str:
        """What a stop leaves, and how to go on."""
        left = left or ("a checkpoint was written" if any(self.root.rglob("*.ckpt")) else "there is no checkpoint yet")
        if self.config.exists():
            return f"Stopped; {left}, go on with: mrgpssm resume {shlex.quote(str(self.root))}"
        return f"Stopped; {left}, go on by calling fit again with the same data, arguments and run_dir={self.root}"

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
def open_run(run_dir: str | os.PathLike[str] | None, every: float) -> Iterator[RunDirectory | None]:
    """The claimed run of a folder, or None; one that the caller has claimed already is taken as it is."""
    if run_dir is None:
        yield None
        return
    run = run_dir if isinstance(run_dir, RunDirectory) else RunDirectory(Path(run_dir), every)
    with run.claim():
        yield run


@contextlib.contextmanager
def session(
    run: RunDirectory, fresh: Snapshot, turns: int, report: Callable[[Progress], None]
) -> Iterator[tuple[Snapshot, Callable[[Progress], None], Callable[[Snapshot], None]]]:
    """Where to start, and the two callbacks that write the trace and the checkpoints, the last one after all turns.

    Until then a wish to stop is answered at the end of the chunk under way, with a checkpoint.
    """
    start, stop, last = run.latest(fresh) or fresh, run.stop, time.monotonic()
    if stop is None:
        raise ValueError("Claim the run first.")
    run.restart_trace(start.history)

    def note(progress: Progress) -> None:
        run.note(progress)
        report(progress)

    def keep(snapshot: Snapshot) -> None:
        nonlocal last
        finished = snapshot.turn == turns
        if finished or stop.asked is not None or time.monotonic() - last >= run.every:
            run.save(snapshot)
            last = time.monotonic()
        stop.patient = not finished
        stop.check()

    stop.patient = start.turn < turns
    try:
        yield start, note, keep
    finally:
        stop.patient = False
    stop.check()


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
def _lock(root: Path) -> Iterator[None]:
    """One process per run; the lock goes with the process, however it ends."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with open_lock(root / ".lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{root}: another process is working in this folder; wait for it, or stop it.") from None
        yield
