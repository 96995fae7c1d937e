"""All promises, one after the other, and the page.

python trust/run.py [--quick] [--again] [NAME ...]
"""

import subprocess
import sys
from pathlib import Path

from account import ROOT
from promises import PROMISES, read

HERE = Path(__file__).parent


def run() -> int:
    """Every script in a process of its own, so that none sees another's memory; the number of those not met."""
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    scripts = [part.script for parts in PROMISES.values() for part in parts if not names or part.script in names]
    failed = [
        s for s in scripts if subprocess.run([sys.executable, str(HERE / f"{s}.py"), *flags], check=False).returncode
    ]
    if "--quick" in flags:
        return len(failed)
    subprocess.run([sys.executable, str(ROOT / "benchmarks" / "pages"), "trust"], check=True)
    unmet = [s for s in scripts if (record := read(s)) is None or not record["met"]]
    print(f"docs/trust.md: {len(scripts) - len(unmet)} of {len(scripts)} met. Not met: {', '.join(unmet) or 'none'}.")
    return len(unmet)


if __name__ == "__main__":
    sys.exit(min(run(), 1))
