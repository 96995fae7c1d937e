"""`mrgpssm fit` and `mrgpssm resume`."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from mrgpssm.cli.flags import with_options
from mrgpssm.cli.show import collect_warnings, print_json, print_rows, print_scores, say
from mrgpssm.errors import ConfigError
from mrgpssm.estimator.config import RunConfig, make_config, read_config, resolve_config
from mrgpssm.spec import sort_options

Text = str | None
Number = float | None
_FOLDS = 4  # of a blend, where none are given


@with_options
def fit(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; flags override it.")] = None,
    data: Annotated[list[str] | None, typer.Option(help="A file, folder or pattern; repeat for more.")] = None,
    validation: Annotated[list[str] | None, typer.Option(help="Files to calibrate the bands on; scored, too.")] = None,
    inputs: Annotated[Text, typer.Option(help="Input columns, separated by commas.")] = None,
    outputs: Annotated[Text, typer.Option(help="Output columns, separated by commas.")] = None,
    time: Annotated[Text, typer.Option(help="The time column.")] = None,
    dt: Annotated[Number, typer.Option(help="Seconds between rows.")] = None,
    gaps: Annotated[Text, typer.Option(help="split, irregular or refuse: what a gap in time does.")] = None,
    run_dir: Annotated[Text, typer.Option(help="Folder of the run.")] = None,
    checkpoint_seconds: Annotated[Number, typer.Option(help="Seconds between checkpoints.")] = None,
    blend: Annotated[
        bool | None,
        typer.Option("--blend", help="Blend the model with a Gaussian process and boosted trees of the inputs."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate memory and time; train nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    *,
    options: dict[str, Any],
) -> None:
    """Learn a model from tables and leave it in a run folder."""
    columns = {"inputs": _split(inputs), "outputs": _split(outputs), "time": time, "dt": dt}
    given: dict[str, dict[str, Any]] = {
        "data": {"files": data, "validation": validation, "gaps": gaps, **columns},
        "run": {"directory": run_dir, "checkpoint_seconds": checkpoint_seconds, "blend": blend},
        **sort_options(options),
    }
    tables = {} if config is None else read_config(config)
    for section, flags in given.items():
        tables[section] = tables.get(section, {}) | {
            key: value for key, value in flags.items() if value not in (None, [])
        }
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
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Go on with a run where its last checkpoint left it."""
    from dataclasses import replace

    if not (run / "config.toml").exists():
        raise ConfigError(f"{run}: there is no run here (config.toml is missing); start one with mrgpssm fit.")
    if (run / "model.mrgpssm").exists():
        raise ConfigError(f"{run}: this run is finished; its model is {run / 'model.mrgpssm'}.")
    config = make_config(read_config(run / "config.toml"), str(run / "config.toml"))
    _train(replace(config, run=replace(config.run, directory=str(run))), quiet, as_json, fresh=False)


def _train(config: RunConfig, quiet: bool, as_json: bool, fresh: bool) -> None:
    from mrgpssm.estimator.estimator import MRGPSSM
    from mrgpssm.training.progress import announce
    from mrgpssm.training.runs import RunDirectory

    run = RunDirectory(Path(config.run.directory), config.run.checkpoint_seconds)
    model, training, validation = _prepare(config)
    if config.run.blend:
        _train_blend(config, run, model, (training, validation or None), quiet, as_json, fresh)
        return
    spec, *_ = model.check(training, bool(validation))
    spec.check_evidence(bool(validation))
    announce(() if quiet else model.chosen_)
    model = MRGPSSM.from_spec(spec)  # what is chosen from the data is chosen once
    with run.claim(), collect_warnings() as doubts:
        if fresh:
            _write_config(run, resolve_config(config, spec))
        model.fit(training, validation or None, not quiet, run)
    if as_json:
        print_json(_result(run, model) | {"warnings": doubts})
        return
    if model.validation_scores_ is not None:
        what = "validation files" if validation else "files that each fold left out"
        print_scores(f"Free run over the {what}", model.validation_scores_)
        if spec.bands.calibrate:
            say(_describe_calibration(model))
    say(f"Wrote {run.model}. Try: mrgpssm report {run.root}, mrgpssm simulate {run.root} DATA --out FILE")


