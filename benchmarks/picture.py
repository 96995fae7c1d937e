"""The README's picture: engine Temp, what slow and fast components add up to, with bands; first split, test file.

python benchmarks/picture.py fit DATA_ROOT MODEL      # a quarter of an hour on two cores; a model and a record
python benchmarks/picture.py draw DATA_ROOT MODEL     # docs/images/engine-temp.png
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

from mrgpssm import MRGPSSM, load
from mrgpssm.data.engine import fixed_splits, load_engine
from mrgpssm.file.record import write_record
from mrgpssm.spec import arrange

ROOT = Path(__file__).parents[1]
OPTIONS = {"filters": (10, 60, 300), "restarts": 3, "ensemble": 3, "folds": 4, "noise": "student"}
COLOURS = ("#1b7f4b", "#2c5ea8", "#c4621a")


def fit(root: str, path: Path) -> None:
    """Train on the seven files of the first split and score the six others."""
    split = fixed_splits()[0]
    train, test = (load_engine("gengine2", part, ("Temp",), root) for part in (split.train, split.test))
    begun = time.perf_counter()
    model = MRGPSSM(**arrange(**OPTIONS)).fit(train)
    seconds = time.perf_counter() - begun
    model.save(path)
    content = {"experiment": "picture", "output": "Temp", "train": list(split.train), "test": list(split.test)}
    content |= {"options": model.fitted_.spec.to_json(), "fit_seconds": round(seconds, 1)}
    for name, table in (("test", model.score(test)), ("left_out", model.validation_scores_),
                        ("left_out_before", model.uncalibrated_scores_)):  # fmt: skip
        content[name] = None if table is None else table.round(5).to_dict("index")
    write_record(ROOT / "results" / "engine-temp-filters.json", content)
    print(content["test"])


def draw(root: str, path: Path) -> None:
    """Forty minutes of one test file above, what the components add below."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    model, number = load(path), fixed_splits()[0].test[0]
    recording = load_engine("gengine2", [number], ("Temp",), root)[0]
    run = model.simulate(recording, samples=200)
    minutes = run.time / 60
    rmse = float(np.sqrt(np.nanmean((run.mean[:, 0] - recording.outputs[:, 0]) ** 2)))
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(10, 5.2), sharex=True, gridspec_kw={"height_ratios": (3, 2)}, layout="constrained"
    )
    for low, high, shade in ((0.05, 0.95, 0.18), (0.25, 0.75, 0.30)):
        band = (run.quantile(q)[:, 0] for q in (low, high))
        label = f"{round(100 * (high - low))} % band"
        above.fill_between(minutes, *band, color=COLOURS[0], alpha=shade, linewidth=0, label=label)
    above.plot(minutes, recording.outputs[:, 0], color="#222222", linewidth=0.9, label="measured")
    above.plot(minutes, run.mean[:, 0], color=COLOURS[0], linewidth=1.3, label="free run")
    above.set_ylabel("engine temperature")
    above.set_title(f"Engine data, unseen file {number}: simulated from four inputs alone, RMSE {rmse:.3f}", loc="left")
    above.legend(ncols=4, frameon=False, loc="upper right")
    for (name, values), colour in zip(run.components.items(), COLOURS, strict=False):
        resolution = name.split("_R")[1]
        seconds = int(resolution) * recording.dt
        below.plot(minutes, values[:, 0], color=colour, linewidth=1.0, label=f"learned at {seconds:g} s a step")
    below.axhline(0, color="#999999", linewidth=0.6)
    below.set_ylabel("what each adds")
    below.set_xlabel("time / min")
    below.legend(ncols=3, frameon=False, loc="upper right")
    shown = [recording.outputs[:, 0], np.concatenate([v[:, 0] for v in run.components.values()])]
    for axis, values in zip((above, below), shown, strict=True):
        axis.spines[["top", "right"]].set_visible(False)
        low, high = np.nanmin(values), np.nanmax(values)
        axis.set(xlim=(0, minutes[-1]), ylim=(low - 0.1 * (high - low), high + 0.3 * (high - low)))  # legends above
    figure.savefig(ROOT / "docs" / "images" / "engine-temp.png", dpi=130)  # a vector picture would hold measured rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["fit", "draw"])
    parser.add_argument("root")
    parser.add_argument("model", type=Path)
    given = parser.parse_args()
    {"fit": fit, "draw": draw}[given.task](given.root, given.model)
