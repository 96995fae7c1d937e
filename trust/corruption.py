"""Promise 6, first part: every truncation of the golden model files and many single flipped bits are found out."""

import numpy as np
from account import TESTS, Config, Outcome, keep

from mrgpssm import ModelFileError
from mrgpssm.prediction.fitted import parse_model


def refused(data: bytes) -> bool:
    """Whether the bytes are refused in one sentence."""
    try:
        parse_model(data, "damaged")
    except ModelFileError as error:
        return "\n" not in str(error)
    return False


def measure(config: Config) -> Outcome:
    """All lengths of every golden file, then bits drawn at random."""
    rng, cut, flipped, missed = np.random.default_rng(config["seed"]), 0, 0, []
    for path in sorted((TESTS / "golden").glob("*.mrgpssm")):
        good = path.read_bytes()
        parse_model(good, path.name)
        for length in range(0, len(good), config["every"]):
            cut += 1
            if not refused(good[:length]):
                missed.append(f"{path.name} cut to {length} bytes")
        for place in rng.integers(0, 8 * len(good), config["flips"]):
            damaged = bytearray(good)
            damaged[place // 8] ^= 1 << (place % 8)
            flipped += 1
            if not refused(bytes(damaged)):
                missed.append(f"{path.name} with bit {place} flipped")
    total = cut + flipped
    figure = f"{100 * (total - len(missed)) / total:g} % of {cut:,} truncations and {flipped:,} bit flips found out"
    return Outcome(figure, not missed, "; ".join(missed[:3]), {"missed": missed})


if __name__ == "__main__":
    keep(measure, {"every": 1, "flips": 10_000, "seed": 0}, {"every": 97, "flips": 500})
