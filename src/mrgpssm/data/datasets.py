"""The named datasets: facts, sources, file locations and loading."""

import difflib
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrgpssm.arrays.cache import user_cache
from mrgpssm.data.classic import halves, read_table
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError
from mrgpssm.file import open_regular

ROOT_VARIABLE = "MRGPSSM_DATA"


@dataclass(frozen=True)
class Dataset:
    """Facts about one dataset.

    `source` is the download address of its files, or None if no address is known. `homepage` is a page for people.
    `files` maps each file to its SHA-256, or to None if it is unknown. `folder` is where downloads go, below the data
    root. `variables` names the inputs, then the outputs, inside a `.mat` file.
    """

    name: str
    title: str
    licence: str
    homepage: str
    source: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dt: float
    files: Mapping[str, str | None]
    description: str
    folder: str
    variables: tuple[str, ...] = ()
    header: bool = False

    def __post_init__(self):
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise DataError(f"A dataset's name has lower-case letters, digits, - and _ only; got {self.name!r}.")
        for part in (*self.files, *self.folder.split("/")):
            if part in ("", ".", "..") or re.search(r"[/\\:\x00]", part):
                raise DataError(
                    f"{self.name}: {part!r} is not a plain file or folder name; files stay inside the data root."
                )


_BOSCH = "https://github.com/boschresearch/Bosch-Engine-Datasets"
_BOSCH_RAW = (
    "https://raw.githubusercontent.com/boschresearch/Bosch-Engine-Datasets/a6b69548d6dd2f07a2d157c321e77b0c16074096"
)
_RGP = "https://github.com/zhenwendai/RGP/tree/master/datasets/system_identification"
_RGP_RAW = "https://raw.githubusercontent.com/zhenwendai/RGP"
_RGP_FILES = f"{_RGP_RAW}/e55e66d36692a5163f2091bae695a7c6f7d623e8/datasets/system_identification/"
_BSD = "BSD-3-Clause, as the repository zhenwendai/RGP distributes it"
_DAISY = "http://homes.esat.kuleuven.be/~smc/daisy/daisydata.html"
_HALVES = "First half trains, second half tests, free run, RMSE in original units."
_GENGINE2_SHA256 = {
    1: "49386a210d2ffc8c7e91605840f3f965d35ac05f52e82e1d557e520163e05dc4",
    3: "19dd105780dfc7ea8a8ef96a3d600b991b64f146f853e8c5ba65da3cd50c32f7",
    4: "279fbc4c32764833b9bf368b1b2c7f9a9a935d7d6774fc3810c296c38db07723",
    6: "ad1766bb36587c1fe1fce2509255c5dfb1e4412412b69ea6334945fa0200334b",
    7: "2618d9bc0fdb3e12e87d32e3a91a9983dfc1b1836d49eeb3e0f1b862ac677720",
    8: "0cc8794f503eea2f560baa102b2857620bba74e63990a1e59f75e5299d188584",
    10: "c9133e9e48fdf0ddd1c848ecb996f12a16a5adad08d5a407fce6bd949834e111",
    11: "ec4fe43da4f5d9064ce273466c4ac87826e155bb17fef799d73aaf859f167b27",
    12: "f1f54edfc4ab6f9be03baf6165e0a0874753b842fa53b45ec1614bdba1b8fed7",
    15: "bacd1d34671aafccd4761d05757da477b934aab1488464a3baf61e33dc374a93",
    17: "c638ce3764d40528846014c2f8cdf329d927324645f4b38a520f004f89d556ef",
    19: "5e8b4925f649dbdb02f9fd945831d6787294f820a40c3616113107bd4433dd7d",
    21: "b0831c0277c1866ab4eb21addac26e14bd09ff31e28fe01f237e7afff33247f5",
}


def measurement_file(number: int) -> str:
    """The file of one measurement of an engine set."""
    return f"raw_{number:06d}_measurement_000000.csv"


