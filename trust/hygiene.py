"""Promise 11: every test is collected, order does not matter, false alarms are rare, and the mathematics is covered.

The tests of the mathematics run in random order, once with float64 on and once with it off, and line and branch
coverage of both passes is added up. What only a GPU reaches is left out (`pyproject.toml` names it).
"""

import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from account import ROOT, TESTS, Config, Outcome, keep
from budget import total
from pytests import run_pytest

FILES = ["oracles", "limits", "linalg", "stability", "native", "sde", "walks", "calibrated", "training", "estimator",
         "ensemble", "metrics", "house", "data"]  # fmt: skip
# Tests of other files that reach what training leaves on disk, what it would cost, and the rest of the metrics.
MORE = [
    "test_bound.py::test_a_buffer_must_leave_something_to_score",
    "test_fuzzing.py::test_damaged_checkpoints_are_refused_or_used",
    "test_runs.py::test_a_run_leaves_its_files",
    "test_runs.py::test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on",
    "test_cli.py::test_an_estimate_before_a_long_fit",
    "test_baselines.py::test_quantile_crps_is_that_of_a_gaussian",
]
ROOMS = ("arrays", "gp", "model", "rollout", "elbo", "training", "prediction")


def collected() -> set[str]:
    """`file::function` of all that pytest finds."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {line.split("[")[0].rpartition("/")[2] for line in done.stdout.splitlines() if "::" in line}


def written() -> set[str]:
    """`file::function` of all that is written as a test."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(f"{path.name}::{node.name}")
    return found


def room_of(file: str) -> str:
    """The room of the house that a source file belongs to."""
    return Path(file).relative_to("src/mrgpssm").parts[0].removesuffix(".py")


def shares(report: dict[str, Any]) -> dict[str, float]:
    """Lines and branches covered, of those that there are, by room."""
    sums: dict[str, list[int]] = {}
    for file, content in report["files"].items():
        room, s = room_of(file), content["summary"]
        hit, of = s["covered_lines"] + s["covered_branches"], s["num_statements"] + s["num_branches"]
        one = sums.setdefault(room, [0, 0])
        one[0], one[1] = one[0] + hit, one[1] + of
    return {room: 100 * hit / of for room, (hit, of) in sorted(sums.items()) if of}


def measured(seed: int) -> tuple[dict[str, float], list[str]]:
    """Coverage by room over both passes, and what failed in random order."""
    failed = []
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "coverage.json"
        for index, wide in enumerate((True, False)):
            more = ["--cov=mrgpssm", "--cov-branch", f"--cov-report=json:{report}", f"--shuffle={seed + index}"]
            ran = run_pytest(
                [*(f"test_{f}.py" for f in FILES), *MORE], *more, *(["--cov-append"] if index else []), wide=wide
            )
            print(ran.words[-300:], flush=True)
            failed += [ran.words[-300:]] if ran.code else []
        found = shares(json.loads(report.read_text()))
    return found, failed


def measure(config: Config) -> Outcome:
    """Collect, shuffle, add up."""
    lost = sorted(written() - collected())
    alarms = total()
    rooms, failed = measured(config["seed"])
    maths = {room: rooms[room] for room in ROOMS}
    low = [f"{room} {share:.1f} %" for room, share in maths.items() if share < config["least"]]
    order = "FAILURES" if failed else "all pass"
    figure = (
        f"{len(written())} test functions, {len(lost)} not collected; random order: {order}; "
        f"false alarms {alarms:.1e} a run; lines and branches covered: "
        + ", ".join(f"{room} {share:.1f} %" for room, share in maths.items())
    )
    met = not lost and not failed and alarms < 1e-3 and not low
    return Outcome(figure, met, "; ".join([*lost, *failed, *low]), {"coverage": rooms, "lost": lost})


if __name__ == "__main__":
    keep(measure, {"least": 95, "seed": 1, "files": FILES, "more": MORE})
