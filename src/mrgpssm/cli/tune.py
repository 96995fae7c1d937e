"""`mrgpssm tune`: resolutions and sizes found by trials on a validation free run."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import Json, Quiet
from mrgpssm.cli.show import print_json, say
from mrgpssm.estimator.config import resolve_config
from mrgpssm.file import read_toml, write_atomic
from mrgpssm.sweep.tune import make_tune
from mrgpssm.sweep.tune import tune as search


def tune(
    config: Annotated[Path, typer.Argument(help="A TOML file: that of a fit, with validation files, and [tune].")],
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the trials.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search for options; trials that are in the journal are not run again. Leaves best.toml, for `mrgpssm fit`."""
    chosen = make_tune(read_toml(config), str(config))
    best = search(chosen, workers, lambda line: None if quiet else say(line, err=True))
    folder = Path(chosen.run.run.directory)
    final = resolve_config(chosen.run, chosen.run.spec.change(**best.options))
    final = replace(final, run=replace(final.run, directory=str(folder / "best")))
    path = folder / "best.toml"
    write_atomic(path, final.to_toml().encode())
    if as_json:
        print_json(asdict(best) | {"metric": chosen.metric, "config": str(path)})
        return
    say(f"Best of {best.trials} trials: {chosen.metric} {best.value:.4g} with {best.options}.")
    say(f"Wrote {path}. Try: mrgpssm fit {path}")
