"""What users named, as text that is safe to show: on a terminal, and in a file that a spreadsheet opens."""

import unicodedata

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def printable(text: object) -> str:
    """Text on one line for a terminal: control characters, which could move the cursor or set titles, are left out."""
    kept = ("" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in " ".join(str(text).split()))
    return "".join(kept)


def csv_name(name: str) -> str:
    """A name as it is written to CSV files: with an apostrophe first where a spreadsheet would read a formula."""
    return f"'{name}" if name.startswith(_FORMULA) else name
