"""`mrgpssm report`: write one page that shows how good a run is, and why."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import Json, Seed
from mrgpssm.cli.show import print_json, say
from mrgpssm.errors import ConfigError, need
from mrgpssm.report.charts import sections
from mrgpssm.report.describe import verdicts
from mrgpssm.report.gather import gather
from mrgpssm.report.html import check_installed, write_html


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[
        list[str] | None, typer.Option(help="Test files; else the run's validation or training files.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also draw every figure for print into this folder.")] = None,
    compare: Annotated[list[Path] | None, typer.Option(help="Another run with scores; repeat for more.")] = None,
    note: Annotated[str, typer.Option(help="A remark to show at the top.")] = "",
    time: Annotated[str | None, typer.Option(help="The time column, where the run does not know it.")] = None,
    samples: Annotated[int, typer.Option(min=20, help="Trajectories of the free run.")] = 100,
    seed: Seed = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Evaluate a run on test data and write one HTML file with scores, figures and settings."""
    if out.suffix not in (".html", ".htm"):
        raise ConfigError(f"--out must end in .html; got {out.name!r}.")
    check_installed()
    about = {"time": time, "samples": samples, "seed": seed, "notes": note, "compare": compare or []}
    evidence = gather(run, data or [], **about)  # pyright: ignore[reportArgumentType]
    drawn = sections(evidence)
    write_html(evidence, out, drawn)
    if figures is not None:
        need("mrgpssm.report.figures", "--figures needs matplotlib", "plot").write_figures(drawn, figures)
    for doubt in evidence.doubts:
        say(f"warning: {doubt}", err=True)
    if as_json:
        judged = {name: {"grade": v.grade, "reason": v.reason} for name, v in verdicts(evidence).items()}
        seen = [r.name for r in evidence.recordings if r.seen]
        about = {"seen_in_training": seen, "warnings": list(evidence.doubts)}
        print_json({"report": str(out), "outputs": judged} | about)
    else:
        for name, verdict in verdicts(evidence).items():
            say(f"{name}: {verdict.grade}. {verdict.reason}")
        say(f"Wrote {out}.")
    if show:
        open_page(out)


def open_page(path: Path) -> bool:
    """Open a page in a browser if there is a screen; returns whether it was opened."""
    seen = sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if os.environ.get("CI") or not seen:
        return False
    return webbrowser.open(path.resolve().as_uri())
