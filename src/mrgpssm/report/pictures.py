"""Figures as files: drawn in memory, written whole or not at all."""

from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mrgpssm.file import write_atomic


def save_figure(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure in the format that the path ends in; `options` are those of `Figure.savefig`."""
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix(".") or "png", **options)
    write_atomic(path, drawn.getvalue())
