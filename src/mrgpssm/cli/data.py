"""`mrgpssm data list | describe | fetch | example`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from mrgpssm.cli.flags import Json
from mrgpssm.cli.show import print_json, print_rows, say
from mrgpssm.data.datasets import DATASETS, dataset, describe
from mrgpssm.data.fetch import fetch
from mrgpssm.data.synthetic import engine_like
from mrgpssm.data.tables import csv_bytes
from mrgpssm.errors import ConfigError
from mrgpssm.file import write_atomic

app = typer.Typer(help="Named datasets.", no_args_is_help=True, rich_markup_mode=None)
_Root = Annotated[Path | None, typer.Option(help="Folder of the data; else MRGPSSM_DATA, else the user's cache.")]
_Name = Annotated[str, typer.Argument(help="A name from `mrgpssm data list`.")]


@app.command("list")
def list_datasets(data_root: _Root = None, as_json: Json = False) -> None:
    """List the named datasets and how many of their files are on this machine."""
    rows = [(name, d.title, len(describe(name, data_root)), len(d.files)) for name, d in DATASETS.items()]
    if as_json:
        print_json({name: {"title": title, "present": present, "files": count} for name, title, present, count in rows})
        return
    cells = [[name, title, f"{present} of {count}"] for name, title, present, count in rows]
    print_rows("Datasets", ["name", "what", "files at hand"], cells)


@app.command("describe")
def describe_dataset(name: _Name, data_root: _Root = None, as_json: Json = False) -> None:
    """Describe a dataset and its files on this machine."""
    found, files = dataset(name), describe(name, data_root)
    if as_json:
        about: dict[str, Any] = {key: getattr(found, key) for key in ("title", "licence", "homepage", "dt")}
        about |= {"inputs": list(found.inputs), "outputs": list(found.outputs)}
        print_json({"name": name, "files": files} | about)
        return
    for line in (found.title, *found.description.splitlines(), f"Licence: {found.licence}", f"Home: {found.homepage}"):
        say(line)
    say(f"Inputs: {', '.join(found.inputs)}")
    say(f"Outputs: {', '.join(found.outputs)}")
    say(f"Step: {found.dt:g} s")
    rows = [[f["file"], f"{f['rows']:,}", str(f["missing"]), str(f["checksum"])] for f in files]
    print_rows(f"{len(files)} of {len(found.files)} files at hand", ["file", "rows", "missing", "checksum"], rows)


@app.command("fetch")
def fetch_dataset(
    name: _Name,
    data_root: _Root = None,
    only: Annotated[list[str] | None, typer.Option(help="File names; repeat for more.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Another place to download from.")] = None,
) -> None:
    """Download missing files; known checksums are verified."""
    paths = fetch(name, data_root, base_url, only, lambda line: say(line, err=True))
    say(f"{len(paths)} files of {name} are at hand.")


@app.command("example")
def example_files(
    folder: Annotated[Path, typer.Argument(help="Where to write them; made if it is not there.")],
    rows: Annotated[int, typer.Option(min=100, help="Rows of each file, 0.1 s apart.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the recordings.")] = 0,
) -> None:
    """Write five CSV recordings of a made-up engine: three for training, one for validation, one for testing.

    Columns are t (seconds), the inputs speed, load, lambda and ignition, and the outputs NOx and Temp.
    """
    names = ("train-1.csv", "train-2.csv", "train-3.csv", "validation.csv", "test.csv")
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise ConfigError(f"{folder / there[0]} is there already; name another folder, or delete it.")
    for number, name in enumerate(names):
        s = engine_like(seed=len(names) * seed + number, length=rows)
        values = np.column_stack([s.dt * s.clock(), s.inputs, s.outputs])
        table = pd.DataFrame(values, columns=["t", *s.input_names, *s.output_names])
        write_atomic(folder / name, csv_bytes(table, "%.6g"))
    say(f"Wrote {', '.join(names)} to {folder}.")
