"""Write tables as CSV files that are safe to open in a spreadsheet."""

import pandas as pd

from mrgpssm.file.words import csv_name


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
