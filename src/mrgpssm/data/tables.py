"""Users' tables as sequences: files, folders and tables in memory; which column is what; time and its gaps."""

import glob
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from mrgpssm.data.readers import ENDINGS, Table, as_frame, listing, number, open_table, read_table
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError

__all__ = ["Columns", "Gaps", "as_frame", "read_sequences", "read_table"]

Gaps = Literal["split", "irregular", "refuse"]
EVEN = 0.01  # steps that differ from dt by less than this share of it are even
GAP = 1.5  # a step longer than this many dt is a gap


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what.

    Rows are `dt` seconds apart, or at the times in the column `time` (seconds, or dates in ISO 8601); with neither they
    are 1 s apart. Without `outputs` the sequences can only be simulated.

    Attributes:
        inputs: Names of the input columns.
        outputs: Names of the output columns.
        time: Name of the time column.
        dt: Seconds between rows; with `time`, what its median step must be.

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
            raise DataError(f"Column {both[0]!r} is both an input and an output; decide for one.")
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

    One file or table is one recording. Where its time column has a gap, a step of more than 1.5 dt, it is split there
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
                table = open_table(path, wanted)
                yield Table(as_frame(table.frame, table.name), table.name, table.lines, table.decimal)
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
    """The recording of one table, in pieces where its time has gaps."""
    rows = len(table.frame)
    if rows < 2:
        raise DataError(f"{table.name}: a sequence needs at least 2 rows; got {rows}.")
    u = _matrix([_numbers(table, "input", name) for name in columns.inputs], rows)
    _check_inputs(u, columns.inputs, table)
    have = {str(label) for label in table.frame.columns}
    y = _matrix(
        [
            _numbers(table, "output", name) if outputs_required or name in have else np.full(rows, np.nan)
            for name in columns.outputs
        ],
        rows,
    )
    _check_outputs(y, columns.outputs, table)
    dt, time, cuts = _sampling(table, columns, gaps)
    edges = [0, *cuts, rows]
    pieces = [slice(a, b) for a, b in pairwise(edges) if b - a > 1]  # a row alone is no sequence
    names = [table.name] if not cuts else [f"{table.name}, part {k + 1}" for k in range(len(pieces))]
    return [
        Sequence(u[p], y[p], dt, None if time is None else time[p], columns.inputs, columns.outputs, {}, name)
        for p, name in zip(pieces, names, strict=True)
    ]


def _matrix(columns: list[np.ndarray], rows: int) -> np.ndarray:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def _column(table: Table, kind: str, name: str) -> pd.Series:
    """The one column of that name; a name that is not there gets the nearest one that is."""
    labels = [str(label) for label in table.frame.columns]
    if labels.count(name) > 1:
        raise DataError(
            f"{table.name}: {kind} column {name!r} occurs {labels.count(name)} times; give every column its own name."
        )
    if name not in labels:
        lowered = {label.lower(): label for label in reversed(labels)}
        near = get_close_matches(name.lower(), lowered, n=1)
        hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
        raise DataError(f"{table.name}: {kind} column {name!r} is missing; the table has {listing(labels)}.{hint}")
    return table.frame.iloc[:, labels.index(name)]


def _numbers(table: Table, kind: str, name: str) -> np.ndarray:
    """(T,) floats of a column of numbers or true and false; NaN where a value is missing."""
    column = _column(table, kind, name)
    plain = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)
    if plain:  # true and false are numbers too
        return column.to_numpy(dtype=float, na_value=np.nan)
    values = [_number(value, table) for value in column]
    bad = next((row for row, value in enumerate(values) if value is None), None)
    if bad is not None:
        raise DataError(
            f"{table.name}: {kind} column {name!r} holds {_shown(column.iloc[bad])} in {table.row(bad)}, which is no "
            "real number; correct it, or leave the cell empty where the value is missing."
        )
    return np.array(values, dtype=float)


def _number(value: object, table: Table) -> float | None:
    """One cell as a number, NaN where missing, None where it is neither; only text files hold numbers as text."""
    if value is None or value is pd.NA or value is pd.NaT:
        return np.nan
    if isinstance(value, numbers.Real | np.bool_):
        return float(value)
    return number(value, table.decimal) if isinstance(value, str) and table.lines is not None else None


def _shown(value: object, most: int = 40) -> str:
    text = " ".join((repr(value) if isinstance(value, str) else str(value)).split())
    return text if len(text) <= most else text[:most] + "..."


def _check_inputs(u: np.ndarray, names: tuple[str, ...], table: Table) -> None:
    bad = ~np.isfinite(u)
    if bad.any():
        row, k = (int(i) for i in np.argwhere(bad)[0])
        what = "missing" if np.isnan(u[row, k]) else "infinite"
        raise DataError(
            f"{table.name}: input column {names[k]!r} is {what} in {table.row(row)} ({int(bad.sum())} such values); "
            "fill or cut missing inputs before fitting."
        )


