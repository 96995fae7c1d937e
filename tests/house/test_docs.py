"""What README and documentation say is true: every code block runs, the site builds, links and names lead somewhere."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from functools import reduce
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from pages import alike, blocks, run_page
from places import ROOT

from mrgpssm.data.datasets import measurement_file
from mrgpssm.data.engine import fixed_splits
from mrgpssm.data.synthetic import engine_like

pytestmark = pytest.mark.once
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OWN_DATA = ROOT / "docs" / "own-data.md"
GOES_ON = "goes on in the folder of [Use your own data](own-data.md)"
GENERATED = ("performance.md", "reproduction.md")  # written from records by commands that take hours
RUNNING = [p for p in PAGES if p.name not in GENERATED and blocks(p)]


def engine_folder(root: Path) -> None:
    """Files of made-up numbers with the names and the columns of the engine set, which is not ours to hand on."""
    split = fixed_splits()[0]
    folder = root / "engine" / "bosch-engine" / "gengine2"
    folder.mkdir(parents=True)
    for number in (*split.train[:4], *split.test[:1]):
        s = engine_like(seed=number, length=2000)
        standard = (np.hstack([s.inputs, s.outputs]) - [2400, 50, 1, 10, 400, 600]) / [900, 25, 0.05, 8, 120, 40]
        columns = standard[:, [0, 1, 2, 3, 4, 5, 4, 5, 5]]  # four inputs, then PN, HC, NOx, Temp, TempCat
        np.savetxt(folder / measurement_file(number), columns, delimiter=",", fmt="%.6g")


@pytest.fixture(scope="module")
def own_data(tmp_path_factory):
    """The folder that the page on one's own data leaves; other pages go on in it."""
    folder = tmp_path_factory.mktemp("own-data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_page(blocks(OWN_DATA))
    return folder


@pytest.mark.parametrize("path", RUNNING, ids=[p.name for p in RUNNING])
def test_every_block_of_a_page_runs(path, own_data, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    monkeypatch.delenv("MRGPSSM_DATA", raising=False)
    page = blocks(path)
    for block in page:
        assert block.language in ("python", "sh", "text", "toml"), f"{block.place}: say what this block is"
        assert block.language != "toml" or block.title, f"{block.place}: a title names the file"
    if GOES_ON in path.read_text(encoding="utf-8"):
        shutil.copytree(own_data, folder)
    else:
        folder.mkdir()
    if path.name == "engine.md":
        engine_folder(folder)
    monkeypatch.chdir(folder)
    if path != OWN_DATA:
        run_page(page)


def test_few_blocks_do_not_run_and_say_why():
    everything = [b for p in RUNNING for b in blocks(p)]
    not_run = [b for b in everything if b.not_run]
    running = [b for b in everything if not b.not_run and b.language in ("python", "sh")]
    print("\n".join(f"{b.place}: {b.not_run}" for b in not_run))
    assert len(not_run) <= 12
    assert len(running) >= 40


def test_outputs_are_compared_word_by_word():
    assert alike("RMSE 1.00 of ... done.", "RMSE 1.1 of all the rows,\ndone.\n")
    assert not alike("RMSE 1.00", "RMSE 1.5")
    assert not alike("a b", "a b c")


def test_names_in_the_text_exist():
    """`mrgpssm.room.name` in any page is a module, or something inside one."""
    found = {n for p in PAGES for n in re.findall(r"`(mrgpssm(?:\.\w+)+)(?:\(.*?\))?`", p.read_text(encoding="utf-8"))}
    assert len(found) > 30
    for name in sorted(n for n in found if not n.endswith((".toml", ".html"))):
        assert _resolves(name), name


def _resolves(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[cut:], module)
        except AttributeError:
            return False
        return True
    return False


def test_files_that_the_readme_links_to_exist():
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf-8")):
            assert target.startswith("https://") or (ROOT / target).exists(), f"{name}: {target}"


class Links(HTMLParser):
    """What a page fetches, where it leads, and which anchors it has."""

    def __init__(self, text: str):
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.anchors.add(given["id"] or "")
        if tag in ("script", "img", "link", "iframe") and (given.get("src") or given.get("href")):
            self.fetched.append(given.get("src") or given.get("href") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")


def test_the_site_builds_strictly_and_stands_alone(tmp_path):
    """No warning, no dead link or anchor, and nothing that a page would fetch from elsewhere."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    pages = {p.name: Links(p.read_text(encoding="utf-8")) for p in tmp_path.glob("*.html") if p.name != "404.html"}
    assert len(pages) == len(list((ROOT / "docs").glob("*.md")))
    for name, page in pages.items():
        for target in page.fetched:
            assert (tmp_path / target).is_file(), f"{name} fetches {target}"
        for target in page.links:
            if target.startswith(("https://", "http://")):
                continue
            file, _, anchor = target.partition("#")
            other = pages.get(file or name)
            assert other is not None, f"{name} leads to {target}"
            assert not anchor or anchor in other.anchors, f"{name} leads to {target}"


def test_the_reference_names_everything_public():
    import mrgpssm

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in mrgpssm.__all__ if not re.search(rf"::: mrgpssm\.[\w.]+\.{name}$", text, re.MULTILINE)]
    assert not missing


def engine_means(records: list[dict], key: str = "rmse") -> float:
    return float(np.mean([record[key] for record in records]))


@pytest.mark.parametrize("page", ["README.md", "docs/limits.md"])
def test_tables_against_the_baselines_are_those_of_the_records(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(" *`"): re.findall(r"-?\d+\.\d+", line.split("|", 2)[2])
            for line in text.splitlines() if line.startswith("| ")}  # fmt: skip
    outputs, numbers = ("PN", "HC", "NOx", "Temp"), range(5)
    records = {}
    for kind, part, title in (("", "default", "MRGPSSM()"), ("blend-", "blend", "Blend()")):
        paths = (ROOT / f"results/default/{kind}engine-{n}.json" for n in numbers)
        records[title] = [json.loads(path.read_text())["parts"][part] for path in paths]
    for name, title in (("trees", "boosted trees"), ("gru", "GRU")):
        paths = (ROOT / f"results/baselines/engine-{n}-{name}.json" for n in numbers)
        records[title] = [json.loads(path.read_text())["scores"] for path in paths]
    expected = {name: [engine_means([s[o] for s in scores]) for o in outputs] for name, scores in records.items()}
    if page == "README.md":
        for name, scores in records.items():
            expected[name].append(engine_means([s["Temp"] for s in scores], "nll"))
    for name, values in expected.items():
        (shown,) = [numbers for title, numbers in rows.items() if name in title]
        for number, value in zip(shown, values, strict=True):
            assert abs(float(number) - value) <= 0.5001 * 10.0 ** -len(number.split(".")[1]), f"{name}: {number}"
