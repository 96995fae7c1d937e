"""Promise 6, second part: damaged model files, checkpoints and configurations end in their own error, fast and small.

The damage is that of `tests/fuzzing.py`: well-formed files with wrong headers, metadata and tensors, mostly behind a
checksum that fits, and torn texts.
"""

import resource
from typing import Any

from account import TESTS, Config, Outcome, keep
from fuzzing import ConfigFuzzer, Fuzzer, Tally
from test_fuzzing import checkpoint, parse_config

from mrgpssm import ConfigError, ModelFileError
from mrgpssm.file.model import FORMAT_VERSION
from mrgpssm.prediction.fitted import parse_model
from mrgpssm.training.checkpoint import unpack_snapshot


def peak() -> float:
    """The most memory that this process ever held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(fuzzer: Any, tally: Tally, parse: Any, cases: int) -> dict[str, Any]:
    """So many cases; anything but the right error ends all."""
    before = peak()
    for index in range(cases):
        tally.take(parse, fuzzer.case())
        if index % 50_000 == 49_999:
            print(index + 1, tally.refused, f"slowest {tally.slowest:.2f} s, {peak() - before:.0f} MB", flush=True)
    grown = peak() - before
    return {"loaded": tally.loaded, "refused": tally.refused, "slowest": tally.slowest, "megabytes": grown}


def measure(config: Config) -> Outcome:
    """The golden model file of every format, a checkpoint, configurations."""
    found: dict[str, Any] = {}
    formats = range(1, FORMAT_VERSION + 1)
    for number in formats:
        good = (TESTS / "golden" / f"model-v{number}.mrgpssm").read_bytes()
        parse_model(good, "good")
        fuzzer = Fuzzer(good, "mrgpssm-model", config["seed"] + number)
        tally = Tally(ModelFileError)
        found[f"model format {number}"] = run(
            fuzzer, tally, lambda data: parse_model(data, "odd"), config["models"] // len(formats)
        )
    good, template = checkpoint()
    fuzzer = Fuzzer(good, "mrgpssm-checkpoint", config["seed"])
    found["checkpoint"] = run(
        fuzzer, Tally(ModelFileError), lambda data: unpack_snapshot(data, template, "mark", "odd"), config["others"]
    )
    found["configuration"] = run(ConfigFuzzer(config["seed"]), Tally(ConfigError), parse_config, config["others"])
    slowest, grown = (max(row[name] for row in found.values()) for name in ("slowest", "megabytes"))
    figure = (
        f"{config['models']:,} damaged models and {config['others']:,} checkpoints and configurations each: only the "
        f"right error, slowest {slowest:.2f} s, memory grew by {grown:.0f} MB over all"
    )
    met = slowest < 1 and grown < 50
    return Outcome(figure, met, "" if met else "too slow or too large", found)


if __name__ == "__main__":
    keep(measure, {"models": 1_000_000, "others": 100_000, "seed": 0}, {"models": 100_000, "others": 10_000})
