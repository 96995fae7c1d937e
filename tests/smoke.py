"""What every supported set of packages must be able to do, in about a minute: `python tests/smoke.py FOLDER`.

Fits tiny models, saves and loads them, simulates in JAX and in NumPy, and goes through the command line. `floors.py`
runs it with the oldest packages that pyproject.toml allows.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrgpssm import MRGPSSM, Columns, load, read_sequences, runtime
from mrgpssm.spec import arrange

TINY: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "window": 6, "buffer": 1, "cycles": 1, "steps": 5,
                        "folds": 0}  # fmt: skip


def make_tables(folder: Path) -> list[str]:
    """Four recordings of a first-order lag, as CSV files."""
    paths = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        u, y = np.repeat(rng.standard_normal(40), 10), np.zeros(400)
        for k in range(399):
            y[k + 1] = 0.9 * y[k] + 0.1 * u[k]
        table = pd.DataFrame({"t": 0.1 * np.arange(400), "u": u, "y": y + 0.01 * rng.standard_normal(400)})
        paths.append(str(folder / f"{seed}.csv"))
        table.to_csv(paths[-1], index=False)
    return paths


def try_python(paths: list[str], folder: Path) -> None:
    """In float64, with learned noise, and back from a file. The command line has float32."""
    data, path = read_sequences(paths, Columns(("u",), ("y",), "t")), folder / "m.mrgpssm"
    parts: dict[str, Any] = {"folds": 2, "noise": "student", "precision": "float64"}
    model = MRGPSSM((3, 1), **arrange(**TINY, **parts)).fit(data, progress=False)
    assert np.isfinite(model.score(data, samples=10)["rmse"].to_numpy()).all()
    model.save(path)
    inputs = data[0].inputs
    run = load(path).simulate(inputs, samples=10)
    np.testing.assert_array_equal(run.mean, model.simulate(inputs, samples=10).mean)
    np.testing.assert_allclose(runtime.load(path).simulate_mean(inputs), model.simulate_mean(inputs), atol=1e-6)


def try_commands(paths: list[str], folder: Path) -> None:
    """fit, evaluate, simulate, export and report; and a usage error, which is one line."""
    tiny = [word for key, value in TINY.items() for word in (f"--{key}", str(value))]
    columns = ["--inputs", "u", "--outputs", "y", "--time", "t"]
    files = [word for path in paths[:3] for word in ("--data", path)]
    run, test = str(folder / "run"), paths[3]
    commands = [
        ["fit", *files, *columns, *tiny, "--resolutions", "3,1", "--validation", test, "--run-dir", run, "--quiet"],
        ["evaluate", run, test, "--time", "t"],
        ["simulate", run, test, "--time", "t", "--out", str(folder / "simulated.csv")],
        ["export", run, "--out", str(folder / "model.c")],
        ["report", run, "--out", str(folder / "report.html")],
        ["suggest", test, *columns],
        ["fit", "--help"],
    ]
    for words in commands:
        done = subprocess.run([sys.executable, "-m", "mrgpssm", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"mrgpssm {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    wrong = [sys.executable, "-m", "mrgpssm", "fit", "--no-such-flag"]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def main() -> None:
    """Try it all in the folder given."""
    folder = Path(sys.argv[1])
    paths = make_tables(folder)
    try_python(paths, folder)
    try_commands(paths, folder)
    print("ok")


if __name__ == "__main__":
    main()
