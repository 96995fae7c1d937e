"""docs/benchmarks.md: the defaults on public benchmarks, beside what others have published."""

import tomllib
from typing import Any

from material import TEXTS, find_all, text

from mrgpssm.data.nonlinear import BENCHMARKS
from mrgpssm.file.record import age_note
from mrgpssm.file.words import markdown_table
from mrgpssm.sweep.benchmark import tabulate_benchmarks

METHODS = ("MRGPSSM()", "Blend()")


def make_page() -> str:
    """The whole text."""
    records = find_all("benchmark/*")
    published: dict[str, Any] = tomllib.loads((TEXTS / "published.toml").read_text(encoding="utf-8"))
    rows = tabulate_benchmarks(records.values())
    parts = [text("benchmarks.md"), age_note(records.values())]
    for name, entry in BENCHMARKS.items():
        own = [[row for row in rows if (row["set"], row["method"]) == (name, method)] for method in METHODS]
        own = [some for some in own if some]
        if own:
            tables = [*map(scores_table, own), compare_table(own, published.get(name, {}))]
            parts.append(f"## {entry.title}\n" + "\n\n".join(tables))
    sources = published["sources"]
    named = sorted({v["source"] for k, table in published.items() if k != "sources" for v in table.values()})
    parts.append("## Sources\n" + "\n".join(f"- {sources[key]}." for key in named))
    return "\n\n".join(part for part in parts if part) + "\n"


def scores_table(rows: list[dict[str, Any]]) -> str:
    """Our scores: means over seeds, and the range of the RMSE."""
    cells = [
        [
            row["test"] if row["output"] == "y1" else f"{row['test']}, {row['output']}",
            f"{row['rmse']:.3g}",
            f"{row['least']:.3g} to {row['most']:.3g}",
            f"{row['nll']:.2f}",
            f"{row['crps']:.2g}",
            f"{100 * row['coverage_50']:.0f} %, {100 * row['coverage_90']:.0f} %",
            str(row["seeds"]),
        ]
        for row in rows
    ]
    head = [
        f"`{rows[0]['method']}`, {rows[0]['unit']}",
        "RMSE",
        "range",
        "nLL",
        "CRPS",
        "in the 50 and 90 % bands",
        "seeds",
    ]
    return markdown_table(head, cells)


def compare_table(methods: list[list[dict[str, Any]]], published: dict[str, Any]) -> str:
    """Our RMSE beside those of others."""
    tests = [row["test"] for row in methods[0]]
    cells = [[f"**`{rows[0]['method']}`**", *(f"**{row['rmse']:.3g}**" for row in rows)] for rows in methods]
    cells += [[name, *(f"{found[test]:.3g}" for test in tests)] for name, found in published.items()]
    return markdown_table([f"RMSE, {methods[0][0]['unit']}", *tests], cells)
