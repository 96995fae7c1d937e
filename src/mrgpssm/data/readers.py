"""Read tables: text with any common delimiter, Parquet, NumPy archives, MATLAB files, and tables in memory."""

import contextlib
import csv
import importlib.util
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from scipy.io import loadmat

from mrgpssm.errors import DataError
from mrgpssm.file.words import listing, one_line

TEXT = (".csv", ".txt", ".dat", ".tsv")
ENDINGS = (*TEXT, ".parquet", ".npz", ".mat")
MISSING = ("", "NaN", "nan", "NAN", "NA", "N/A", "null", "NULL", "-")
# pandas 3.1 reads every float exactly and warns about the argument that older versions need for it.
PRECISION = None if tuple(int(n) for n in pd.__version__.split(".")[:2]) >= (3, 1) else "round_trip"
_UNPACKED, _RATIO = 2**28, 100  # bytes that any archive may unpack to, and how many times its own size a larger one may
_DATE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d")


@runtime_checkable
class Interchange(Protocol):
    """A table of another library that pandas can read through the interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """The table behind the protocol's own interface."""
        ...


@dataclass(frozen=True)
class Table:
    """A table, its name in messages, and the line numbers of its rows if it is a text file."""

    frame: pd.DataFrame
    name: str
    lines: np.ndarray | None = None  # (T,) 1-based line of each row; only text files have them
    decimal: str = "."

    def row(self, index: int) -> str:
        """A row for messages: its number from 0, and its line in the file."""
        return f"row {index}" if self.lines is None else f"row {index} (line {self.lines[index]})"


def read_table(path: str | Path) -> pd.DataFrame:
    """Read one file by its ending: text (csv, txt, dat, tsv), parquet, npz or mat."""
    return open_table(Path(path)).frame


