"""The table of planted bugs fits the sources: `trust/mutation.py` can plant every one of them."""

import ast

import pytest
from mutants import BUGS, MUTANTS
from places import SOURCES, TESTS, find_test

pytestmark = pytest.mark.once


def test_every_bug_has_a_place():
    assert {mutant.bug for mutant in MUTANTS} == set(range(len(BUGS)))
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.bug + 1} {m.file}: {m.new[:40]}")
def test_a_bug_can_be_planted_in_one_way_only(mutant):
    """The text to be replaced stands there once, the change is one, and the tests that must notice it exist."""
    text = (SOURCES / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    changed = text.replace(mutant.old, mutant.new)
    assert changed != text
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    for node in mutant.notice:
        file, _, name = node.partition("::")
        tests = ast.parse((TESTS / find_test(file)).read_text()).body
        assert not name or name in {f.name for f in tests if isinstance(f, ast.FunctionDef)}
