"""The protocol of nonlinearbenchmark.org in one call: fit, set the state from the first rows, run freely, score.

Of a test recording only the inputs and the first n outputs are used, where n is the length of the benchmark's
initialisation window. The error is computed over the rows after it, in the unit of the benchmark's table.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.data.classic import BenchmarkRecording, from_benchmark
from mrgpssm.data.nonlinear import BENCHMARKS, fetch_official
from mrgpssm.errors import ConfigError
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.prediction.metrics import rmse

# The unit of each table, and how many of it are one unit of the data.
UNITS = {entry.loader: (entry.unit, entry.scale) for entry in BENCHMARKS.values() if entry.loader}


@dataclass(frozen=True)
class BenchmarkResult:
    """The fitted model, the simulations (T, D_y) including the measured initialisation rows, and their errors.

    The error is a list with one number per output, or a single number if there is one output.
    """

    model: MRGPSSM
    simulations: dict[str, np.ndarray]
    rmse: dict[str, float | list[float]]
    unit: str


def run_benchmark(
    benchmark: Any, model: MRGPSSM, *, samples: int = 100, seed: int = 0, progress: bool = True
) -> BenchmarkResult:
    """Run a benchmark by its name in `nonlinear_benchmarks`, or on its (train, test) recordings."""
    unit, factor = "the data's unit", 1.0
    if isinstance(benchmark, str):
        benchmark, (unit, factor) = _load(benchmark), UNITS[benchmark]
    elif not isinstance(benchmark, tuple) or len(benchmark) != 2:
        raise ConfigError("Give a benchmark's name, or a pair (train, test) of its recordings.")
    train, test = (from_benchmark(part if isinstance(part, list | tuple) else [part]) for part in benchmark)
    learned = model.fit([r.sequence for r in train], progress=progress)
    simulations, errors = {}, {}
    for name, recording in _index_by_name(test).items():
        simulations[name] = simulate(learned, recording, samples, seed)
        rows = slice(recording.initialisation, None)
        values = (factor * rmse(recording.sequence.outputs[rows], simulations[name][rows])).tolist()
        errors[name] = values[0] if len(values) == 1 else values
    return BenchmarkResult(learned, simulations, errors, unit)


def simulate(model: MRGPSSM, recording: BenchmarkRecording, samples: int, seed: int) -> np.ndarray:
    """(T, D_y): the measured outputs of the initialisation window, then the mean of the free run after it."""
    s, n = recording.sequence, recording.initialisation
    if n < 2:  # a window of one row says nothing about a state
        return np.asarray(model.simulate(s.inputs, samples=samples, seed=seed).mean, float)
    if len(s) - n < 2:
        raise ConfigError(f"{s.name}: the initialisation window of {n} rows leaves {len(s) - n} of {len(s)} to score.")
    rest = model.simulate(s.inputs[n:], warmup=(s.inputs[:n], s.outputs[:n]), samples=samples, seed=seed)
    return np.concatenate([s.outputs[:n], rest.mean])


def _load(name: str) -> tuple[Any, Any]:
    if name not in UNITS:
        raise ConfigError(f"There is no benchmark {name!r} here; choose one of {', '.join(UNITS)}.")
    return fetch_official(name)


def _index_by_name(recordings: list[BenchmarkRecording]) -> dict[str, BenchmarkRecording]:
    """Recordings by name; repeated names get a number."""
    names = [r.sequence.name for r in recordings]
    unique = [n if names.count(n) == 1 else f"{n} {i + 1}" for i, n in enumerate(names)]
    return dict(zip(unique, recordings, strict=True))
