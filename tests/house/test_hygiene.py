"""The suite itself: tests that can be collected, that ask no clock and no chance, and a budget of false alarms."""

import ast
import tomllib
from collections import Counter
from pathlib import Path

import budget
import pytest
from places import ROOT, TESTS, find_test

pytestmark = pytest.mark.once
MODULES = sorted(path for path in TESTS.rglob("*.py") if path.parent.name != "golden")
# Calls whose result depends on when, or on chance; `perf_counter` and `monotonic` only measure how long something takes.
FICKLE = {
    "now",
    "utcnow",
    "today",
    "time",
    "localtime",
    "gmtime",
    "urandom",
    "token_bytes",
    "randbits",
    "uuid4",
    "seed",
}
ALLOWED = {
    ("test_gpu.py", "randbits"),  # kernels against a referee on fresh numbers, rounding being the only tolerance
}


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def called(path: Path) -> set[str]:
    """The last words of all calls: `now` of `datetime.now()`; generators without a seed are `default_rng()`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            bare = not node.args and not node.keywords
            names.add(f"{name}()" if name in ("default_rng", "Random", "key") and bare else name)
    return names


def test_every_test_can_be_collected():
    """At the top of a module called test_*, and no second one of the same name that would hide it."""
    for path in MODULES:
        tree = ast.parse(path.read_text())
        top = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        everywhere = [function.name for function in functions(path) if function.name.startswith("test_")]
        assert sorted(top) == sorted(everywhere), path.name
        assert [name for name, count in Counter(top).items() if count > 1] == [], path.name
        assert not top or path.name.startswith("test_"), path.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_test_asks_the_clock_or_chance(path):
    fickle = (called(path) & FICKLE) - {name for file, name in ALLOWED if file == path.name}
    assert fickle == set()
    assert called(path).isdisjoint({"default_rng()", "Random()", "key()"})


def test_warnings_are_errors():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert settings["filterwarnings"][0] == "error"
    assert settings["xfail_strict"] is True


def test_false_alarms_stay_within_their_budget():
    assert budget.total() < 1e-3
    for listed in budget.LISTED:
        file, _, name = listed.test.partition("::")
        assert name in {function.name for function in functions(TESTS / find_test(file))}, listed.test
