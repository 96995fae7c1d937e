"""Read numeric files, split a recording in halves, and convert the objects of `nonlinear_benchmarks`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from scipy.io import loadmat

from mrgpssm.data.sequence import Sequence, take_rows
from mrgpssm.errors import DataError


@dataclass(frozen=True, eq=False)
class BenchmarkRecording:
    """A recording whose first `initialisation` rows set the state and are not scored."""

    sequence: Sequence
    initialisation: int = 0


class Recorded(Protocol):
    """The attributes an object must have; `sampling_time`, `name` and the window length are optional."""

    u: Any
    y: Any


def read_table(path: Path, columns: int, variables: tuple[str, ...] = (), header: bool = False) -> np.ndarray:
    """The (T, columns) numbers of one file.

    `.mat`: the named variables side by side. `.csv`: separated by commas. Anything else: by white space. The first
    line is skipped where the file has a header. A row with a column more or less is an error, never filled.
    """
    try:
        table = _read_mat(path, variables) if path.suffix == ".mat" else _read_text(path, header)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({_first_line(error)}); check the file, or fetch it again.") from None
    if table.shape[1] != columns:
        raise DataError(f"{path}: has {table.shape[1]} columns and should have {columns}; is it another set's file?")
    return table


def halves(whole: Sequence) -> dict[str, list[Sequence]]:
    """Split a recording: the first T // 2 rows are for training, the rest for testing."""
    cut = len(whole) // 2
    if cut < 2:
        raise DataError(f"{whole.name}: {len(whole)} rows cannot be halved; a sequence needs at least 2.")
    first, second = take_rows(whole, slice(None, cut)), take_rows(whole, slice(cut, None))
    return {
        "train": [replace(first, name=f"{whole.name}, first half")],
        "test": [replace(second, name=f"{whole.name}, second half")],
    }


@overload
def from_benchmark(recording: list | tuple) -> list[BenchmarkRecording]: ...
@overload
def from_benchmark(recording: Recorded) -> BenchmarkRecording: ...
def from_benchmark(recording):
    """An object with `u` and `y`, as the package `nonlinear_benchmarks` returns it; or each of a list or tuple.

    `sampling_time` None (discrete time) becomes dt = 1, `state_initialization_window_length` None becomes 0, and
    signals of shape (T,) become one column.
    """
    if isinstance(recording, list | tuple):
        return [_from_benchmark(item, f"item {i}") for i, item in enumerate(recording)]
    return _from_benchmark(recording, "the object")


def _from_benchmark(item: object, where: str) -> BenchmarkRecording:
    u, y = (getattr(item, key, None) for key in ("u", "y"))
    if u is None or y is None:
        nested = " Pass the training and the test recordings one after the other." if _is_many(item) else ""
        raise DataError(
            f"{where} is a {type(item).__name__} and has no input u and output y; pass what a function of "
            f"nonlinear_benchmarks returns, such as train, test = nonlinear_benchmarks.Silverbox().{nested}"
        )
    name = str(getattr(item, "name", None) or "benchmark")
    sequence = Sequence(_column(u), _column(y), _sampling_time(item, name), name=name)
    return BenchmarkRecording(sequence, _window(item, len(sequence), name))


def _is_many(item: object) -> bool:
    return isinstance(item, Iterable) and not isinstance(item, str | bytes)


def _sampling_time(item: object, name: str) -> float:
    value = getattr(item, "sampling_time", None)
    if value is None:
        return 1.0
    array = np.asarray(value)
    if array.size != 1 or not isinstance(array.item(), Real):
        raise DataError(f"{name}: sampling_time must be one number of seconds or None; got {value!r}.")
    return float(array.item())


def _window(item: object, rows: int, name: str) -> int:
    value = getattr(item, "state_initialization_window_length", None)
    value = 0 if value is None else value
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < rows:
        raise DataError(
            f"{name}: state_initialization_window_length must be a whole number from 0 to {rows - 1}, so that rows "
            f"are left to score; got {value!r}."
        )
    return int(value)


def _column(values: object) -> np.ndarray:
    array = np.asarray(values)
    return array[:, None] if array.ndim == 1 else array


def _read_text(path: Path, header: bool) -> np.ndarray:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()][int(header) :]
    if not lines:
        raise DataError(f"{path}: holds no rows; fetch it again.")
    try:
        return np.loadtxt(lines, delimiter="," if path.suffix == ".csv" else None, ndmin=2, comments=None)
    except ValueError as error:
        raise DataError(f"{path}: is not a table of numbers ({_first_line(error)}); fetch it again.") from None


def _read_mat(path: Path, variables: tuple[str, ...]) -> np.ndarray:
    try:
        content = loadmat(path)
    except Exception as error:  # foreign bytes: the reader fails in as many ways as files can be broken
        raise DataError(
            f"{path}: is not a MATLAB file up to version 7 ({_first_line(error)}); fetch it again."
        ) from None
    have = [key for key in content if not key.startswith("__")]
    missing = [key for key in variables if key not in content]
    if missing:
        raise DataError(f"{path}: holds no variable {missing[0]!r}; it has {', '.join(have) or 'none'}.")
    try:
        signals = [np.asarray(content[key], dtype=float).ravel() for key in variables]
    except (TypeError, ValueError):
        raise DataError(f"{path}: the variables {', '.join(variables)} must be numbers.") from None
    lengths = {len(signal) for signal in signals}
    if len(lengths) != 1:
        raise DataError(f"{path}: the variables {', '.join(variables)} have {sorted(lengths)} values; they must agree.")
    return np.column_stack(signals)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].partition(";")[0] or type(error).__name__
