"""Promise 12: types, lint with security rules, layers, known vulnerabilities of the dependencies, a security policy."""

import json
import subprocess
import sys
from pathlib import Path

from account import ROOT, Config, Outcome, keep

PLACES = ["src", "tests", "benchmarks", "trust"]


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool of the same environment."""
    command = [str(Path(sys.executable).parent / name), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def audit() -> tuple[str, list[str]]:
    """What pip-audit says of the installed dependencies, and the packages with a known vulnerability."""
    try:
        done = tool("pip-audit", "--format", "json", "--progress-spinner", "off", "--timeout", "20", "--skip-editable")
        rows = json.loads(done.stdout)["dependencies"]
    except FileNotFoundError:
        return "pip-audit is not installed", []
    except (ValueError, KeyError):
        return "the advisory database could not be reached from here", []
    asked = [row for row in rows if "skip_reason" not in row]
    if not asked:
        return (
            f"the advisory database could not be reached from here, so none of {len(rows)} packages was looked up",
            [],
        )
    rows = asked
    found = [f"{row['name']} {row['version']}: {row['vulns'][0]['id']}" for row in rows if row.get("vulns")]
    return f"{len(rows)} packages, {len(found)} with a known vulnerability", found


def measure(config: Config) -> Outcome:
    """One tool after the other."""
    checks = {
        "basedpyright": tool("basedpyright", "--pythonpath", sys.executable),
        "ruff check": tool("ruff", "check", *PLACES),
        "ruff format": tool("ruff", "format", "--check", *PLACES),
        "lint-imports": tool("lint-imports"),
    }
    security = tool("ruff", "check", "--select", "S", *PLACES)
    policy = (ROOT / "SECURITY.md").exists()
    said, vulnerable = audit()
    # Where the environment lies elsewhere than pyproject.toml says, the type checker says so and finds all the same.
    failed = [name for name, done in checks.items() if done.returncode and "0 errors, 0 warnings" not in done.stdout]
    verdict = {True: "NOT clean", False: "clean"}
    figure = (
        f"{', '.join(checks)} {verdict[bool(failed)]} over {', '.join(config['places'])}; security rules "
        f"{verdict[bool(security.returncode)]}; SECURITY.md is {'there' if policy else 'missing'}; pip-audit: {said}"
    )
    met = not failed and not security.returncode and not vulnerable and policy
    return Outcome(
        figure, met, "; ".join([*failed, *vulnerable]), {"audit": said, "vulnerable": vulnerable, "failed": failed}
    )


if __name__ == "__main__":
    keep(measure, {"places": PLACES})
