"""`mrgpssm fit` and `mrgpssm resume`."""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mrgpssm.arrays.drive import Drive
from mrgpssm.blend import Blend, StaticGP, StaticTrees
from mrgpssm.cli.flags import Dt, GapsName, InputNames, Json, OutputNames, Quiet, TimeName, split_names, with_options
from mrgpssm.cli.show import collect_warnings, print_json, print_rows, print_scores, say
from mrgpssm.data.sequence import Sequence
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.errors import ConfigError
from mrgpssm.estimator.config import DataConfig, RunConfig, make_config, read_config, resolve_config
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.file import write_atomic
from mrgpssm.spec import Spec, sort_options
from mrgpssm.training.runs import RunDirectory

_FOLDS = 4  # of a blend, where none are given


@with_options
def fit(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; flags override it.")] = None,
    data: Annotated[list[str] | None, typer.Option(help="A file, folder or pattern; repeat for more.")] = None,
    validation: Annotated[list[str] | None, typer.Option(help="Files to calibrate the bands on; scored, too.")] = None,
    inputs: Annotated[str | None, InputNames] = None,
    outputs: Annotated[str | None, OutputNames] = None,
    time: TimeName = None,
    dt: Dt = None,
    gaps: Annotated[str | None, GapsName] = None,
    run_dir: Annotated[str | None, typer.Option(help="Folder of the run.")] = None,
    checkpoint_seconds: Annotated[float | None, typer.Option(help="Seconds between checkpoints.")] = None,
    blend: Annotated[
        bool | None,
        typer.Option("--blend", help="Blend the model with a Gaussian process and boosted trees of the inputs."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate memory and time; train nothing.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Learn a model from tables and leave it in a run folder."""
    names = {"inputs": [*split_names(inputs or "")], "outputs": [*split_names(outputs or "")]}
    given: dict[str, dict[str, Any]] = {
        "data": {"files": data, "validation": validation, "gaps": gaps, "time": time, "dt": dt, **names},
        "run": {"directory": run_dir, "checkpoint_seconds": checkpoint_seconds, "blend": blend},
        **sort_options(options),
    }
    if config is not None and config.suffix != ".toml":
        raise ConfigError(f"{config}: a configuration ends in .toml; for more data quote the pattern or repeat --data.")
    tables = {} if config is None else read_config(config)
    for section, flags in given.items():
        told = {key: value for key, value in flags.items() if value not in (None, [])}
        tables[section] = tables.get(section, {}) | told
    chosen = make_config(tables, "command line" if config is None else str(config))
    if dry_run:
        if chosen.run.blend:
            raise ConfigError("--dry-run estimates the state-space model alone; use it without --blend.")
        _estimate(chosen, as_json)
        return
    _refuse_used(Path(chosen.run.directory))
    _train(chosen, quiet, as_json, fresh=True)


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of a run that was cut short.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run where its last checkpoint left it."""
    if not (run / "config.toml").exists():
        raise ConfigError(f"{run}: there is no run here (config.toml is missing); start one with mrgpssm fit.")
    if (run / "model.mrgpssm").exists():
        raise ConfigError(f"{run}: this run is finished; its model is {run / 'model.mrgpssm'}.")
    config = make_config(read_config(run / "config.toml"), str(run / "config.toml"))
    _train(replace(config, run=replace(config.run, directory=str(run))), quiet, as_json, fresh=False)


def _train(config: RunConfig, quiet: bool, as_json: bool, fresh: bool) -> None:
    run = RunDirectory(Path(config.run.directory), config.run.checkpoint_seconds)
    spec, (model, training, validation) = config.spec, _prepare(config)
    if config.run.blend:
        model = _make_blend(model, spec)
    else:
        checked, *_ = model.check(training, bool(validation))
        checked.check_evidence(bool(validation))
    if not quiet:
        _tell_reading(config.data, training)
    with run.claim(), collect_warnings() as doubts:
        if fresh:
            _refuse_used(run.root)  # once more: only now nobody else can write to it
            write_atomic(run.config, resolve_config(config, spec).to_toml().encode())
        model.fit(training, validation or None, progress=not quiet, run_dir=run)
        if isinstance(model, MRGPSSM):
            write_atomic(run.config, resolve_config(config, model.fitted_.spec).to_toml().encode())
    if as_json:
        print_json({"run": str(run.root), "model": str(run.model), "warnings": doubts} | _list_results(model))
    elif isinstance(model, Blend):
        _print_blend(model)
        say(f"Wrote {run.model}. Try: mrgpssm evaluate {run.root} DATA, mrgpssm simulate {run.root} DATA --out FILE")
    else:
        _print_model(model, "validation files" if validation else "files that each fold left out")
        say(f"Wrote {run.model}. Try: mrgpssm report {run.root}, mrgpssm simulate {run.root} DATA --out FILE")


def _make_blend(model: MRGPSSM, spec: Spec) -> Blend:
    """A blend of the model with two static simulators that see what it sees of the inputs."""
    seen: dict[str, Any] = {option.name: getattr(spec.structure, option.name) for option in fields(Drive)}
    static = [part(**seen, seed=spec.training.seed) for part in (StaticGP, StaticTrees)]
    return Blend([model, *static], spec.bands.folds or _FOLDS, spec.training.seed)


def _list_results(model: MRGPSSM | Blend) -> dict[str, Any]:
    """What a fit found, for machines."""
    tables, bounds = {"validation": model.validation_scores_}, {}
    if isinstance(model, Blend):
        tables["shares"] = model.shares_
    else:
        tables["before_calibration"] = model.uncalibrated_scores_
        rows = model.bounds_.tolist()
        bounds["bounds"] = [[b if math.isfinite(b) else None for b in row] for row in rows]  # JSON has no infinity
    return bounds | {key: table.to_dict("index") for key, table in tables.items() if table is not None}


def _print_blend(blend: Blend) -> None:
    if blend.validation_scores_ is not None:
        print_scores("Free run over the files that were left out", blend.validation_scores_)
    rows = [[str(part), *(f"{100 * share:.0f} %" for share in own)] for part, own in blend.shares_.iterrows()]
    print_rows("Shares of the parts", ["", *blend.shares_.columns], rows)


def _print_model(model: MRGPSSM, what: str) -> None:
    """Scores on the files that were not trained on, and what calibration did to the bands of every output."""
    before, after = model.uncalibrated_scores_, model.validation_scores_
    structure = model.fitted_.structure
    if adding := [part for part in range(len(structure.resolutions)) if structure.integrating(part)]:
        most = float(model.growth_[:, adding].max())
        say(f"An integrator does not fade: without noise its state moves at most {most:.2g} (scaled) from row to row.")
    if before is None or after is None:
        say("The bands are not calibrated: that takes --validation FILES or --folds 4.")
        return
    print_scores(f"Free run over the {what}", after)
    if not model.bands.calibrate:
        return
    if model.fitted_.noise is None:
        changed = [f"width x {factor:.2f}" for factor in model.fitted_.calibration]
    else:
        changed = [f"Student's t with {dof:.1f} degrees of freedom" for dof in model.fitted_.noise.dof]
    old, new = 100 * before["coverage_90"], 100 * after["coverage_90"]
    changes = (
        f"{name}: {change}, 90 % bands cover {old[name]:.0f} -> {new[name]:.0f} %"
        for name, change in zip(after.index, changed, strict=True)
    )
    say(f"Bands calibrated on these files. {'; '.join(changes)}.")


def _prepare(config: RunConfig):
    """The model, the training and the validation sequences; all that can be wrong is found here."""
    columns = Columns(config.data.inputs, config.data.outputs, config.data.time, config.data.dt)
    model = MRGPSSM.from_spec(config.spec)
    training, validation = (
        read_sequences(list(files), columns, gaps=config.data.gaps) if files else []  # pyright: ignore[reportArgumentType]
        for files in (config.data.files, config.data.validation)
    )
    return model, training, validation


def _tell_reading(data: DataConfig, training: list[Sequence]) -> None:
    """How time was read where that may surprise: rows without a clock, and recordings cut at gaps."""
    if data.time is None and data.dt is None:
        say(f"Rows count as {training[0].dt:g} s apart; if they are not, give --time COLUMN or --dt SECONDS.", err=True)
    parts = [s.name for s in training if ", part " in s.name]
    if parts:
        say(f"Cut at gaps in time: {', '.join(parts[:6])}{', ...' if len(parts) > 6 else ''}.", err=True)


def _estimate(config: RunConfig, as_json: bool) -> None:
    model, training, validation = _prepare(config)
    with collect_warnings() as doubts:
        cost = model.estimate(training, validation or None)
    if as_json:
        print_json(cost | {"warnings": doubts})
        return
    rows = [
        ["rows of the recordings", f"{cost['rows']:,}"],
        ["models trained side by side", f"{cost['members']}"],
        ["gradient steps", f"{cost['steps']:,}"],
        ["one step, measured", f"{1000 * cost['step_seconds']:.0f} ms"],
        ["sweeps over the data, measured", f"{cost['sweep_seconds']:.0f} s"],
        *([f"time of {stage}", f"{seconds / 60:.1f} min"] for stage, seconds in cost["stages"].items()),
        ["time in all", f"{cost['seconds'] / 60:.1f} min"],
        ["memory of the process, about", f"{cost['megabytes']:,.0f} MB"],
    ]
    print_rows("What this fit would take on this machine", ["", "estimate"], rows)


def _refuse_used(root: Path) -> None:
    if (root / "model.mrgpssm").exists():
        raise ConfigError(f"{root} holds a finished run; give another --run-dir, or delete it.")
    if (root / "run.json").exists() or any(root.glob("trials/*/run.json")):
        raise ConfigError(f"{root} holds a run that was cut short; go on with: mrgpssm resume {root}")
