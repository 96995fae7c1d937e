"""The oldest packages that pyproject.toml allows, tried: `python tests/floors.py` (or `make floors`).

Makes an environment of exactly the lowest declared versions of the core and of the extra `report`, installs the package
into it without looking at anything else, and runs `smoke.py` there. What those packages need themselves is the newest.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("plot", "report")
_FLOOR = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?>=([0-9.]+)")


def declared() -> dict[str, list[str]]:
    """Requirements as they are written, by where: the core is "", the rest are extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def floors(*extras: str) -> dict[str, str]:
    """The lowest version of every package that the core and these extras ask for."""
    found = {}
    for where in ("", *extras):
        for requirement in declared()[where]:
            match = _FLOOR.fullmatch(requirement)
            if match is not None:
                found[match[1]] = match[2]
    return found


def try_floors(folder: Path) -> str:
    """What was installed; raises where the package does not work with it."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *(f"{name}=={version}" for name, version in floors(*EXTRAS).items())], check=True)
    subprocess.run([*pip, "--no-deps", str(ROOT)], check=True)
    (folder / "work").mkdir()
    subprocess.run([python, "-W", "ignore", str(ROOT / "tests" / "smoke.py"), str(folder / "work")], check=True)
    return subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(try_floors(Path(place)))
    sys.exit(0)
