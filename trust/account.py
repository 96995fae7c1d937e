"""A promise: measured by a script of its own, left as a record, read by the page.

Every script of this folder calls `keep` with what it measures. Records lie in `results/trust`; a script whose record
was made with the same configuration does nothing unless told `--again`. With `--quick` a smaller configuration is
measured and shown, and no record is written.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mrgpssm import native
from mrgpssm.file.record import read_record, sources, write_record

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "trust"
TESTS = ROOT / "tests"
# Where what scripts import after this may lie: tests and what they share, and the generator of pages.
sys.path[:0] = [str(p) for p in (TESTS, *TESTS.glob("*/"), ROOT / "benchmarks" / "pages")]

Config = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a measurement found: its figure in a few words, whether that keeps the promise, and if not, why."""

    figure: str
    met: bool
    reason: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def keep(measure: Callable[[Config], Outcome], full: Config, quick: Config | None = None) -> None:
    """The whole of a script: read the arguments, measure, write the record."""
    name = Path(sys.argv[0]).stem
    arguments = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    arguments.add_argument("--quick", action="store_true", help="measure less, write no record")
    arguments.add_argument("--again", action="store_true", help="measure even where there is a record")
    asked = arguments.parse_args()
    config = full | (quick or {}) if asked.quick else full
    path = RECORDS / f"{name}.json"
    if not (asked.quick or asked.again) and has_record(path, config):
        print(f"{name}: there is a record; --again measures anew.")
        return
    sources()  # as they are now, not as they may be after hours
    began = time.perf_counter()
    outcome = measure(config)
    seconds = time.perf_counter() - began
    print(f"{name}: {outcome.figure}; {'met' if outcome.met else f'NOT MET: {outcome.reason}'} ({seconds:.0f} s)")
    if not asked.quick:
        write_record(path, content(name, config, outcome, seconds))


def content(name: str, config: Config, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """What a record holds beside the environment and the marks of the sources."""
    told = {"command": f"python trust/{name}.py --again", "config": config, "seconds": round(seconds, 1)}
    return told | asdict(outcome) | {"native_kernel": native.ready()}


def has_record(path: Path, config: Config) -> bool:
    """Whether there is a record of this very configuration."""
    record = read_record(path)
    return record is not None and record["config"] == json.loads(json.dumps(config))


def quietly(text: str) -> str:
    """The last words of a program, for a record: no paths of this machine."""
    return text.replace(str(ROOT), ".")[-2000:]