def _engine(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], numbers, known: dict, text: str) -> Dataset:
    return Dataset(
        name=name,
        title=f"Bosch gasoline engine, {name}",
        licence="CC BY-SA 4.0",
        homepage=_BOSCH,
        source=f"{_BOSCH_RAW}/{name}/",
        inputs=inputs,
        outputs=outputs,
        dt=0.1,
        files={measurement_file(n): known.get(n) for n in numbers},
        description=text,
        folder=f"bosch-engine/{name}",
    )


def _single(name, title, names, dt, file, sha256, text, licence=_BSD, homepage=_RGP, source=None, **more) -> Dataset:
    (u, y), description = names, f"{text} {_HALVES}"
    return Dataset(name, title, licence, homepage, source, (u,), (y,), dt, {file: sha256}, description, "sysid", **more)


_ALL = (
    _engine(
        "gengine1",
        ("speed", "load", "lambda", "ignition", "fuel_cutoff"),
        ("PN", "CO", "CO2", "HC", "NOx", "O2", "Temp", "TempCat"),
        (*range(10, 20), *range(30, 40), *range(53, 66)),
        {},
        "33 measurements, standardised, 10 Hz, no header. Column order and the 13 columns of measurement 10 were read "
        "in the publisher's repository; no file of this set has a checksum here.",
    ),
    _engine(
        "gengine2",
        ("speed", "load", "lambda", "ignition"),
        ("PN", "HC", "NOx", "Temp", "TempCat"),
        range(22),
        _GENGINE2_SHA256,
        "22 measurements of raw emissions, standardised, 10 Hz, no header; Temp is the exhaust manifold, TempCat the "
        "catalyst. The MR-GPSSM paper uses PN, HC, NOx and Temp. 13 of the files have a checksum here.",
    ),
    _single(
        name="actuator",
        title="Hydraulic actuator",
        source=_RGP_FILES,
        names=("valve", "pressure"),
        dt=1.0,
        file="actuator.mat",
        sha256=None,
        text="1024 rows: valve opening in, oil pressure out (variables u and p). Not verified against a file. The "
        "sampling time is not known: dt = 1 counts samples.",
        variables=("u", "p"),
    ),
    _single(
        name="ballbeam",
        title="Ball and beam",
        names=("angle", "position"),
        dt=0.1,
        file="ballbeam.dat",
        sha256="e9c48a4f7474953969d4950b4ef72558084b1995f776792ac0cbc80550e6ff42",
        text="1000 rows, 0.1 s: beam angle in, ball position out.",
    ),
    _single(
        name="drive",
        title="Coupled electric drives",
        licence="not stated",
        homepage="https://github.com/boschresearch/PR-SSM",
        names=("voltage", "speed"),
        dt=0.02,
        file="drive.mat",
        sha256=None,
        text="500 rows, 0.02 s (the period of the published coupled-drives recordings): drive voltage in, pulley speed "
        "without its sign out (variables u1 and z1). Not verified against a file.",
        variables=("u1", "z1"),
    ),
    _single(
        name="dryer",
        title="Hair dryer",
        homepage=_DAISY,
        source=f"{_RGP_RAW}/82af4d9d574ebdfa743f68a4250c4176ea91880e/benchmarks/system_identification/datasets/",
        names=("heating", "temperature"),
        dt=0.08,
        file="dryer.dat",
        sha256="adcb2f5a1d9e174d08dd49f7f037626745b5e69cbda0bc1e8dca2a7c687d4538",
        text="1000 rows, 0.08 s: voltage of the heater in, air temperature out.",
    ),
    _single(
        name="gas_furnace",
        title="Gas furnace of Box and Jenkins",
        source=_RGP_FILES,
        names=("gas_rate", "CO2"),
        dt=9.0,
        file="gas_furnace.csv",
        sha256="ce46e11490a11ac254a959d42d5858f66b3c8013a1b667e553b3d890c67e4d43",
        text="296 rows, 9 s: gas rate in, CO2 of the outlet gas out.",
        header=True,
    ),
)
DATASETS: dict[str, Dataset] = {entry.name: entry for entry in _ALL}


