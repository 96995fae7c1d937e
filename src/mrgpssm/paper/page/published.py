"""The paper's own numbers, from `published.toml`: mean and standard error, None for "> 1000"."""

from pathlib import Path

from mrgpssm.file import read_toml

Number = tuple[float, float] | None


def _read_table(methods: list[str], text: str) -> dict[str, dict[str, Number]]:
    """Lines of `output | mean (se) | ...` by output and method."""
    lines = ([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())
    return {output: dict(zip(methods, map(_read_number, cells), strict=True)) for output, *cells in lines}


def _read_number(cell: str) -> Number:
    if cell.startswith(">"):
        return None
    mean, error = cell.rstrip(")").split("(")
    return float(mean), float(error)


PAPER = read_toml(Path(__file__).with_name("published.toml"))
METHODS: dict[str, list[str]] = {what: entry["methods"] for what, entry in PAPER.items() if "methods" in entry}
TABLES = {
    what: {metric: _read_table(methods, PAPER[what][metric]) for metric in ("rmse", "nll")}
    for what, methods in METHODS.items()
}