def open_table(path: Path, wanted: Iterable[str] = ()) -> Table:
    """Read one file. If columns differ in length, those as long as the wanted ones are kept."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        got = f"files ending in {ending}" if ending else "files without an ending"
        raise DataError(f"{path.name}: {got} cannot be read; known are {known}.")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check the path.")
    try:
        if ending in TEXT:
            return _text(path.read_bytes(), path.name)
        if ending == ".parquet":
            return Table(_parquet(path), path.name)
        arrays = _mat(path) if ending == ".mat" else _npz(path)
    except OSError as error:
        raise DataError(f"{path}: the file cannot be opened ({error.strerror or 'unknown fault'}).") from None
    return Table(_make_frame(arrays, path.name, wanted), path.name)


# Text


def _text(raw: bytes, name: str) -> Table:
    """Delimited UTF-8 text with or without a header; the first line shows the delimiter. Empty lines are skipped."""
    lines = _decode(raw, name).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise DataError(f"{name}: the file is empty; give at least 2 rows of numbers.")
    delimiter = next((d for d in (";", "\t", ",") if d in re.sub(r'"[^"]*"', "", first)), " ")
    blank = " \r\n" if delimiter == "\t" else None  # a line of tabs is a row of missing values
    numbers = [i for i, line in enumerate(lines, 1) if line.strip(blank)]
    rows = [lines[i - 1] for i in numbers]
    fields = _fields(rows[0], delimiter, numbers[0], name)
    width, header = len(fields), not _are_data(fields, delimiter)
    names = [" ".join(field.split()) if header else "" for field in fields]
    names = [label or f"c{k}" for k, label in enumerate(names, 1)]
    rows, numbers = rows[header:], numbers[header:]
    if not rows:
        raise DataError(f"{name}: there is only a header ({listing(names)}); give at least 2 rows of numbers.")
    _check_widths(rows, numbers, delimiter, width, name)
    body = "\n".join(rows) + "\n"
    decimal = "," if delimiter != "," and _decimal_comma(body, delimiter) else "."
    frame = _parse(body, delimiter, decimal, width, name)
    frame.columns = pd.Index(names)
    return Table(frame, name, np.array(numbers), decimal)


def _decode(raw: bytes, name: str) -> str:
    """UTF-8 text with or without a byte order mark; other encodings are an error."""
    head = raw[:4096]
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or head.count(0) > len(head) // 10:
        raise DataError(f"{name}: the text is encoded as UTF-16; save the file as UTF-8.")
    if 0 in raw:
        line = raw.count(b"\n", 0, raw.index(0)) + 1
        raise DataError(f"{name}: line {line} holds NUL bytes, as after a broken recording; cut them out.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start + (3 if raw.startswith(b"\xef\xbb\xbf") else 0)
        line = raw.count(b"\n", 0, start) + 1
        raise DataError(
            f"{name}: byte {start} (0x{raw[start]:02x}, line {line}) is not UTF-8; save the file as UTF-8."
        ) from None


def _fields(line: str, delimiter: str, number: int, name: str) -> list[str]:
    """The cells of one line. A cell may be quoted; quotes must close on the same line."""
    if line.count('"') % 2:
        raise DataError(f"{name}: a quote in line {number} does not close on that line; mend or remove it.")
    if delimiter == " ":
        return [cell.strip('"') for cell in re.findall(r'"[^"]*"|\S+', line)]
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]


def _check_widths(rows: list[str], numbers: list[int], delimiter: str, width: int, name: str) -> None:
    """Check that every row has as many cells as the first line."""
    for line, number in zip(rows, numbers, strict=True):
        if '"' in line:
            have = len(_fields(line, delimiter, number, name))
        else:
            have = len(line.split()) if delimiter == " " else line.count(delimiter) + 1
        if have != width:
            raise DataError(
                f"{name}: line {number} has {have} {'cell' if have == 1 else 'cells'} and the first line {width}; "
                "give every row the same columns, and leave a missing cell empty or write NaN."
            )
    if width == 1 and numbers[-1] - numbers[0] >= len(numbers):
        gap = int(np.argmax(np.diff(numbers) > 1))
        raise DataError(f"{name}: line {numbers[gap] + 1} is empty; write NaN where the only column has no value.")


def _are_data(fields: list[str], delimiter: str) -> bool:
    """Whether the first line is data, not a header: only numbers, dates and missing cells, not all missing."""
    decimal = "." if delimiter == "," else ","
    data = [number(field, decimal) is not None or bool(_DATE.match(field)) for field in fields]
    return all(data) and not all(field in MISSING for field in fields)


def _decimal_comma(body: str, delimiter: str) -> bool:
    """Whether some cell is a number with a comma, such as 1,5 or -2,5e-3."""
    edge = {" ": r"[ \t]", "\t": r"\t", ";": ";"}[delimiter]
    cell = rf'(?:^|{edge})[ "]*[+-]?\d*,\d+(?:[eE][+-]?\d+)?[ "]*(?:$|{edge})'
    return "," in body and re.search(cell, body, re.MULTILINE) is not None


def _parse(body: str, delimiter: str, decimal: str, width: int, name: str) -> pd.DataFrame:
    try:
        return pd.read_csv(
            io.StringIO(body),
            sep=r"\s+" if delimiter == " " else delimiter,
            header=None,
            names=range(width),  # pyright: ignore[reportArgumentType]
            index_col=False,
            decimal=decimal,
            na_values=list(MISSING),
            keep_default_na=False,
            skip_blank_lines=False,
            skipinitialspace=True,
            float_precision=PRECISION,
            low_memory=False,
            engine="c",
        )
    except (ValueError, OverflowError) as error:
        raise DataError(f"{name}: the text is not a table of columns ({one_line(error)}).") from None


def number(cell: str, decimal: str) -> float | None:
    """The number in a text cell: NaN if it is missing, None if it is not a number."""
    cell = cell.strip()
    if cell in MISSING:
        return np.nan
    if "_" in cell or (decimal == "," and "." in cell and "," in cell):
        return None
    try:
        return float(cell.replace(",", ".") if decimal == "," else cell)
    except ValueError:
        return None


# Binary files


@contextlib.contextmanager
def _explain_errors(what: str, remedy: str) -> Iterator[None]:
    """Any error of another library as one sentence: foreign bytes break readers in many ways."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{what} ({one_line(error)}); {remedy}.") from None


def _parquet(path: Path) -> pd.DataFrame:
    if importlib.util.find_spec("pyarrow") is None:
        raise DataError(f"{path.name}: Parquet files need pyarrow; install mrgpssm[data], or save the table as CSV.")
    with _explain_errors(f"{path.name}: this is not a readable Parquet file", "save it again"):
        return pd.read_parquet(path, engine="pyarrow")


