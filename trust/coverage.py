"""Promise 3, first half: intervals of a model with known parameters cover what that model generates."""

from account import Config, Outcome, keep
from test_estimator import shares_covered

ALLOWED = {0.5: 0.052, 0.9: 0.031, 0.95: 0.023}


def measure(config: Config) -> Outcome:
    """Ten input sequences, each with its own truths."""
    shares = shares_covered(config["worlds"], config["truths"])
    text = " / ".join(f"{100 * (share - level):+.1f}" for level, share in shares.items())
    figure = f"off by {text} points at 50 / 90 / 95 % in {config['worlds'] * config['truths']:,} simulations"
    wide = [level for level, allowed in ALLOWED.items() if abs(shares[level] - level) >= allowed]
    return Outcome(
        figure, not wide, f"beyond what is allowed at {wide}" if wide else "", {str(k): v for k, v in shares.items()}
    )


if __name__ == "__main__":
    keep(measure, {"worlds": 10, "truths": 100, "allowed": [5.2, 3.1, 2.3]}, {"worlds": 2})