def _check_outputs(y: np.ndarray, names: tuple[str, ...], table: Table) -> None:
    if np.isinf(y).any():
        row, k = (int(i) for i in np.argwhere(np.isinf(y))[0])
        raise DataError(
            f"{table.name}: output column {names[k]!r} is infinite in {table.row(row)}; mark missing outputs as NaN."
        )


# Time


def _sampling(table: Table, columns: Columns, gaps: Gaps) -> tuple[float, np.ndarray | None, list[int]]:
    """dt, the times where they are uneven, and the rows before which the recording is split."""
    if columns.time is None:
        return (1.0 if columns.dt is None else float(columns.dt)), None, []
    time = _seconds(table, columns.time)
    steps = np.diff(time)
    dt = _step(steps, table, columns, gaps)
    uneven, gap = np.abs(steps - dt) > EVEN * dt, steps > GAP * dt
    if not uneven.any():
        return dt, None, []
    if gaps == "irregular":
        return dt, time, []
    jitter = uneven & ~gap
    if jitter.any():
        raise DataError(
            f"{_step_at(table, columns.time, steps, jitter)} and dt is {dt:g} s; use gaps='irregular', resample to "
            "even steps, or leave out the time column and give dt."
        )
    if gaps == "refuse":
        raise DataError(
            f"{_step_at(table, columns.time, steps, gap)}, a gap, since dt is {dt:g} s; fill it, or use gaps='split' "
            "or gaps='irregular'."
        )
    return dt, None, [int(row) + 1 for row in np.flatnonzero(gap)]


def _step_at(table: Table, name: str, steps: np.ndarray, which: np.ndarray) -> str:
    row = int(np.argmax(which))
    return f"{table.name}: time column {name!r} steps by {steps[row]:g} s to {table.row(row + 1)}"


def _step(steps: np.ndarray, table: Table, columns: Columns, gaps: Gaps) -> float:
    """The median step, or the given dt where the time column agrees.

    Even sampling agrees within 1 %. Irregular sampling has no one step: there dt must lie among the steps.
    """
    median = float(np.quantile(steps, 0.5, method="lower"))  # one of the steps, so that some step is no gap
    if columns.dt is None:
        return median
    low, high = (steps.min(), steps.max()) if gaps == "irregular" else (median, median)
    if not (1 - EVEN) * low <= columns.dt <= (1 + EVEN) * high:
        raise DataError(
            f"{table.name}: dt = {columns.dt:g} s was given, but the median step of time column {columns.time!r} is "
            f"{median:g} s; correct dt, leave it out, or check that the times are in seconds."
        )
    return float(columns.dt)


def _seconds(table: Table, name: str) -> np.ndarray:
    """(T,) increasing times in seconds: numbers as they are, dates since the first row."""
    column = _column(table, "time", name)
    time = _numbers(table, "time", name) if _counts(column, table) else _elapsed(column, table, name)
    place = f"{table.name}: time column {name!r}"
    if not np.isfinite(time).all():
        row = int(np.argmax(~np.isfinite(time)))
        raise DataError(f"{place} is missing or infinite in {table.row(row)}; cut such rows, or leave out the column.")
    steps = np.diff(time)
    if not (steps > 0).all():
        row = int(np.argmax(~(steps > 0))) + 1
        what = "repeats the time before it" if steps[row - 1] == 0 else "goes back"
        raise DataError(f"{place} {what} in {table.row(row)}; sort the rows, drop duplicates, or give one file a run.")
    return time


def _counts(column: pd.Series, table: Table) -> bool:
    """Whether the times are numbers, as the first of them shows."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return True
    if column.dtype.kind in "mM":
        return False
    first = next(iter(column.dropna()), None)
    return first is not None and _number(first, table) is not None


def _elapsed(column: pd.Series, table: Table, name: str) -> np.ndarray:
    """Seconds since the first row of dates or durations; without a time zone they are taken as they stand."""
    moments = column
    if column.dtype.kind not in "mM":
        column = column.map(lambda cell: cell.strip() if isinstance(cell, str) else cell).astype(object)
        moments = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
        bad = np.flatnonzero(moments.isna() & column.notna())
        if len(bad):
            raise DataError(
                f"{table.name}: time column {name!r} holds {_shown(column.iloc[bad[0]])} in {table.row(int(bad[0]))}, "
                "which is neither a number of seconds nor a date such as 2024-05-31 12:00:00; rewrite it so."
            )
    if not moments.notna().any():
        return np.full(len(moments), np.nan)
    return (moments - moments.dropna().iloc[0]).dt.total_seconds().to_numpy(dtype=float, na_value=np.nan)
