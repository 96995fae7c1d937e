"""How commands print: tables for people, JSON for machines."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import typer

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


def print_json(content: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(content, sort_keys=True))


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; columns of numbers stand to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        numeric = all(row[index][:1].isdigit() or row[index][:1] == "-" for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_scores(title: str, scores: pd.DataFrame) -> None:
    """Scores per output."""
    rows = [[str(output), *score_cells(row)] for output, row in scores.iterrows()]
    print_rows(title, ["output", *score_titles()], rows)


def score_titles(keys: Iterable[str] = _TITLES) -> list[str]:
    """Headings of `score_cells`."""
    return [_TITLES[key] for key in keys]


def score_cells(row: pd.Series, keys: Iterable[str] = _TITLES) -> list[str]:
    """One output's scores as text."""
    return [f"{100 * row[key]:.0f}" if key in _PERCENT else f"{row[key]:.4g}" for key in keys]
