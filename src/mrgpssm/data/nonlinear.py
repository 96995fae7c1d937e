"""The sets of nonlinearbenchmark.org: where their files are, how these are laid out, and the official splits.

A model learns from the training recordings alone and then runs freely over every test recording. Of that it sees the
inputs and the first n outputs, which set its state and are not scored.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.io import loadmat

from mrgpssm.data.classic import BenchmarkRecording, from_benchmark
from mrgpssm.data.datasets import ROOT_VARIABLE, data_root
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError, MissingPackageError, need

HOMEPAGE = "https://www.nonlinearbenchmark.org"
Signals = dict[str, np.ndarray]


@dataclass(frozen=True)
class BenchmarkSplit:
    """Recordings to learn from, and recordings to be judged on, each with the rows that set the state."""

    train: list[Sequence]
    tests: list[BenchmarkRecording]


@dataclass(frozen=True)
class Benchmark:
    """One set: its title, the unit of its errors, the names that each of its files may have, and how these are read.

    `loader` is its function in the package `nonlinear_benchmarks`, where that has an official split; `tests` names the
    test recordings that this returns, and `scale` brings them to the unit.
    """

    title: str
    unit: str
    files: tuple[tuple[str, ...], ...]
    read: Callable[[list[Path]], BenchmarkSplit]
    loader: str = ""
    tests: tuple[str, ...] = ("test",)
    scale: float = field(default=1.0, kw_only=True)


def load_benchmark(name: str, root: str | Path | None = None) -> BenchmarkSplit:
    """Training and test recordings of a set, from files anywhere below the root, or by `nonlinear_benchmarks`.

    Raises:
        DataError: There is no such set, or a file is missing or has another layout.
    """
    entry = find_benchmark(name)
    top = data_root(root)
    found = [_find(top, names) for names in entry.files]
    if all(found):
        try:
            return entry.read([path for path in found if path is not None])
        except DataError:
            raise
        except (ValueError, IndexError, OSError) as error:
            raise DataError(f"{found[0]}: its layout is not that of {name} ({error!s:.100}); fetch it again.") from None
    if root is None and not any(found) and entry.loader:
        with contextlib.suppress(MissingPackageError):
            return _download(entry)
    missing = next(names[0] for names, path in zip(entry.files, found, strict=True) if path is None)
    raise DataError(
        f"{name}: {missing} is nowhere under {top}; get the set from {HOMEPAGE}, and point --data-root or "
        f"{ROOT_VARIABLE} at its folder."
    )


def find_benchmark(name: str) -> Benchmark:
    """The set of that name."""
    if name not in BENCHMARKS:
        raise DataError(f"There is no benchmark {name!r}; known are {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


def _find(top: Path, names: Iterable[str]) -> Path | None:
    """The first file of one of these names."""
    return next((path for name in names for path in sorted(top.rglob(name)) if path.is_file()), None)


def fetch_official(loader: str) -> tuple[Any, Any]:
    """Training and test recordings of a function of the package `nonlinear_benchmarks`, which fetches its files."""
    package = need("nonlinear_benchmarks", "A benchmark without files needs nonlinear_benchmarks", "interop")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return getattr(package, loader)(atleast_2d=True, always_return_tuples_of_datasets=True)
    except Exception as error:  # the network fails in many ways
        said = str(error).partition("\n")[0]
        raise DataError(f"nonlinear_benchmarks could not get {loader} ({said:.100}); get its files by hand.") from None


def _download(entry: Benchmark) -> BenchmarkSplit:
    def scale(recording: BenchmarkRecording, name: str) -> BenchmarkRecording:
        s = recording.sequence
        return BenchmarkRecording(_sequence(s.inputs, entry.scale * s.outputs, s.dt, name), recording.initialisation)

    train, tests = (from_benchmark(list(some)) for some in fetch_official(entry.loader))
    learned = [scale(r, r.sequence.name).sequence for r in train]
    return BenchmarkSplit(learned, [scale(r, name) for r, name in zip(tests, entry.tests, strict=True)])


def _read(path: Path, names: Iterable[str]) -> Signals:
    """Named signals of a CSV or MATLAB file; a file that lacks one is refused."""
    try:
        content = pd.read_csv(path) if path.suffix.lower() == ".csv" else loadmat(path)
    except Exception as error:  # foreign bytes: the readers fail in as many ways as files can be broken
        raise DataError(f"{path}: cannot be read ({str(error).partition(chr(10))[0]:.100}); fetch it again.") from None
    missing = [name for name in names if name not in content]
    if missing:
        raise DataError(f"{path}: holds no {missing[0]!r}; is it another set's file?")
    return {name: np.asarray(content[name], float) for name in names}


def _sequence(u: np.ndarray, y: np.ndarray, dt: float, name: str) -> Sequence:
    """A recording of signals (T,) or (T, D)."""
    return Sequence(u.reshape(len(u), -1), y.reshape(len(y), -1), dt, name=name)


def _tanks(paths: list[Path]) -> BenchmarkSplit:
    signals = _read(paths[0], ("uEst", "yEst", "uVal", "yVal"))
    train, test = (
        _sequence(signals[f"u{part}"].ravel(), signals[f"y{part}"].ravel(), 4.0, name)
        for part, name in (("Est", "estimation"), ("Val", "test"))
    )
    return BenchmarkSplit([train], [BenchmarkRecording(test, 50)])


def _drives(paths: list[Path]) -> BenchmarkSplit:
    signals = _read(paths[0], ("u11", "z11", "u12", "z12"))
    both = [_sequence(signals[f"u1{k}"].ravel(), signals[f"z1{k}"].ravel(), 0.02, f"z1{k}") for k in (1, 2)]
    tests = [BenchmarkRecording(s.take(slice(400, 500), s.name), 10) for s in both]
    return BenchmarkSplit([s.take(slice(None, 400), s.name) for s in both], tests)


_SILVERBOX = ("multisine", "arrow", "arrow, no extrapolation")


def _silverbox(paths: list[Path]) -> BenchmarkSplit:
    signals = _read(paths[0], ("V1", "V2"))
    whole = _sequence(signals["V1"].ravel(), 1000 * signals["V2"].ravel(), 1 / 610.35, "Silverbox")
    cut = 40650 + (127400 - 40650) * 3 // 4
    ranges = zip(_SILVERBOX, ((cut, 127400), (100, 40575), (100, 32100)), strict=True)
    tests = [BenchmarkRecording(whole.take(slice(*rows), name), 50) for name, rows in ranges]
    return BenchmarkSplit([whole.take(slice(40650, cut), "multisines")], tests)


def _wiener_hammerstein(paths: list[Path]) -> BenchmarkSplit:
    signals = _read(paths[0], ("uBenchMark", "yBenchMark", "fs"))
    dt = 1 / float(signals["fs"].ravel()[0])
    whole = _sequence(signals["uBenchMark"].ravel(), 1000 * signals["yBenchMark"].ravel(), dt, "Wiener-Hammerstein")
    test = BenchmarkRecording(whole.take(slice(105200, 184000), "test"), 50)
    return BenchmarkSplit([whole.take(slice(5200, 105200), "estimation")], [test])


def _positioning(paths: list[Path]) -> BenchmarkSplit:
    def recording(path: Path, name: str) -> Sequence:
        signals = {key: value.ravel() for key, value in _read(path, ("vir", "qm", "t")).items()}
        return _sequence(signals["vir"], 1000 * signals["qm"], float(signals["t"][1] - signals["t"][0]), name)

    train, test = (recording(path, name) for path, name in zip(paths, ("estimation", "pulses"), strict=True))
    return BenchmarkSplit([train], [BenchmarkRecording(test, 20)])


_F16_KINDS = {"FullMSine": "multisine", "SineSw": "sweep"}
_F16_FILES = tuple(
    (f"F16Data_{kind}_Level{level}{'' if level % 2 else '_Validation'}.mat",)
    for kind in _F16_KINDS
    for level in range(1, 8)
)


def _aircraft(paths: list[Path]) -> BenchmarkSplit:
    recordings = []
    for path, (kind, level) in zip(paths, ((k, n) for k in _F16_KINDS.values() for n in range(1, 8)), strict=True):
        signals = _read(path, ("Force", "Acceleration", "Fs"))
        force, acceleration = signals["Force"].ravel(), signals["Acceleration"].reshape(3, -1)
        recordings.append(
            _sequence(force, acceleration.T, 1 / float(signals["Fs"].ravel()[0]), f"{kind}, level {level}")
        )
    even = [s for s in recordings if s.name[-1] in "246"]
    return BenchmarkSplit([s for s in recordings if s.name[-1] in "1357"], [BenchmarkRecording(s, 50) for s in even])


_REALISATIONS = 4  # of the twenty of every amplitude: 20 recordings of 32,768 rows


def _parallel(paths: list[Path]) -> BenchmarkSplit:
    signals = _read(paths[0], ("uEst", "yEst", "uVal", "yVal", "uValArr", "yValArr", "fs"))
    dt = 1 / float(signals["fs"].ravel()[0])

    def recording(part: str, place: tuple[int, ...], name: str) -> Sequence:
        both = (signals[f"{channel}{part}"][(slice(None), slice(None), *place)] for channel in "uy")
        u, y = (periods.T.ravel() for periods in both)  # (N, periods): one after the other
        return _sequence(u, 1000 * y, dt, name)

    amplitudes = range(signals["uEst"].shape[3])
    train = [
        recording("Est", (k, a), f"amplitude {a + 1}, realisation {k + 1}")
        for a in amplitudes
        for k in range(min(_REALISATIONS, signals["uEst"].shape[2]))
    ]
    tests = [recording("Val", (0, a), f"amplitude {a + 1}") for a in amplitudes]
    return BenchmarkSplit(train, [BenchmarkRecording(s, 50) for s in [*tests, recording("ValArr", (), "arrow")]])


_MIRROR_LEVELS = (100, 200, 300)
_MIRROR_FILES = tuple(
    (f"{channel}_{level}mV_{part}.npy",) for level in _MIRROR_LEVELS for part in ("train", "test") for channel in "uy"
)


def _mirror(paths: list[Path]) -> BenchmarkSplit:
    """Arrays (rows, 3, realisations, periods); periods follow one another."""
    arrays = [np.load(path, allow_pickle=False) for path in paths]
    found: dict[str, list[Sequence]] = {"train": [], "test": []}
    places = ((level, part) for level in _MIRROR_LEVELS for part in ("train", "test"))
    for number, (level, part) in enumerate(places):
        u, y = arrays[2 * number : 2 * number + 2]
        if u.ndim != 4 or u.shape != y.shape:
            raise DataError(f"{paths[2 * number]}: must hold rows x 3 x realisations x periods, as its outputs do.")
        for k in range(u.shape[2]):
            inputs, outputs = (np.concatenate(list(np.moveaxis(x[:, :, k], 2, 0))) for x in (u, y))
            found[part].append(_sequence(inputs, outputs, 1 / 6400, f"{level} mV, realisation {k + 1}"))
    return BenchmarkSplit(found["train"], [BenchmarkRecording(s, 50) for s in found["test"]])


BENCHMARKS: dict[str, Benchmark] = {
    "tanks": Benchmark(
        "Cascaded tanks",
        "V",
        (("cascaded_tanks.csv", "dataBenchmark.csv", "dataBenchmark.mat"),),
        _tanks,
        "Cascaded_Tanks",
    ),
    "coupled-drives": Benchmark(
        "Coupled electric drives, uniform inputs",
        "ticks/s",
        (("coupled_drives_uniform.csv", "DATAUNIF.csv", "DATAUNIF.MAT", "DATAUNIF.mat"),),
        _drives,
        "CED",
        ("z11", "z12"),
    ),
    "silverbox": Benchmark(
        "Silverbox",
        "mV",
        (("silverbox_SNLS80mV.mat", "SNLS80mV.mat"),),
        _silverbox,
        "Silverbox",
        _SILVERBOX,
        scale=1000,
    ),
    "wiener-hammerstein": Benchmark(
        "Wiener-Hammerstein",
        "mV",
        (("WienerHammerBenchMark.mat",),),
        _wiener_hammerstein,
        "WienerHammerBenchMark",
        scale=1000,
    ),
    "emps": Benchmark(
        "Electro-mechanical positioning",
        "mm",
        (("DATA_EMPS.mat",), ("DATA_EMPS_PULSES.mat",)),
        _positioning,
        "EMPS",
        ("pulses",),
        scale=1000,
    ),
    "f16": Benchmark("F-16 ground vibration", "m/s²", _F16_FILES, _aircraft),
    "parallel-wh": Benchmark("Parallel Wiener-Hammerstein", "mV", (("ParWHData.mat",),), _parallel),
    "mirror": Benchmark("Fine steering mirror", "as recorded", _MIRROR_FILES, _mirror),
}
