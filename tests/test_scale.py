"""The page on scale says what the records say."""

import runpy
from pathlib import Path
from string import Template

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[1]


def test_the_page_is_made_of_the_records():
    """But for the age of its records, which changes with every line of code."""
    figures = runpy.run_path(str(ROOT / "benchmarks" / "scale.py"))["figures"]()
    template = (ROOT / "benchmarks" / "text" / "scale.md.in").read_text(encoding="utf-8")
    before, after = Template(template).substitute(figures | {"age": "AGE"}).split("AGE")
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert page.startswith(before)
    assert page.endswith(after)
    assert figures["age"] in ("", page.removeprefix(before).removesuffix(after))
