"""`mrgpssm suggest`: which resolutions suit the data, and why."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mrgpssm.advice.refine import neighbours, refine
from mrgpssm.advice.rivals import has_rival
from mrgpssm.advice.suggest import suggest as propose
from mrgpssm.cli.flags import Dt, Files, InputNames, Json, OutputNames, TimeName, split_names
from mrgpssm.cli.show import print_json, print_rows, say
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.errors import ConfigError, need


def suggest(
    data: Files,
    inputs: Annotated[str, InputNames],
    outputs: Annotated[str, OutputNames],
    time: TimeName = None,
    dt: Dt = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the evidence to this PNG, SVG or PDF file.")] = None,
    refined: Annotated[
        bool, typer.Option("--refine", help="Also train short models with these and nearby resolutions, and compare.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Propose resolutions, window and buffer from the data alone."""
    if plot is not None and plot.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--plot must end in .png, .svg or .pdf; got {plot.name!r}.")
    sequences = read_sequences(data, Columns(split_names(inputs), split_names(outputs), time, dt))
    found = propose(sequences)
    if plot is not None:
        need("mrgpssm.report.suggestion", "--plot needs matplotlib", "plot").suggestion_figure(found, plot)
        say(f"Wrote {plot}.", err=True)
    ranked = []
    if refined:
        ranked = refine(sequences, neighbours(found.resolutions), window=found.window, buffer=found.buffer)
    if as_json:
        print_json(_as_json(found, ranked))
        return
    header, *rows = found.table()
    print_rows("Time scales in the data", header, rows)
    for advice in found.per_output:
        for reason in advice.reasons:
            say(f"{advice.output}: {reason}")
    for note in found.notes:
        say(f"Note: {note}")
    if ranked:
        rows = [(", ".join(map(str, r.resolutions)), f"{r.total:.0f}") for r in ranked]
        print_rows("Short training", ("resolutions", "lower bound"), rows)
    say(_answer(found, ranked, has_rival(sequences)))


def _as_json(found, ranked) -> dict[str, Any]:
    return {
        "resolutions": list(found.resolutions),
        "window": found.window,
        "buffer": found.buffer,
        "scales": {a.output: [{"seconds": s.seconds, "share": s.share} for s in a.scales] for a in found.per_output},
        "speed": {a.output: a.speed for a in found.per_output},
        "notes": list(found.notes),
        "refined": [{"resolutions": list(r.resolutions), "bound": r.total} for r in ranked],
    }


def _answer(found, ranked, linear: bool) -> str:
    """The recommended resolutions: those a fit would use, or those preferred by short training."""
    windows = f"--window {found.window} --buffer {found.buffer}"
    own = ",".join(map(str, found.resolutions))
    best = ",".join(map(str, ranked[0].resolutions)) if ranked else own
    if best != own:
        return f"Short training prefers other resolutions than fit would use: --resolutions {best} {windows}"
    if linear:
        instead = "try these against a start from a linear model at resolution 1; to use these alone"
        return f"mrgpssm fit and MRGPSSM() {instead}: --resolutions {own} {windows}"
    return f"mrgpssm fit and MRGPSSM() use these by themselves: --resolutions {own} {windows}"
