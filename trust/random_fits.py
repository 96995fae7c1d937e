"""Promise 4: fits over extreme settings and data end finite, or in a typed error that names the place.

A setting is drawn with its data; its restarts are fits of their own, each with its own starting values, noise and
windows, trained side by side for 50 steps. A fit fails silently where a model is handed out that simulates to numbers
that are not finite or has no finite bound, or where anything but a typed error is raised.
"""

import re
from collections import Counter
from typing import Any

import numpy as np
from account import Config, Outcome, keep

from mrgpssm import MRGPSSM, ConfigError, DataError, FitError, Sequence
from mrgpssm.spec import arrange

ROWS = 320
PLACE = re.compile(r"component \d+|row \d+|[Oo]utput '|[Ii]nput '|column|resolution|latent_dim")


def choose(rng: np.random.Generator, values: list[Any]) -> Any:
    """One of the values, as it is."""
    return values[int(rng.integers(len(values)))]


def draw_options(rng: np.random.Generator, restarts: int) -> dict[str, Any]:
    """50 steps a fit; everything else from one end of its range to the other."""
    resolutions, latent_dim = choose(rng, [(1,), (10,), (3, 1), (1, 1)]), choose(rng, [1, 2, 4])
    return {
        "resolutions": resolutions,
        "cycles": 2 // len(resolutions),
        "steps": 25,
        "latent_dim": latent_dim,
        "inducing": choose(rng, [1, 2, 8, 40]),
        "samples": choose(rng, [1, 2, 8]),
        "windows": choose(rng, [1, 3, 10]),
        "window": choose(rng, [1, 5, 20]),
        "buffer": choose(rng, [0, 2, 10]),
        "learning_rate": float(10 ** rng.uniform(-4, 3)),
        "preset": choose(rng, ["stable", "paper"]),
        "precision": choose(rng, ["float32", "float64"]),
        "window_start": choose(rng, ["cache", "initial"]),
        "joint": bool(rng.integers(2)) and latent_dim > 1,
        "restarts": restarts,
        "ensemble": choose(rng, [1, restarts]),
        "seed": int(rng.integers(2**31)),
    }


KINDS = ("plain", "huge", "tiny", "offset", "spike", "sparse", "walk", "two levels", "irregular", "one spoiled")


def draw_data(rng: np.random.Generator, kind: str) -> Sequence:
    """Two inputs, two outputs that lag behind them, and something extreme about them."""
    u = np.repeat(rng.uniform(-1, 1, (ROWS // 8, 2)), 8, axis=0)
    x = np.zeros((ROWS, 2))
    for t in range(1, ROWS):
        x[t] = x[t - 1] + 0.2 * (np.tanh(2 * u[t - 1]) - x[t - 1])
    y, time = x + 0.01 * rng.standard_normal(x.shape), None
    if kind == "huge":
        u, y = 1e12 * u, 1e15 * y
    elif kind == "tiny":
        u, y = 1e-12 * u, 1e-15 * y
    elif kind == "offset":
        u, y = 1e9 + u, 1e9 + y
    elif kind == "spike":
        y[rng.integers(ROWS, size=3)] *= 1e8
        u[rng.integers(ROWS)] *= 1e6
    elif kind == "sparse":
        y[rng.random(y.shape) < 0.95] = np.nan
        y[:3] = x[:3] + rng.standard_normal((3, 2))
    elif kind == "walk":
        y = np.cumsum(rng.standard_normal(y.shape), axis=0)
    elif kind == "two levels":
        u, y = np.sign(u), np.sign(x + 1e-9)
    elif kind == "irregular":
        time = np.cumsum(10 ** rng.uniform(-2, 2, ROWS))
    elif kind == "one spoiled":
        y[:, 1] = 1e30 * rng.standard_cauchy(ROWS) ** 3
    return Sequence(u, y, dt=1.0, time=time)


def judge(options: dict[str, Any], data: Sequence) -> tuple[str, str]:
    """What became of a setting's fits: finite, a typed error, or silence, and what was said."""
    try:
        model = MRGPSSM(**arrange(**options)).fit(data, progress=False)
        run = model.simulate(data, samples=8)
    except (ConfigError, DataError, FitError) as error:
        named = bool(PLACE.search(str(error))) and "\n" not in str(error)
        return ("typed error" if named else "error without a place"), f"{type(error).__name__}: {error}"[:300]
    except Exception as error:
        return "untyped error", f"{type(error).__name__}: {error}"[:300]
    values = [run.mean, run.std, *run.quantiles.values(), *run.components.values()]
    if not all(np.isfinite(v).all() for v in values):
        return "silent", "a simulation that is not finite"
    if not np.isfinite(np.max(model.bounds_, axis=1)).all():
        return "silent", "a model without a finite bound was handed out"
    return "finite", ""


def measure(config: Config) -> Outcome:
    """All settings, one after the other."""
    counts, said = Counter(), []
    for index in range(config["settings"]):
        rng = np.random.default_rng([config["seed"], index])
        options, kind = draw_options(rng, config["restarts"]), KINDS[index % len(KINDS)]
        verdict, message = judge(options, draw_data(rng, kind))
        counts[verdict] += config["restarts"]
        if verdict != "finite":
            said.append({"index": index, "data": kind, "verdict": verdict, "message": message})
            print(index, kind, verdict, message, flush=True)
    fits = config["settings"] * config["restarts"]
    silent = fits - counts["finite"] - counts["typed error"]
    figure = (
        f"{silent} silent failures in {fits:,} fits ({config['settings']} settings x {config['restarts']} starts): "
        f"{counts['finite']:,} finite, {counts['typed error']} in settings with a typed error"
    )
    return Outcome(figure, silent == 0, said[0]["message"] if silent else "", {"counts": dict(counts), "said": said})


if __name__ == "__main__":
    keep(measure, {"settings": 20, "restarts": 50, "seed": 0}, {"settings": 2})
