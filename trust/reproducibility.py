"""Promise 10: the same seed in two processes gives identical bits, in fits and in simulations."""

import os
import subprocess
import sys

from account import ROOT, Config, Outcome, keep
from test_estimator import PROBE


def digest(seed: int) -> str:
    """A fresh process: fit, simulate, and hash all parameters and the simulated mean."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(seed)], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def measure(config: Config) -> Outcome:
    """Pairs of processes, one after the other."""
    pairs = []
    for seed in range(config["pairs"]):
        pairs.append((digest(seed), digest(seed)))
        print(seed, pairs[-1][0] == pairs[-1][1], flush=True)
    equal = sum(a == b for a, b in pairs)
    different = len({a for a, _ in pairs})
    figure = (
        f"{equal} of {len(pairs)} pairs of processes identical; {different} different seeds gave {different} results"
    )
    met = equal == different == len(pairs)
    return Outcome(
        figure, met, "" if met else "some pairs differ, or two seeds agree", {"digests": [a for a, _ in pairs]}
    )


if __name__ == "__main__":
    keep(measure, {"pairs": 20}, {"pairs": 2})
