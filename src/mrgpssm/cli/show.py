"""How commands print: tables for people, JSON for machines."""

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mrgpssm.errors import DataWarning
from mrgpssm.file.words import printable

if TYPE_CHECKING:
    import pandas as pd

_PERCENT = ("coverage_50", "coverage_90", "coverage_95")
_TITLES = {
    "rmse": "RMSE",
    "nrmse": "NRMSE",
    "fit_percent": "fit %",
    "nll": "nLL",
    "crps": "CRPS",
    "coverage_50": "50 % cover",
    "coverage_90": "90 % cover",
    "coverage_95": "95 % cover",
}


class StoppedError(Exception):
    """Stopped by Ctrl-C or SIGTERM. Typer passes this exception on; it would swallow KeyboardInterrupt."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.code = 128 + number


def say(text: object, err: bool = False) -> None:
    """Print one line; control characters in names are removed. `err` prints to standard error."""
    typer.echo(printable(text), err=err)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Print every `DataWarning` to standard error once, and collect them in a list."""
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        usual = warnings.showwarning

        def show(message, category, *where, **more) -> None:
            if not issubclass(category, DataWarning):
                usual(message, category, *where, **more)
            elif str(message) not in found:
                found.append(str(message))
                say(f"warning: {message}", err=True)

        warnings.showwarning = show
        yield found


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object to standard output."""
    typer.echo(json.dumps(content, sort_keys=True))


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; numbers are aligned to the right. Markup in cells is not interpreted."""
    table = Table(title=Text(printable(title)), title_justify="left")
    for index, column in enumerate(columns):
        numeric = all(row[index][:1].isdigit() or row[index][:1] == "-" for row in rows)
        table.add_column(Text(printable(column)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def print_scores(title: str, scores: "pd.DataFrame") -> None:
    """Print the scores of every output."""
    rows = [[str(output), *score_cells(row)] for output, row in scores.iterrows()]
    print_rows(title, ["output", *score_titles()], rows)


def score_titles(keys: Iterable[str] = _TITLES) -> list[str]:
    """Headings of `score_cells`."""
    return [_TITLES[key] for key in keys]


def score_cells(row: "pd.Series", keys: Iterable[str] = _TITLES) -> list[str]:
    """The scores of one output as text."""
    return [f"{100 * row[key]:.0f}" if key in _PERCENT else f"{row[key]:.4g}" for key in keys]