def _npz(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name, or the columns of a 2-d array `data` called `names`. Pickled objects are never loaded."""
    what, remedy = "a readable npz file of plain arrays", "write it with numpy.savez and arrays of numbers"
    explain = _explain_errors(f"{path.name}: this is not {what}", remedy)
    with explain, path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        _check_unpacked(path, archive)
        arrays = {str(key): archive[key] for key in archive.files}
    strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange:
        raise DataError(f"{path.name}: {strange[0][:80]!r} in the archive is not an array; write it with numpy.savez.")
    data, names = arrays.get("data"), arrays.get("names")
    if data is None or names is None:
        return arrays
    if data.ndim != 2 or names.shape != data.shape[1:]:
        raise DataError(
            f"{path.name}: 'data' has shape {data.shape} and 'names' {names.shape}; give one name per column of data."
        )
    if len(set(names.tolist())) != len(names):
        raise DataError(f"{path.name}: 'names' repeat ({listing(names.tolist())}); give every column its own name.")
    return {str(label): data[:, k] for k, label in enumerate(names.tolist())}


def _check_unpacked(path: Path, archive: Any) -> None:
    """Refuse an archive that unpacks to far more than its own size."""
    size = sum(member.file_size for member in archive.zip.infolist())
    if size > max(_UNPACKED, _RATIO * path.stat().st_size):
        raise DataError(
            f"{path.name}: the archive would unpack to {size:,} bytes, over {_RATIO} times its own size; save it again "
            "with numpy.savez, which does not compress."
        )


def _mat(path: Path) -> dict[str, np.ndarray]:
    """The numeric variables of a MATLAB file of version 4 to 7, as rows or columns."""
    with path.open("rb") as file:
        head = file.read(1024)
    if head.startswith(b"MATLAB 7.3") or b"\x89HDF\r\n\x1a\n" in head:
        raise DataError(f"{path.name}: MATLAB files of version 7.3 cannot be read; save it with save(..., '-v7').")
    with _explain_errors(f"{path.name}: this is not a readable MATLAB file", "save it again"):
        found = loadmat(path)
    arrays = {key: value for key, value in found.items() if not key.startswith("__") and isinstance(value, np.ndarray)}
    return {key: value.ravel() if 1 in value.shape else value for key, value in arrays.items()}


def _make_frame(arrays: Mapping[str, np.ndarray], name: str, wanted: Iterable[str]) -> pd.DataFrame:
    """1-d arrays by name and 2-d ones as name_1, name_2, ...; scalars, structs and cells are skipped."""
    columns: dict[str, np.ndarray] = {}
    for key, array in arrays.items():
        if array.dtype.kind not in "biufcmMSU" or array.ndim not in (1, 2) or array.size < 2:
            continue
        one = array.ndim == 1 or array.shape[1] == 1
        columns |= {key: array.ravel()} if one else {f"{key}_{k + 1}": array[:, k] for k in range(array.shape[1])}
    if not columns:
        raise DataError(f"{name}: there is no column of numbers; store 1-d arrays of the same length.")
    rows = _count_rows(
        {key: columns[key] for key in wanted if key in columns} or columns, name, "store one table per file"
    )
    return pd.DataFrame({key: column for key, column in columns.items() if len(column) == rows})


def _count_rows(columns: Mapping[str, Any], name: str, remedy: str) -> int:
    """The number of rows that all columns have."""
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        sizes = listing(f"{key} ({rows})" for key, rows in lengths.items())
        raise DataError(f"{name}: the columns have different numbers of rows: {sizes}; {remedy}.")
    return next(iter(lengths.values()), 0)


# Tables in memory


def as_frame(table: Any, name: str) -> pd.DataFrame:
    """A copy as a pandas table, from pandas, another library (interchange protocol) or a mapping of 1-d arrays."""
    if isinstance(table, pd.DataFrame):
        return table.copy(deep=False)
    if isinstance(table, Mapping):
        return _from_mapping(table, name)
    if isinstance(table, Interchange):
        what = f"{name}: pandas cannot read this {type(table).__name__}"
        with _explain_errors(what, "hand over a pandas DataFrame"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas supports the protocol but warns of it
            return pd.api.interchange.from_dataframe(table).copy()
    raise DataError(
        f"{name}: a {type(table).__name__} is not a table; give a path, a DataFrame, or a mapping of names to arrays."
    )


def _from_mapping(table: Mapping[Any, Any], name: str) -> pd.DataFrame:
    columns = {str(key): _one_column(value, str(key), name) for key, value in table.items()}
    _count_rows(columns, name, "give all the same length")
    return pd.DataFrame(columns)


def unmask(values: Any) -> Any:
    """Values, with NaN where an array of NumPy is masked."""
    return np.ma.filled(values.astype(float), np.nan) if isinstance(values, np.ma.MaskedArray) else values


def _one_column(values: Any, key: str, name: str) -> Any:
    if isinstance(values, pd.Series | pd.Index):
        return values.array.copy()
    try:
        array = np.array(unmask(values))
    except ValueError:
        array = None
    if array is None or array.ndim != 1:
        got = "rows of several lengths" if array is None else f"shape {array.shape}"
        raise DataError(f"{name}: column {key!r} must be a 1-d array; got {got}.")
    return array
