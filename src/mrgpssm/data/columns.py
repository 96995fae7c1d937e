"""Read columns and row times of a table. All user tables become arrays here.

A column is found by its name. An array has no names, so its columns are taken by position. The times are a named
column, or the index of the table if it holds dates or durations.
"""

import numbers as number_types
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from mrgpssm.data.readers import Interchange, Table, as_frame, number, unmask
from mrgpssm.errors import DataError
from mrgpssm.file.words import csv_name, cut_text, listing

Gaps = Literal["split", "irregular", "refuse"]
Row = Callable[[int], str]  # a row for people
EVEN = 0.01  # steps that differ from dt by less than this share of it are even
GAP = 1.5  # a step longer than this many dt is a gap


class Block(NamedTuple):
    """Columns of a table: values (T, D), their names if there are any, and the index if it holds times."""

    values: np.ndarray
    names: tuple[str, ...]
    times: pd.Index | None


class Sampling(NamedTuple):
    """dt, the row times if they are uneven, and the rows at which the recording is split."""

    dt: float
    time: np.ndarray | None
    cuts: tuple[int, ...]


def is_table(values: Any) -> bool:
    """Whether the columns have names."""
    return isinstance(values, pd.DataFrame | Mapping | Interchange)


def read_block(values: Any, wanted: tuple[str, ...], kind: str, name: str) -> Block:
    """Columns of a table by name, or of a Series or an array, as floats that share no memory with it.

    `wanted` names the columns in order; none means all. `kind` (input or output) and `name` are for messages.
    """
    wanted = tuple(str(label) for label in wanted)
    if isinstance(values, pd.Series) and values.name is None:
        table = Table(values.to_frame("values"), name)
        return Block(read_columns(table, kind, ("values",)), wanted, time_index(table))
    if not isinstance(values, pd.Series) and not is_table(values):
        return Block(_array(values, kind, name), wanted, None)
    table = Table(values.to_frame() if isinstance(values, pd.Series) else as_frame(values, name), name)
    names = wanted or tuple(str(label) for label in table.frame.columns)
    return Block(read_columns(table, kind, names), names, time_index(table))


def read_columns(table: Table, kind: str, names: tuple[str, ...]) -> np.ndarray:
    """(T, D): columns of a table by name; NaN where a value is missing."""
    columns = [numbers(table, kind, name) for name in names]
    return np.stack(columns, axis=1) if columns else np.zeros((len(table.frame), 0))


def has_column(table: Table, name: str) -> bool:
    """Whether a table has a column of that name."""
    return _label(table, name) is not None


def numbers(table: Table, kind: str, name: str) -> np.ndarray:
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


def check_values(values: np.ndarray, kind: str, names: tuple[str, ...], name: str, table: Table | None = None) -> None:
    """Refuse inputs that are not finite and outputs that are infinite; of a table the message tells the line, too."""
    bad = ~np.isfinite(values) if kind == "input" else np.isinf(values)
    if not bad.any():
        return
    row, k = (int(i) for i in np.argwhere(bad)[0])
    column, place = ("", f"row {row}") if table is None else ("column ", table.row(row))
    if kind == "output":
        raise DataError(f"{name}: output {column}{names[k]!r} is infinite in {place}; mark missing outputs as NaN.")
    what = "not finite" if table is None else "missing" if np.isnan(values[row, k]) else "infinite"
    raise DataError(
        f"{name}: input {column}{names[k]!r} is {what} in {place} ({int(bad.sum())} such values); "
        "fill or cut missing inputs before fitting."
    )


def _array(values: Any, kind: str, name: str) -> np.ndarray:
    try:
        array = np.array(unmask(values), dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {kind}s must be numbers; got {type(values).__name__} ({error}).") from None
    if array.ndim not in (1, 2):
        raise DataError(f"{name}: {kind}s must have shape (T, D); got {array.shape}; give rows of times and columns.")
    return array[:, None] if array.ndim == 1 else array


def _column(table: Table, kind: str, name: str) -> pd.Series:
    """The column of that name; if there is none, the error suggests the most similar name."""
    labels, label = _labels(table), _label(table, name)
    if label is None:
        lowered = {label.lower(): label for label in reversed(labels)}
        near = get_close_matches(name.lower(), lowered, n=1)
        hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
        raise DataError(f"{table.name}: {kind} column {name!r} is missing; the table has {listing(labels)}.{hint}")
    if labels.count(label) > 1:
        raise DataError(
            f"{table.name}: {kind} column {name!r} occurs {labels.count(label)} times; give every column its own name."
        )
    place = labels.index(label)
    if place == table.frame.shape[1]:
        return pd.Series(table.frame.index, index=range(len(table.frame)))
    return table.frame.iloc[:, place]


def _labels(table: Table) -> list[str]:
    """The names of all columns, followed by the name of the index if it has one."""
    labels = [str(label) for label in table.frame.columns]
    index = table.frame.index.name
    return labels if index is None or str(index) in labels else [*labels, str(index)]


def _label(table: Table, name: str) -> str | None:
    """The name of a column in the table: the name itself, or the form in which `csv_name` writes it."""
    labels = _labels(table)
    return next((label for label in (name, csv_name(name)) if label in labels), None)


def _number(value: object, table: Table) -> float | None:
    """One cell as a number: NaN if missing, None if it is not a number. Only text files hold numbers as text."""
    if value is None or value is pd.NA or value is pd.NaT:
        return np.nan
    if isinstance(value, number_types.Real | np.bool_):
        return float(value)
    return number(value, table.decimal) if isinstance(value, str) and table.lines is not None else None


def _shown(value: object) -> str:
    return cut_text(repr(value) if isinstance(value, str) else str(value), 40)


# Time


def time_index(table: Table) -> pd.Index | None:
    """The index of a table if it holds dates or durations, else None."""
    index = table.frame.index
    return index if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex) else None


