"""What the tests of the report show: evidence made up, of any size and with any names, and a small run on disk."""

import shutil
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from places import GOLDEN
from recordings import recording as measured_recording

from mrgpssm.cli import main
from mrgpssm.estimator.config import DataConfig, RunConfig
from mrgpssm.file import write_json
from mrgpssm.prediction.forecast import FINE_LEVELS, Forecast
from mrgpssm.prediction.learned import DriftMap, Learned, LearnedComponent
from mrgpssm.report.evidence import OtherModel, RunEvidence, SimulatedRecording, Trace, TrainingData
from mrgpssm.training import Progress
from mrgpssm.training.runs import RunDirectory

_Z = (-1.645, -1.282, -1.036, -0.842, -0.674, -0.524, -0.385, -0.253, -0.126)
NORMAL = np.array([*_Z, 0.0, *(-z for z in reversed(_Z))])  # standard normal quantiles of FINE_LEVELS


def recording(
    rng, rows: int, inputs: int, outputs: int, name: str, parts: int, even: bool = True
) -> SimulatedRecording:
    """Slow and fast waves with noise of the deviation that the forecast says."""
    time = 0.1 * np.arange(rows)
    drive = np.sin(time[:, None] / (3 + np.arange(inputs))) + 0.3 * rng.standard_normal((rows, inputs))
    waves = [np.sin(time[:, None] / 10.0 ** (1 - k) + np.arange(outputs)) / (1 + k) for k in range(parts)]
    mean = 5 + np.sum(waves, axis=0)
    std = np.full_like(mean, 0.1)
    measured = mean + 0.1 * rng.standard_normal(mean.shape)
    run = Forecast(
        time=time,
        mean=mean,
        std=std,
        quantiles={q: mean + z * std for q, z in zip(FINE_LEVELS, NORMAL, strict=True)},
        components={f"component_{k + 1}": w for k, w in enumerate(waves)},
        offset=np.full(outputs, 5.0),
        output_names=tuple(f"y{k}" for k in range(outputs)),
        units={},
        alarm=np.linspace(0.1, 2.5, rows),
    )
    return SimulatedRecording(name, time, drive, measured, run, even)


def trace(resolutions: int, members: int, cycles: int = 3) -> Trace:
    """A bound that climbs."""
    rows = cycles * resolutions * 4
    done = np.arange(1, rows + 1)
    component = 1 + ((done - 1) // 4) % resolutions
    cycle = 1 + (done - 1) // (4 * resolutions)
    bound = 100 * np.log(done)[:, None] * np.ones(members)
    return Trace(component, cycle, done, rows, bound, np.full_like(bound, 30.0))


def evidence(
    rows: int = 400,
    inputs: tuple[str, ...] = ("u1", "u2"),
    outputs: tuple[str, ...] = ("NOx", "Temp"),
    names: tuple[str, ...] = ("a.csv", "b.csv"),
    resolutions: tuple[int, ...] = (30, 1),
    restarts: int = 3,
    **more,
) -> RunEvidence:
    """All that a report can show; `more` replaces fields."""
    rng = np.random.default_rng(0)
    count = len(outputs)
    found = tuple(recording(rng, rows, len(inputs), count, name, len(resolutions)) for name in names)
    parts = tuple(
        LearnedComponent(rng.uniform(0.5, 3, 2 + len(inputs)), rng.standard_normal((2, len(inputs))))
        for _ in resolutions
    )
    grid = np.linspace(-1, 1, 11)
    drift = tuple(
        DriftMap(k, r, 0, grid, grid, grid[:, None] - grid[None, :], rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (50, 2)))
        for k in range(count)
        for r in resolutions
    )  # fmt: skip
    learned = Learned(
        tuple((k,) for k in range(count)), (parts,) * count, drift, rng.uniform(100, 200, (count, restarts))
    )
    everything = np.concatenate([r.inputs for r in found])
    fields = {
        "name": "exhibit",
        "input_names": inputs,
        "drive_names": inputs,
        "output_names": outputs,
        "units": {outputs[0]: "ppm"},
        "dt": 0.1,
        "options": {"resolutions": list(resolutions), "restarts": restarts, "joint": False, "seed": 0},
        "recordings": found,
        "learned": learned,
        "training": TrainingData(("t.csv",), (rows,), 0.9 * everything, np.concatenate([r.measured for r in found])),
        "trace": trace(len(resolutions), count * restarts),
        "rivals": (OtherModel("other", (5,), {outputs[0]: 0.3}), OtherModel("third", (1,), {outputs[0]: 0.1}),
                   OtherModel("fourth", (5, 1), {outputs[0]: 0.4})),
        "packages": {"jax": "0.0"},
        "config": "[data]\n",
        "commands": ("mrgpssm report run",),
    }  # fmt: skip
    return RunEvidence(**(fields | more))  # pyright: ignore[reportArgumentType]


def write_tables(root: Path) -> None:
    """Three recordings as tables."""
    for seed in range(3):
        s = measured_recording(seed)
        columns = np.concatenate([s.inputs, s.outputs], axis=1)
        pd.DataFrame(columns, columns=pd.Index([*s.input_names, *s.output_names])).to_csv(
            root / f"{seed}.csv", index=False
        )


def small_run(root: Path) -> Path:
    """The folder of a finished run, around the golden model; its files lie beside it."""
    write_tables(root)
    run = RunDirectory(root / "first run")
    run.root.mkdir()
    shutil.copy(GOLDEN, run.model)
    data = DataConfig((str(root / "0.csv"),), ("speed", "load"), ("NOx", "Temp"), None, 0.1)
    run.config.write_text(RunConfig(data).to_toml())
    write_json(run.identity, {"options": {"resolutions": [3, 1]}, "packages": {"jax": "0"}, "fingerprint": ""})
    write_json(run.metrics, {"validation": {"NOx": {"rmse": 0.5}, "Temp": {"rmse": 0.4}}})
    for done in range(1, 9):
        four = np.full(4, 10.0 * done)
        run.note(Progress((done - 1) % 2, (done - 1) // 4, 1, four, four / 5, four, np.zeros(4, int), done, 8))
    return run.root


def call(*words: str) -> None:
    """A command that must succeed."""
    with mock.patch.object(sys, "argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
