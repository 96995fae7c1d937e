"""`mrgpssm export`: write the mean model for other machines."""

from pathlib import Path
from typing import Annotated

import typer

from mrgpssm.cli.flags import ModelPath
from mrgpssm.cli.show import say
from mrgpssm.errors import ConfigError
from mrgpssm.export import c_source
from mrgpssm.export.stablehlo import stablehlo
from mrgpssm.file import write_atomic
from mrgpssm.file.tensors import find_model
from mrgpssm.prediction.fitted import read_model
from mrgpssm.runtime import load


def export(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    form: Annotated[str, typer.Option("--format", help="c or stablehlo.")] = "c",
    name: Annotated[str, typer.Option(help="Prefix of the C names.")] = "mrgpssm",
) -> None:
    """Write the mean model as one C99 file without dependencies, or as a StableHLO program for `jax.export`."""
    if form not in ("c", "stablehlo"):
        raise ConfigError(f"--format must be c or stablehlo; got {form!r}.")
    path = find_model(model)
    data = c_source(load(path), name).encode() if form == "c" else stablehlo(read_model(path))
    write_atomic(out, data)
    say(f"Wrote {out}: the mean model, {len(data):,} bytes.")
