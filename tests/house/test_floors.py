"""The oldest versions that pyproject.toml allows: said once, and true."""

import re
from importlib.metadata import version

import pytest
from floors import EXTRAS, declared, floors, try_floors
from places import ROOT

pytestmark = pytest.mark.once


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def test_every_package_has_one_floor_and_stands_in_one_place():
    """An extra that needs what another has names that extra."""
    core, every = declared()[""], [r for where in declared().values() for r in where if not r.startswith("mrgpssm[")]
    assert len(floors()) == len(core)  # a floor each, and nothing else: no caps, no markers
    names = [re.split(r"[\[>]", requirement)[0].lower() for requirement in every]
    assert sorted(set(names)) == sorted(names)


def test_what_is_installed_is_not_below_the_floors():
    for name, floor in floors(*EXTRAS).items():
        assert numbers(version(name)) >= numbers(floor), name


def test_pages_name_no_other_versions():
    """Versions of packages in the pages would be a second source."""
    for path in (ROOT / "docs" / "install.md", ROOT / "README.md"):
        assert re.findall(r"(?i)\b(?:jax|equinox|numpy|pandas|typer)\s*(?:>=|==)?\s*\d+\.\d+", path.read_text()) == []


@pytest.mark.slow
def test_the_package_works_with_the_oldest_versions_that_it_allows(tmp_path):
    """Needs the network: pip installs exactly the floors."""
    installed = dict(line.lower().split("==") for line in try_floors(tmp_path).splitlines() if "==" in line)
    for name, floor in floors(*EXTRAS).items():
        assert numbers(installed[name.lower()]) == numbers(floor), name
