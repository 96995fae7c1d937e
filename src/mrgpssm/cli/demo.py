"""`mrgpssm demo`: why several resolutions help, in a minute."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.report import open_page
from mrgpssm.cli.show import print_rows, say
from mrgpssm.errors import ConfigError, MissingPackageError, need
from mrgpssm.file.record import write_record
from mrgpssm.paper.demo import gather_demo, run_demo
from mrgpssm.report.html import check_installed, write_html


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the synthetic data.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the record, the figure and the report.")] = Path("demo-output"),
    kind: Annotated[str, typer.Option("--set", help="M1 or M2: the sets with a fast and a slow component.")] = "M1",
) -> None:
    """Train five models on a system with two time scales, run them freely, and show which of them follow it."""
    if kind not in ("M1", "M2"):
        raise ConfigError(f"--set must be M1 or M2, the sets with a fast and a slow component; got {kind!r}.")
    say(f"Set {kind}, seed {seed}: 20,000 samples at 10 Hz train, a fresh recording of 20,000 tests.")
    result = run_demo(kind, seed, lambda name: say(f"training {name} ..."), progress=True)
    _print_table(result)
    correlations = ", ".join(f"{name} {value:.3f}" for name, value in result.correlations.items())
    say(f"MR-GPSSM's RMSE is {result.ratio:.2f} of the best single-resolution model's.")
    say(f"Correlation of learned with true components: {correlations}.")
    write_record(out / "demo.json", result.record())
    written = [out / "demo.json"]
    try:
        pictures = need("mrgpssm.paper.demo_picture", "No figure: matplotlib is missing", "plot")
    except MissingPackageError as missing:
        say(missing)
    else:
        pictures.demo_figure(result, out / "demo.png")
        written.append(out / "demo.png")
    say(f"Wrote {' and '.join(str(path) for path in written)}.")
    _report(result, out / "report.html", f"mrgpssm demo --seed {seed} --set {kind}")


def _report(result, path: Path, command: str) -> None:
    """Write the report page; if its extra is missing, say so."""
    try:
        check_installed()
    except MissingPackageError as missing:
        say(f"No report: {missing}")
        return
    write_html(gather_demo(result, command), path)
    say(f"Report: {path.resolve()}")
    if sys.stdout.isatty():  # a page that opens by itself is for somebody who watches
        open_page(path)


def _print_table(result) -> None:
    rows = []
    for name, entry in result.entries.items():
        s = entry.scores
        covers = [f"{100 * s[key]:.0f}" for key in ("coverage_50", "coverage_90")]
        numbers = [f"{s['rmse']:.3f}", f"{s['fit_percent']:.0f}", f"{s['nll']:.2f}", *covers, f"{entry.seconds:.0f}"]
        rows.append([name, *numbers])
    columns = ["model", "RMSE", "fit %", "nLL", "50 % cover", "90 % cover", "seconds"]
    print_rows("Free run over a fresh recording; the last model has calibrated bands", columns, rows)
