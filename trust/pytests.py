"""Running tests from a script and reading what became of them."""

import os
import re
import subprocess
import sys
from typing import NamedTuple

from account import ROOT, quietly
from places import find_test


class Ran(NamedTuple):
    """Counts of a run of pytest, its exit code and its last words."""

    passed: int
    failed: int
    code: int
    words: str


def run_pytest(nodes: list[str], *more: str, wide: bool = False) -> Ran:
    """The quick tests of these files or nodes, in one process, with float64 on or off."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        *more,
        *(f"tests/{find_test(node)}" for node in nodes),
    ]
    environment = os.environ | {"JAX_ENABLE_X64": str(int(wide)), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    words = quietly(done.stdout)
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|error)", words)}
    return Ran(counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0), done.returncode, words)
