"""The generated pages say what the records say, and every picture is on a page."""

import importlib.util
import re
import sys

import pytest
from places import ROOT

from mrgpssm.file.record import OLDER

pytestmark = pytest.mark.once
DOCS, GENERATOR = ROOT / "docs", ROOT / "benchmarks" / "pages"
NAMES = ("benchmarks", "experiments", "performance", "reproduction", "scale", "trust")


@pytest.fixture(scope="module")
def generator():
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(GENERATOR)
        spec = importlib.util.spec_from_file_location("generator", GENERATOR / "__main__.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        patch.setattr(module, "draw_all", lambda _, folder: [path.stem for path in folder.glob("*.png")])
        yield module


def ageless(text: str) -> str:
    """A page without what it says of the age of its records, which changes with every line of code."""
    return re.sub(rf"(?:\*\*[^*\n]*{OLDER}\.\*\*\n+|, {OLDER})", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_generated_page_is_made_of_the_records(generator, name):
    assert set(generator.PAGES) == set(NAMES)
    assert ageless(generator.PAGES[name]()) == ageless((DOCS / f"{name}.md").read_text(encoding="utf-8"))


def test_a_page_that_is_not_known_or_lacks_a_record_is_refused(generator, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pages", "motor"])
    with pytest.raises(SystemExit, match=r"no page 'motor'; choose from benchmarks, experiments"):
        generator.main()
    with pytest.raises(SystemExit, match=r"results/motor\.json holds no record"):
        sys.modules["material"].find("motor")


def test_every_picture_is_on_a_page():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *DOCS.glob("*.md"))]
    pictures = [path for path in DOCS.rglob("*") if path.suffix in (".png", ".svg", ".jpg", ".gif")]
    assert pictures
    unused = [p.relative_to(DOCS).as_posix() for p in pictures]
    assert [name for name in unused if not any(name in text for text in texts)] == []
