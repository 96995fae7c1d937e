"""`mrgpssm reproduce`: run the experiments of the paper and show their records."""

import time
from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import Quiet
from mrgpssm.cli.show import say
from mrgpssm.errors import ConfigError, FitError, MissingPackageError, need
from mrgpssm.file import write_atomic
from mrgpssm.paper.config import EXPERIMENTS, SCALES
from mrgpssm.paper.page.results import Results
from mrgpssm.paper.page.text import IMAGES, make_page, show_tables
from mrgpssm.paper.run import Setting, reproduce_on
from mrgpssm.paper.run import reproduce as run
from mrgpssm.sweep.engine import Workers

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
    show: Annotated[bool, typer.Option("--show", help="Print the tables of the records; run nothing.")] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write the page of all experiments and its figures; run nothing.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Local processes that share the pieces.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to share the pieces.")] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper. Each piece leaves a record; finished pieces are skipped."""
    if what != "all" and what not in EXPERIMENTS:
        raise ConfigError(f"There is no experiment {what!r}; choose all or one of {', '.join(EXPERIMENTS)}.")
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"--minutes must be positive; got {minutes:g}.")
    if scale not in SCALES:
        raise ConfigError(f"--scale must be one of {', '.join(SCALES)}; got {scale!r}.")
    names = EXPERIMENTS if what == "all" else (what,)
    if show or page is not None:
        _report(names, scale, out, show, page)
        return
    if workers is not None or cluster is not None:
        _on_workers(names, Setting(scale, data, out.absolute(), show=False), workers, cluster, minutes, only)
        return
    setting = Setting(scale, data, out, show=not quiet)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    for name in names:
        done = run(name, setting, deadline=deadline, only=only, tell=lambda line: say(line, err=True))
        line = f"{name}: {len(done.ran)} pieces run, {len(done.skipped)} were there, {len(done.left)} left"
        say(line + (f" ({'; '.join(done.left)})." if done.left else "."))


def _on_workers(names, setting, workers: int | None, cluster: str | None, minutes, only) -> None:
    if minutes is not None or only is not None:
        raise ConfigError("--minutes and --only are for runs without workers; leave them out.")
    for name in names:
        done = reproduce_on(name, setting, Workers(False, workers, cluster), lambda line: say(line, err=True))
        say(f"{name}: {len(done.ran)} pieces run, {len(done.skipped)} were there.")
        if done.left:
            every = len(done.ran) + len(done.skipped) + len(done.left)
            raise FitError(
                f"{name}: {len(done.left)} of {every} pieces have no record ({done.left[0]}); "
                "give the same command again to go on with them."
            )


def _report(names: tuple[str, ...], scale: str, out: Path, show: bool, page: Path | None) -> None:
    """Print the tables of the records, or write them as a page with figures."""
    results = Results.read(out, scale)
    if show:
        for name in names:
            for line in (name, "", *show_tables(results, name).splitlines(), ""):
                say(line)
    if page is None:
        return
    try:
        figures = need("mrgpssm.paper.page.figures", "No figures: matplotlib is missing", "plot")
    except MissingPackageError as missing:
        say(missing, err=True)
        drawn = []
    else:
        drawn = figures.draw_all(results, page.parent / IMAGES)
    write_atomic(page, make_page(results, drawn).encode())
    say(f"Wrote {page} from {len(results.records)} records, with {len(drawn)} figures.")