def read_sampling(table: Table, time: str | None, dt: float | None, gaps: Gaps) -> Sampling:
    """The times of the rows: from the column `time`, else from an index of times, else `dt` apart (1 s)."""
    if time is not None:
        return _sample(_seconds(table, time), dt, gaps, f"{table.name}: time column {time!r}", table.row)
    index = time_index(table)
    if index is None:
        return Sampling(1.0 if dt is None else float(dt), None, ())
    return sample_index(index, dt, gaps, table.name)


def sample_index(index: pd.Index, dt: float | None, gaps: Gaps, name: str) -> Sampling:
    """The times of the rows from an index of dates or durations; `name` is used in messages."""
    seconds = _since_first(pd.Series(index, index=range(len(index))))
    return _sample(seconds, dt, gaps, f"{name}: the time index", "row {}".format)


def _sample(time: np.ndarray, dt: float | None, gaps: Gaps, place: str, row: Row) -> Sampling:
    _check_increasing(time, place, row)
    steps = np.diff(time)
    dt = _step(steps, dt, gaps, place)
    uneven, gap = np.abs(steps - dt) > EVEN * dt, steps > GAP * dt
    if not uneven.any():
        return Sampling(dt, None, ())
    if gaps == "irregular":
        return Sampling(dt, time, ())
    jitter = uneven & ~gap
    if jitter.any():
        raise DataError(
            f"{_step_at(place, row, steps, jitter)} and dt is {dt:g} s; use gaps='irregular', resample to "
            "even steps, or leave out the times and give dt."
        )
    if gaps == "refuse":
        raise DataError(
            f"{_step_at(place, row, steps, gap)}, a gap, since dt is {dt:g} s; fill it, or use gaps='split' "
            "or gaps='irregular'."
        )
    return Sampling(dt, None, tuple(int(place) + 1 for place in np.flatnonzero(gap)))


def _step_at(place: str, row: Row, steps: np.ndarray, which: np.ndarray) -> str:
    first = int(np.argmax(which))
    return f"{place} steps by {steps[first]:g} s to {row(first + 1)}"


def _step(steps: np.ndarray, dt: float | None, gaps: Gaps, place: str) -> float:
    """The median step, or the given dt if the times agree with it.

    Even sampling may differ by 1 %. Irregular sampling has no single step, so dt must lie between the smallest and
    largest.
    """
    median = np.quantile(steps, 0.5, method="lower")  # one of the steps, so that some step is no gap
    median = float(f"{median:.12g}")  # differences of times are rounded: 0.1, not 0.09999999999999964
    if dt is None:
        return median
    low, high = (steps.min(), steps.max()) if gaps == "irregular" else (median, median)
    if not (1 - EVEN) * low <= dt <= (1 + EVEN) * high:
        raise DataError(
            f"{place} has a median step of {median:g} s, but dt = {dt:g} s was given; correct dt, leave it out, "
            "resample, or check that the times are in seconds."
        )
    return float(dt)


def _check_increasing(time: np.ndarray, place: str, row: Row) -> None:
    if not np.isfinite(time).all():
        first = int(np.argmax(~np.isfinite(time)))
        raise DataError(f"{place} is missing or infinite in {row(first)}; cut such rows, or leave out the times.")
    steps = np.diff(time)
    if not (steps > 0).all():
        first = int(np.argmax(~(steps > 0))) + 1
        what = "repeats the time before it" if steps[first - 1] == 0 else "goes back"
        raise DataError(f"{place} {what} in {row(first)}; sort the rows, drop duplicates, or give one file per run.")


def _seconds(table: Table, name: str) -> np.ndarray:
    """(T,) seconds of a time column: numbers as they are, dates since the first row."""
    column = _column(table, "time", name)
    return numbers(table, "time", name) if _counts(column, table) else _parse_moments(column, table, name)


def _counts(column: pd.Series, table: Table) -> bool:
    """Whether the times are numbers, judged by the first of them."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return True
    if column.dtype.kind in "mM":
        return False
    first = next(iter(column.dropna()), None)
    return first is not None and _number(first, table) is not None


def _parse_moments(column: pd.Series, table: Table, name: str) -> np.ndarray:
    """Seconds since the first row, from dates or durations. Dates without a time zone are not converted."""
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
    return _since_first(moments)


def _since_first(moments: pd.Series) -> np.ndarray:
    if not moments.notna().any():
        return np.full(len(moments), np.nan)
    return (moments - moments.dropna().iloc[0]).dt.total_seconds().to_numpy(dtype=float, na_value=np.nan)
