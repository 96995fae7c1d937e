"""`mrgpssm reproduce`: the paper's experiments, piece by piece, and what the records say."""

from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.errors import ConfigError

OUT = Path("results/reproduce")


def reproduce(
    what: Annotated[
        str,
        typer.Argument(help="semi-synthetic, batch-vs-resolution, engine, grid, sensitivity, complexity, or all."),
    ],
    scale: Annotated[str, typer.Option(help="smoke (embedded data, seconds) or paper.")] = "smoke",
    data: Annotated[str | None, typer.Option(help="Root of the engine data; else $MRGPSSM_DATA.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = OUT,
    minutes: Annotated[float | None, typer.Option(help="Begin no piece that would end later than this.")] = None,
    only: Annotated[str | None, typer.Option(help="One piece by its name.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Run an experiment of the paper; finished pieces are skipped, each leaves one record."""
    from mrgpssm.experiments.reproduce.config import EXPERIMENTS
    from mrgpssm.experiments.reproduce.run import Setting
    from mrgpssm.experiments.reproduce.run import reproduce as run

    if what != "all" and what not in EXPERIMENTS:
        raise ConfigError(f"There is no experiment {what!r}; choose all or one of {', '.join(EXPERIMENTS)}.")
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"--minutes must be positive; got {minutes:g}.")
    setting = Setting(scale, data, out, show=not quiet)
    for name in EXPERIMENTS if what == "all" else (what,):
        done = run(name, setting, minutes=minutes, only=only, tell=lambda line: typer.echo(line, err=True))
        line = f"{name}: {len(done.ran)} pieces run, {len(done.skipped)} were there, {len(done.left)} left"
        typer.echo(line + (f" ({', '.join(done.left)})." if done.left else "."))