def _train_blend(config: RunConfig, run, model, data, quiet: bool, as_json: bool, fresh: bool) -> None:
    """The same for a blend of the model with two static simulators that see what it sees of the inputs."""
    from mrgpssm.blend import Blend, StaticGP, StaticTrees

    spec = config.spec
    seen = {"filters": spec.structure.filters, "delays": spec.structure.delays, "seed": spec.training.seed}
    blend = Blend([model, StaticGP(**seen), StaticTrees(**seen)], spec.bands.folds or _FOLDS, spec.training.seed)
    with run.claim(), collect_warnings() as doubts:
        if fresh:
            _write_config(run, resolve_config(config, spec))
        blend.fit(*data, progress=not quiet, run_dir=run)
    shares, scores = blend.shares_, blend.validation_scores_
    if as_json:
        about = {"run": str(run.root), "model": str(run.model), "shares": shares.to_dict("index")}
        print_json(about | {"validation": scores.to_dict("index"), "warnings": doubts})  # pyright: ignore
        return
    if scores is not None:
        print_scores("Free run over the files that were left out", scores)
    rows = [[str(part), *(f"{100 * share:.0f} %" for share in own)] for part, own in shares.iterrows()]
    print_rows("Shares of the parts", ["", *shares.columns], rows)
    say(f"Wrote {run.model}. Try: mrgpssm evaluate {run.root} DATA, mrgpssm simulate {run.root} DATA --out FILE")


def _write_config(run, config: RunConfig) -> None:
    """The resolved configuration, in a folder that is claimed."""
    from mrgpssm.file import write_atomic

    _refuse_used(run.root)  # once more: only now nobody else can write to it
    write_atomic(run.config, config.to_toml().encode())


def _result(run, model) -> dict[str, Any]:
    """What a fit left, for machines."""
    bounds = [[b if math.isfinite(b) else None for b in row] for row in model.bounds_.tolist()]  # JSON has no infinity
    result: dict[str, Any] = {"run": str(run.root), "model": str(run.model), "bounds": bounds}
    if model.validation_scores_ is not None:
        result["validation"] = model.validation_scores_.to_dict("index")
        result["before_calibration"] = model.uncalibrated_scores_.to_dict("index")
    return result


def _describe_calibration(model) -> str:
    """What calibration did to the bands of every output."""
    before, after = (scores["coverage_90"] for scores in (model.uncalibrated_scores_, model.validation_scores_))
    if model.fitted_.noise is None:
        what = [f"width x {factor:.2f}" for factor in model.fitted_.calibration]
    else:
        what = [f"Student's t with {dof:.1f} degrees of freedom" for dof in model.fitted_.noise.dof]
    changes = (
        f"{name}: {change}, 90 % bands cover {100 * before[name]:.0f} -> {100 * after[name]:.0f} %"
        for name, change in zip(after.index, what, strict=True)
    )
    return f"Bands calibrated on these files. {'; '.join(changes)}."


def _prepare(config: RunConfig):
    """The model, the training and the validation sequences; all that can be wrong is found here."""
    from mrgpssm.data.tables import Columns, read_sequences
    from mrgpssm.estimator.estimator import MRGPSSM

    columns = Columns(config.data.inputs, config.data.outputs, config.data.time, config.data.dt)
    model = MRGPSSM.from_spec(config.spec)
    training, validation = (
        read_sequences(list(files), columns, gaps=config.data.gaps) if files else []  # pyright: ignore[reportArgumentType]
        for files in (config.data.files, config.data.validation)
    )
    return model, training, validation


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
    if (root / "run.json").exists():
        raise ConfigError(f"{root} holds a run that was cut short; go on with: mrgpssm resume {root}")


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
