"""`mrgpssm sweep`: many runs, on this machine or on a cluster."""

from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import Json, Quiet
from mrgpssm.cli.show import print_json, print_rows, say
from mrgpssm.errors import ConfigError, FitError
from mrgpssm.sweep.config import read_sweep
from mrgpssm.sweep.engine import Workers, run_sweep
from mrgpssm.sweep.results import results_table, write_results
from mrgpssm.sweep.runs import SHOWN


def sweep(
    config: Annotated[Path, typer.Argument(help="A TOML file of datasets, splits and options.")],
    workers: Annotated[int | None, typer.Option(min=1, help="Local processes; default: what the machine has.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to join.")] = None,
    serial: Annotated[bool, typer.Option("--serial", help="Run here, without workers.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a grid of models. Finished runs are skipped, so the same command continues an interrupted sweep."""
    if serial and (workers is not None or cluster is not None):
        raise ConfigError("--serial uses no workers; leave out --workers and --cluster.")
    chosen = read_sweep(config)
    done = run_sweep(chosen, Workers(serial, workers, cluster), lambda line: None if quiet else say(line, err=True))
    table = results_table(chosen.directory, done.runs)
    written = write_results(chosen.directory, table)
    failed = sum(value is not None for value in table["failure"].tolist()) if len(table) else 0
    result = {
        "runs": len(done.runs),
        "records": len(table),
        "skipped": done.skipped,
        "missing": len(done.missing),
        "diverged": failed,
        "lost": list(done.lost),
        "files": [str(path) for path in written],
    }
    if as_json:
        print_json(result)
    elif len(table) > failed:
        best = table.dropna(subset=["nrmse"]).sort_values("nrmse").groupby(["dataset", "output"], sort=False).head(3)
        options = [c for c in best.columns if c.startswith("option.")]
        names = ["dataset", "split", "output", *options, *SHOWN]
        rows = [
            [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in best[names].to_numpy().tolist()
        ]
        print_rows(f"The best of {len(table)} runs", [name.removeprefix("option.") for name in names], rows)
        say(f"Wrote {', '.join(map(str, written))}.")
    if done.missing:
        reason = done.lost[0] if done.lost else f"nothing was written to {chosen.directory}"
        raise FitError(
            f"{len(done.missing)} of {len(done.runs)} runs have no record ({reason}); "
            "give the same command again to go on with them."
        )
