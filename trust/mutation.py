"""Promise 1: bugs that code of this family has had, planted one at a time, are caught by the quick tests.

The table is `tests/mutants.py`. Bugs are planted in a copy of sources and tests, never here. The tests that must notice
them are first run without any.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from account import ROOT, Config, Outcome, keep, quietly
from mutants import BUGS, MUTANTS, Mutant
from places import find_test


def copy_to(folder: Path) -> None:
    """What the tests need."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def run_tests(folder: Path, nodes: tuple[str, ...], wide: bool) -> tuple[int, str]:
    """Pytest's exit code and last words; compiled programs are shared by all copies."""
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "compiled"))
    environment = os.environ | {
        "PYTHONPATH": str(folder / "src"),
        "JAX_ENABLE_X64": str(int(wide)),
        "JAX_COMPILATION_CACHE_DIR": cache,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    places = [str(folder / "tests" / find_test(node)) for node in nodes]
    done = subprocess.run([*command, *places], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, quietly(done.stdout.replace(str(folder), "."))


def planted(folder: Path, mutant: Mutant) -> tuple[int, str]:
    """The tests with one bug in place; the source is as before afterwards."""
    path = folder / "src" / "mrgpssm" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file}: {mutant.old!r} must stand there once.")
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        return run_tests(folder, mutant.notice, mutant.wide)
    finally:
        path.write_text(text)


def sound(folder: Path, chosen: list[Mutant]) -> None:
    """Without a bug all these tests pass; else catching one would mean nothing."""
    for wide in (True, False):
        nodes = tuple(sorted({node for m in chosen if m.wide == wide for node in m.notice}))
        code, words = run_tests(folder, nodes, wide) if nodes else (0, "")
        if code:
            raise RuntimeError(f"Tests fail without any planted bug:\n{words}")


def measure(config: Config) -> Outcome:
    """Plant, test, take out again."""
    chosen = [m for m in MUTANTS if m.bug + 1 in config["bugs"]]
    caught, survivors = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_to(folder)
        sound(folder, chosen)
        for mutant in chosen:
            code, words = planted(folder, mutant)
            noticed = code == 1 and " failed" in words
            (caught if noticed else survivors).append(mutant)
            print("caught" if noticed else f"SURVIVED ({code})", mutant.bug + 1, mutant.file, mutant.new, flush=True)
    kinds, alive = len(config["bugs"]), {m.bug for m in survivors}
    figure = f"{kinds - len(alive)} / {kinds} kinds of bugs, {len(caught)} / {len(chosen)} places"
    found = {BUGS[b - 1]: sum(m.bug == b - 1 for m in caught) for b in config["bugs"]}
    left = [f"{m.file}: {m.new}" for m in survivors]
    return Outcome(figure, not survivors, "; ".join(left), {"caught": found, "survivors": left})


if __name__ == "__main__":
    keep(measure, {"bugs": list(range(1, len(BUGS) + 1)), "places": len(MUTANTS)}, {"bugs": [1]})
