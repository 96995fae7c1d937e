"""Promise 6, third part: nothing in a hostile file is imported, executed or written elsewhere; a hook watches."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from account import TESTS, Config, Outcome, keep, quietly


def measure(config: Config) -> Outcome:
    """The program `tests/audit.py`, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "inside"
        folder.mkdir()
        command = [sys.executable, str(TESTS / "audit.py"), str(folder)]
        done = subprocess.run(command, cwd=name, env=os.environ, capture_output=True, text=True, check=False)
        beside = sorted(p.name for p in Path(name).iterdir() if p.name != "inside")
    if done.returncode:
        return Outcome("the audit itself failed", False, quietly(done.stderr))
    told = json.loads(done.stdout)
    odd = {name: said for name, said in told["answers"].items() if said != "refused"}
    events = told["events"] + told["left"] + beside
    tried, grown = len(told["answers"]), told["megabytes"]
    figure = f"{tried - len(odd)} of {tried} refused; {len(events)} forbidden events; memory +{grown:.0f} MB"
    met = not odd and not events and grown < config["megabytes"]
    return Outcome(figure, met, "" if met else str(odd or events)[:300], {"events": events, "answers": told["answers"]})


if __name__ == "__main__":
    keep(measure, {"megabytes": 50})
