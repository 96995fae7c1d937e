"""Promise 5, first half: killed at any moment, a writer leaves the old file or the new one, and training goes on.

What is done is that of the tests in `tests/4_training/test_runs.py`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from account import Config, Outcome, keep, quietly
from test_runs import WRITER, digest, kill_and_resume, start_training


def writer_survives(folder: Path) -> str:
    """200 kills while a file is replaced again and again; the complaint, or nothing."""
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(folder / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.stdout == "ok\n" else quietly(done.stderr)


def training_survives(folder: Path, kills: int) -> tuple[int, int, int]:
    """Kills, the runs over which they fell, and those runs that ended with the uninterrupted run's bytes."""
    cache = folder / "cache"
    if start_training(folder / "whole", cache).wait():
        raise RuntimeError("The uninterrupted run failed.")
    expected, total, runs, same = digest(folder / "whole" / "model.mrgpssm"), 0, 0, 0
    while total < kills:
        root = folder / f"run{runs}"
        total += kill_and_resume(root, cache, min(5, kills - total), runs)
        same += digest(root / "model.mrgpssm") == expected
        runs += 1
        print(f"{total} kills over {runs} runs, {same} identical", flush=True)
    return total, runs, same


def measure(config: Config) -> Outcome:
    """First the writer, then training."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        complaint = writer_survives(folder)
        total, runs, same = training_survives(folder, config["training"])
    figure = (
        f"{config['writer']} kills of the writer, {total} of training over {runs} runs: {same} end bit for bit alike"
    )
    met = not complaint and same == runs
    return Outcome(figure, met, complaint or ("" if met else "a resumed run ended in other bytes"), {"runs": runs})


if __name__ == "__main__":
    keep(measure, {"writer": 200, "training": 20}, {"training": 2})
