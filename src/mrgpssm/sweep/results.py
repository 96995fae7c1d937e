"""Results of a sweep: a table of all runs, and a figure that compares them."""

import json
from collections.abc import Iterable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from mrgpssm.data.tables import csv_bytes
from mrgpssm.errors import need
from mrgpssm.file import write_atomic
from mrgpssm.file.words import drawable
from mrgpssm.sweep.runs import Run, find_record


def results_table(directory: Path, runs: Iterable[Run]) -> pd.DataFrame:
    """One row a run: who it is, the options that differ, and its scores; runs without a record are left out."""
    found = [r for r in (find_record(directory, run) for run in runs) if r is not None]
    keys = found[0]["options"] if found else {}
    varied = [key for key in keys if len({json.dumps(r["options"][key]) for r in found}) > 1]
    return pd.DataFrame([_row(r, varied) for r in found])


def write_results(directory: Path, table: pd.DataFrame) -> list[Path]:
    """Write results.csv, and results.parquet and comparison.png if pyarrow and matplotlib are installed."""
    written = [directory / "results.csv"]
    write_atomic(written[0], csv_bytes(table))
    if find_spec("pyarrow") is not None:
        buffer = BytesIO()
        table.to_parquet(buffer, index=False)
        written.append(directory / "results.parquet")
        write_atomic(written[-1], buffer.getvalue())
    if find_spec("matplotlib") is not None and "nrmse" in table.columns and table["nrmse"].notna().to_numpy().any():
        written.append(directory / "comparison.png")
        draw_comparison(table, written[-1])
    return written


def label(row: pd.Series) -> str:
    """The options of a run that differ between runs, without the seed."""
    keys = [str(key) for key in row.index if str(key).startswith("option.")]
    parts = [f"{key.removeprefix('option.')}={row[key]}" for key in keys]
    return ", ".join(p for p in parts if not p.startswith("seed=")) or "all"


def draw_comparison(table: pd.DataFrame, path: Path) -> None:
    """One panel per dataset and output: a dot per split and seed, a bar at the median of every setting."""
    kept = table.dropna(subset=["nrmse"]).assign(label=lambda t: t.apply(label, axis=1))
    panels, names = list(kept.groupby(["dataset", "output"])), sorted(kept["label"].unique())
    figures = need("mrgpssm.report.figures", "The figure of a sweep needs matplotlib", "plot")
    figure = figures.Figure(figsize=(3 + 3 * len(panels), 1.2 + 0.45 * len(names)), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (key, part) in zip(axes, panels, strict=True):
        for place, name in enumerate(names):
            values = part.loc[part["label"] == name, "nrmse"]
            axis.plot(values, [place] * len(values), "o", color="tab:blue", alpha=0.5, markersize=4)
            if len(values):
                axis.plot([values.median()] * 2, [place - 0.3, place + 0.3], color="black")
        axis.set_title(drawable(" / ".join(map(str, key))), fontsize=9)  # pyright: ignore[reportArgumentType]
        axis.set_xlabel("RMSE / deviation of the test data")
        axis.grid(alpha=0.3)
    axes[0].set_yticks(range(len(names)), [drawable(name) for name in names], fontsize=8)
    figures.save_figure(figure, path, dpi=120)


def _row(record: dict[str, Any], varied: list[str]) -> dict[str, Any]:
    row = {key: record[key] for key in ("id", "dataset", "split", "output")}
    for key in varied:
        value = record["options"][key]
        row[f"option.{key}"] = json.dumps(value) if isinstance(value, list) else value
    return row | (record["scores"] or {}) | {"failure": record["failure"]}
