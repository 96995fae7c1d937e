"""Promise 9: model files of every format version load and predict what they always did; a newer one asks to update."""

import numpy as np
from account import TESTS, Config, Outcome, keep
from recordings import recording
from test_modelfile import changed, put

from mrgpssm import ModelFileError, load
from mrgpssm.file.model import FORMAT_VERSION
from mrgpssm.prediction.fitted import parse_model


def largest_difference(number: int) -> float:
    """Between what a golden file predicts now and what it predicted when it was made, relative above size one."""
    stem = TESTS / "golden" / f"model-v{number}"
    model, expected = load(stem.with_suffix(".mrgpssm")), np.load(f"{stem}-expected.npz")
    run = model.simulate(recording(2).inputs, samples=6, seed=3)
    pairs = {"mean": run.mean, "std": run.std, "q05": run.quantile(0.05), "bounds": model.bounds_}
    return max(float(np.max(np.abs(v - expected[k]) / np.maximum(1, np.abs(expected[k])))) for k, v in pairs.items())


def measure(config: Config) -> Outcome:
    """All formats up to the present one, and the next."""
    found = {number: largest_difference(number) for number in range(1, FORMAT_VERSION + 1)}
    newest = (TESTS / "golden" / f"model-v{FORMAT_VERSION}.mrgpssm").read_bytes()
    try:
        parse_model(changed(newest, put("version", FORMAT_VERSION + 1)), "newer")
        said = "it was read"
    except ModelFileError as error:
        said = str(error)
    met = max(found.values()) < config["tolerance"] and "Update mrgpssm" in said
    figure = (
        f'formats 1 to {FORMAT_VERSION} off by at most {max(found.values()):.1e}; format {FORMAT_VERSION + 1}: "{said}"'
    )
    return Outcome(
        figure, met, "" if met else "a prediction moved, or a newer file was not refused", {"differences": found}
    )


if __name__ == "__main__":
    keep(measure, {"tolerance": 1e-12})
