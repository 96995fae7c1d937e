"""Text that is safe to show: on a terminal, in a figure, on a page, in a file that a spreadsheet opens."""

import unicodedata
from collections.abc import Iterable, Sequence

_CONTROL = ("Cc", "Cf", "Cs")
_FORMULA = ("=", "+", "-", "@")


def printable(text: object) -> str:
    """Text on one line without control characters, which could move the cursor or set the title of a terminal."""
    return "".join(" " if c.isspace() else "" if unicodedata.category(c) in _CONTROL else c for c in str(text))


def drawable(text: str) -> str:
    """Text that matplotlib draws literally: no mathematics between dollars, one line, printable characters only."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return (" " + shown if shown.startswith("_") else shown).replace("$", r"\$")


def csv_name(name: str) -> str:
    """A name for CSV files: one line, with an apostrophe in front if a spreadsheet would read it as a formula."""
    line = " ".join(name.split())
    return f"'{line}" if line.startswith(_FORMULA) else line


def count_of(number: int, noun: str) -> str:
    """A number with its noun: 1 gap, 2 gaps."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def cut_text(text: str, most: int) -> str:
    """Text on one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rstrip() + "..."


def one_line(error: BaseException, most: int = 120) -> str:
    """A message of another library, shortened to one line."""
    return cut_text(" ".join(str(error).split()).rstrip(". ") or type(error).__name__, most)


def listing(names: Iterable[object], most: int = 30) -> str:
    """Names on one line; long lists are cut."""
    words = [" ".join(str(name).split()) for name in names]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
