"""Read sequences from files, folders and tables in memory."""

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from mrgpssm.data.columns import Gaps, check_values, has_column, read_columns, read_sampling
from mrgpssm.data.readers import ENDINGS, Table, as_frame, open_table, read_table
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError
from mrgpssm.file.words import csv_name

__all__ = ["Columns", "Gaps", "as_frame", "read_sequences", "read_table"]


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what.

    Rows are at the times in the column `time` (seconds, or dates in ISO 8601), or at those in the index of a table that
    holds dates or durations, or else `dt` seconds apart, 1 s where nothing is said. Without `outputs` the sequences can
    only be simulated.

    Attributes:
        inputs: Names of the input columns.
        outputs: Names of the output columns.
        time: Name of the time column.
        dt: Seconds between rows; where there are times, what their median step must be.

    Raises:
        DataError: A name is used twice, or there is no input.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    time: str | None = None
    dt: float | None = None

    def __post_init__(self):
        for kind in ("inputs", "outputs"):
            names = getattr(self, kind)
            if isinstance(names, str):
                raise DataError(f"The {kind} must be a tuple of names; write ({names!r},) for one column.")
            object.__setattr__(self, kind, tuple(str(name) for name in names))
        if not self.inputs:
            raise DataError("Name at least one input column.")
        for kind, names in (("inputs", self.inputs), ("outputs", self.outputs)):
            repeated = [name for name in names if names.count(name) > 1]
            if repeated:
                raise DataError(f"Column {repeated[0]!r} is named twice among the {kind}; name every column once.")
        both = [name for name in self.inputs if name in self.outputs]
        if both:
            raise DataError(f"Column {both[0]!r} is both an input and an output; choose one.")
        if self.time in (*self.inputs, *self.outputs):
            kind = "input" if self.time in self.inputs else "output"
            raise DataError(
                f"Column {self.time!r} is both the time and an {kind}; copy it under another name, or drop it."
            )
        if self.dt is not None and not (np.isfinite(self.dt) and self.dt > 0):
            raise DataError(f"dt must be a positive number of seconds; got {self.dt}.")


def read_sequences(
    sources: Any, columns: Columns, *, gaps: Gaps = "split", outputs_required: bool = True
) -> list[Sequence]:
    """Sequences from a file, a folder, a glob pattern, a table in memory, or a list of these.

    One file or table is one recording. Where its time has a gap, a step of more than 1.5 dt, it is split there
    ("split"), keeps its times as they are ("irregular"), or is an error ("refuse"). Missing outputs become NaN; with
    `outputs_required=False` so do output columns that a table does not have.

        read_sequences("logs/*.csv", Columns(inputs=("speed", "load"), outputs=("NOx",), time="t"))

    Args:
        sources: Path, folder, pattern, DataFrame, mapping of names to arrays, or a list of these.
        columns: Which columns are what.
        gaps: What a gap in time does.
        outputs_required: Whether every table must have all output columns.

    Returns:
        One sequence for each recording, or for each piece of it.

    Raises:
        DataError: A file, a column or a value cannot be used; the message names file, column, row and line.
    """
    if gaps not in get_args(Gaps):
        raise DataError(f"gaps must be one of {', '.join(get_args(Gaps))}; got {gaps!r}.")
    if outputs_required and not columns.outputs:
        raise DataError("Name at least one output column, or read with outputs_required=False to simulate only.")
    return [s for table in _tables(sources, columns) for s in _sequences(table, columns, gaps, outputs_required)]


# Where tables come from


def _tables(sources: Any, columns: Columns) -> Iterator[Table]:
    many = isinstance(sources, list | tuple)
    if many and not sources:
        raise DataError("The list of tables is empty; give at least one file or table.")
    wanted = [*columns.inputs, *columns.outputs, *([columns.time] if columns.time else [])]
    for index, source in enumerate(sources if many else [sources], 1):
        if isinstance(source, str | Path):
            for path in _files(source):
                yield open_table(path, wanted)
        else:
            name = f"table {index}" if many else "table"
            yield Table(as_frame(source, name), name)


def _files(source: str | Path) -> list[Path]:
    """The file itself, or the readable files of a folder or pattern, sorted by name."""
    path = Path(source).expanduser()
    if path.is_dir():
        found, place = path.iterdir(), f"The folder {path}"
    elif not path.exists() and glob.has_magic(str(path)):
        found, place = map(Path, glob.glob(str(path), recursive=True)), f"The pattern {path}"
    else:
        return [path]
    readable = [p for p in found if p.is_file() and p.suffix.lower() in ENDINGS and not p.name.startswith(".")]
    if not readable:
        raise DataError(f"{place} has no readable file; endings that can be read are {', '.join(ENDINGS)}.")
    return sorted(readable)


# Columns


def _sequences(table: Table, columns: Columns, gaps: Gaps, outputs_required: bool) -> list[Sequence]:
    """The recording of one table, split at its gaps."""
    rows = len(table.frame)
    if rows < 2:
        raise DataError(f"{table.name}: a sequence needs at least 2 rows; got {rows}.")
    u = read_columns(table, "input", columns.inputs)
    check_values(u, "input", columns.inputs, table.name, table)
    measured = tuple(name for name in columns.outputs if outputs_required or has_column(table, name))
    y = np.full((rows, len(columns.outputs)), np.nan)
    y[:, [columns.outputs.index(name) for name in measured]] = read_columns(table, "output", measured)
    check_values(y, "output", columns.outputs, table.name, table)
    dt, time, cuts = read_sampling(table, columns.time, columns.dt, gaps)
    whole = Sequence(u, y, dt, time, columns.inputs, columns.outputs, {}, table.name)
    if not cuts:
        return [whole]
    pieces = [slice(a, b) for a, b in pairwise([0, *cuts, rows]) if b - a > 1]  # a row alone is no sequence
    return [whole.take(piece, f"{table.name}, part {k}") for k, piece in enumerate(pieces, 1)]


# Writing


def csv_bytes(table: pd.DataFrame, float_format: str | None = None) -> bytes:
    """A table as CSV in UTF-8, without its index.

    A name or a text that begins like a formula gets an apostrophe in front; `read_sequences` finds the name without it.
    """
    safe = table.rename(columns=lambda label: csv_name(str(label)))
    for place, kind in enumerate(safe.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            cells = safe.iloc[:, place].map(lambda cell: csv_name(cell) if isinstance(cell, str) else cell)
            safe.isetitem(place, cells)
    return safe.to_csv(index=False, float_format=float_format).encode("utf-8", "replace")