def dataset(name: str) -> Dataset:
    """The dataset of that name."""
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(str(name), DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DataError(f"There is no dataset {name!r}; {hint}known are {', '.join(DATASETS)}.")


def data_root(root: str | Path | None = None) -> Path:
    """The folder of all data: the argument, else the variable MRGPSSM_DATA, else the user's cache folder."""
    chosen = root if root is not None else os.environ.get(ROOT_VARIABLE) or None
    return user_cache() if chosen is None else Path(chosen).expanduser()


def find_file(entry: Dataset, file: str, root: str | Path | None = None) -> Path | None:
    """The path of a file, or None. It may be in the dataset's folder, in a folder of its name, or in the root."""
    if file not in entry.files:
        raise DataError(f"{entry.name} has no file {file!r}; its files are named like {next(iter(entry.files))}.")
    top = data_root(root)
    places = [top / entry.folder, top / entry.name]
    if top.name == entry.name or top.name not in DATASETS:  # the engine sets use the same file names
        places.append(top)
    return next((place / file for place in places if (place / file).is_file()), None)


def how_to_get(entry: Dataset) -> str:
    """The end of a message about a missing file."""
    point = f"point --data-root or {ROOT_VARIABLE} at the folder that holds it"
    if entry.source is None:
        return f"get it from {entry.homepage} by hand and {point}"
    return f"run `mrgpssm data fetch {entry.name}`, or {point}"


def load_file(entry: Dataset, path: Path) -> np.ndarray:
    """The (T, D_u + D_y) table of one file of the set: inputs first, then outputs."""
    return read_table(path, len(entry.inputs) + len(entry.outputs), entry.variables, entry.header)


def load_sequence(entry: Dataset, path: Path, name: str, outputs: tuple[str, ...]) -> Sequence:
    """The recording in one file of the set, with all inputs and some of its outputs."""
    table, width = load_file(entry, path), len(entry.inputs)
    columns = [width + entry.outputs.index(output) for output in outputs]
    return Sequence(table[:, :width], table[:, columns], entry.dt, None, entry.inputs, outputs, {}, name)


def load_dataset(name: str, root: str | Path | None = None) -> dict[str, list[Sequence]]:
    """A classic set as {"train": [first half], "test": [second half]}. Use `load_engine` for the engine sets."""
    entry = dataset(name)
    if len(entry.files) != 1:
        raise DataError(f"{name} has many recordings and no halves; use load_engine with the measurements you want.")
    (file,) = entry.files
    path = find_file(entry, file, root)
    if path is None:
        raise DataError(f"{name}: {file} is not under {data_root(root)}; {how_to_get(entry)}.")
    return halves(load_sequence(entry, path, name, entry.outputs))


def describe(name: str, root: str | Path | None = None) -> list[dict[str, object]]:
    """One row per local file: its size, range, missing values, and whether its checksum is correct."""
    entry = dataset(name)
    paths = ((file, find_file(entry, file, root)) for file in entry.files)
    return [_facts(entry, file, path) for file, path in paths if path is not None]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open_regular(path, "read") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _facts(entry: Dataset, file: str, path: Path) -> dict[str, object]:
    table, known = load_file(entry, path), entry.files[file]
    seen = table[np.isfinite(table)]
    return {
        "file": file,
        "path": str(path),
        "rows": table.shape[0],
        "columns": table.shape[1],
        "min": float(seen.min()) if seen.size else None,
        "max": float(seen.max()) if seen.size else None,
        "missing": int(np.isnan(table).sum()),
        "checksum": "unknown" if known is None else "ok" if sha256(path) == known else "differs",
    }
