"""Promise 5, second half: a disk that fails at any single write loses nothing, and says so in one sentence.

A library preloaded before the C library (`faults.c`) lets the n-th change to files fail: every creation, write, flush,
rename and removal of a whole training run, one run each, and of saving a model over another. The run must end in a
`StorageError`, leave only whole files, and, started again, end in the bytes of the undisturbed run.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from account import TESTS, Config, Outcome, keep
from recordings import recording

from mrgpssm import MRGPSSM, StorageError, load
from mrgpssm.file import unpack
from mrgpssm.spec import arrange

FAULTS = {"no space": (errno.ENOSPC, True), "input/output error": (errno.EIO, False), "read-only": (errno.EROFS, True)}
SIZES: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "window": 6, "buffer": 1, "cycles": 1, "steps": 6}
LIBRARY = "MRGPSSM_FAULTS"


def train(folder: Path) -> None:
    """A tiny run with a checkpoint after every chunk."""
    MRGPSSM((3, 1), **arrange(**SIZES)).fit(
        recording(0), progress=False, run_dir=folder / "run", checkpoint_seconds=0.0
    )


def save(folder: Path) -> None:
    """A model over another one."""
    load(TESTS / "golden" / "model-v1.mrgpssm").save(folder / "model.mrgpssm")


def nothing(folder: Path) -> None:
    """A folder that is empty."""


def older_model(folder: Path) -> None:
    """A model that another one is going to replace."""
    shutil.copy(TESTS / "golden" / "model-v1.mrgpssm", folder / "model.mrgpssm")


def whole(folder: Path) -> bool:
    """Every file that has its final name can be read, and nothing half-written is left."""
    for path in folder.rglob("*"):
        if path.suffix == ".mrgpssm":
            load(path)
        elif path.suffix == ".ckpt":
            unpack(path.read_bytes(), "mrgpssm-checkpoint", path.name)
    return True


def attempt(act: Callable[[Path], None], folder: Path) -> str:
    """What an act under a fault ended in: nothing, a sentence, or something else."""
    try:
        act(folder)
    except StorageError as error:
        return "sentence" if "\n" not in str(error) and str(folder) in str(error) else f"unclear: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def disturb(act: Callable[[Path], None], prepare: Callable[[Path], None], result: str) -> list[dict[str, Any]]:
    """The act, with every one of its writes failing once in every way; returns what was not as promised."""
    faults = ctypes.CDLL(os.environ[LIBRARY])
    wrong: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        clean = Path(name) / "clean"
        clean.mkdir()
        prepare(clean)
        faults.fault_arm(str(clean).encode(), ctypes.c_long(-1), 0, 0)
        act(clean)
        points, expected = faults.fault_seen(), (clean / result).read_bytes()
        for fault, (code, lasting) in FAULTS.items():
            for point in range(points):
                folder = Path(name) / "disturbed"
                folder.mkdir()
                prepare(folder)
                faults.fault_arm(str(folder).encode(), ctypes.c_long(point), code, lasting)
                ended = attempt(act, folder)
                faults.fault_arm(b"", ctypes.c_long(-1), 0, 0)
                if ended not in ("sentence", "nothing"):
                    wrong.append({"point": point, "fault": fault, "ended": ended})
                whole(folder)
                if not (folder / result).exists() or (folder / result).read_bytes() != expected:
                    act(folder)
                if (folder / result).read_bytes() != expected:
                    wrong.append({"point": point, "fault": fault, "ended": "other bytes after starting again"})
                shutil.rmtree(folder)
            print(fault, points, "points", len(wrong), "wrong", flush=True)
    return [{"points": points}, *wrong]


def measure(config: Config) -> Outcome:
    """All acts, in a process that has the library loaded."""
    acts = {
        "a training run": (train, nothing, "run/model.mrgpssm"),
        "saving a model": (save, older_model, "model.mrgpssm"),
    }
    found = {name: disturb(*acts[name]) for name in config["acts"]}
    points = sum(rows[0]["points"] for rows in found.values())
    wrong = [row for rows in found.values() for row in rows[1:]]
    tried = points * len(FAULTS)
    figure = (
        f"{tried - len(wrong)} of {tried} failing writes ({points} points x {len(FAULTS)} faults) ended as promised"
    )
    return Outcome(figure, not wrong, str(wrong[0]) if wrong else "", {"wrong": wrong, "points": points})


def main() -> None:
    """Build the library, then start anew with it."""
    if LIBRARY in os.environ:
        keep(measure, {"acts": ["a training run", "saving a model"]}, {"acts": ["saving a model"]})
        return
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "faults.so"
        source = Path(__file__).with_name("faults.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", str(source), "-o", str(library), "-ldl"], check=True)
        environment = os.environ | {LIBRARY: str(library), "LD_PRELOAD": str(library)}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
