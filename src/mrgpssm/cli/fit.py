"""`mrgpssm fit` and `mrgpssm resume`."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from mrgpssm.cli.show import collect_warnings, print_json, print_rows, print_scores, say
from mrgpssm.errors import ConfigError
from mrgpssm.estimator.config import RunConfig, make_config, read_config, resolved

Text = str | None
Whole = int | None
Number = float | None


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
    resolutions: Annotated[
        Text, typer.Option(help="Such as 30,5,1: samples per step of every component; left out, chosen from the data.")
    ] = None,
    filters: Annotated[
        Text, typer.Option(help="Such as 10,60,300: time constants, in rows, of averages of the inputs.")
    ] = None,
    delays: Annotated[Text, typer.Option(help="Such as 5: rows by which copies of the inputs are delayed.")] = None,
    static: Annotated[
        Whole, typer.Option(help="Rows of an instantaneous component, weighed on unseen data; 0 is none.")
    ] = None,
    trees: Annotated[
        Whole, typer.Option(help="Boosted trees of the inputs, weighed on unseen data; 0 is none.")
    ] = None,
    latent_dim: Annotated[Whole, typer.Option(help="Latent dimensions of a component.")] = None,
    inducing: Annotated[Whole, typer.Option(help="Inducing points.")] = None,
    samples: Annotated[Whole, typer.Option(help="Trajectories per window in training.")] = None,
    windows: Annotated[Whole, typer.Option(help="Windows per mini-batch.")] = None,
    window: Annotated[Whole, typer.Option(help="Scored points of a window.")] = None,
    buffer: Annotated[Whole, typer.Option(help="Points of a window before scoring starts.")] = None,
    cycles: Annotated[Whole, typer.Option(help="Backfitting cycles.")] = None,
    steps: Annotated[Whole, typer.Option(help="Steps per component and cycle.")] = None,
    learning_rate: Annotated[Number, typer.Option(help="Step size of the optimiser.")] = None,
    anneal: Annotated[Number, typer.Option(help="Last factor on the learning rate.")] = None,
    restarts: Annotated[Whole, typer.Option(help="Random starts; --ensemble says how many are kept.")] = None,
    ensemble: Annotated[Whole, typer.Option(help="How many of the restarts are kept, the best, as a mixture.")] = None,
    preset: Annotated[Text, typer.Option(help="stable or paper.")] = None,
    precision: Annotated[Text, typer.Option(help="float32 or float64.")] = None,
    window_start: Annotated[Text, typer.Option(help="cache or initial.")] = None,
    order: Annotated[Text, typer.Option(help="fast-first or given.")] = None,
    joint: Annotated[bool | None, typer.Option("--joint/--separate", help="One model for all outputs.")] = None,
    calibrate: Annotated[
        bool | None, typer.Option("--calibrate/--no-calibrate", help="Adjust the bands on the validation files.")
    ] = None,
    folds: Annotated[Whole, typer.Option(help="Models that leave a part of the files out, to calibrate on it.")] = None,
    noise: Annotated[
        Text, typer.Option(help="gaussian; student: heavy tails, varying width; boosted: trees help.")
    ] = None,
    finetune: Annotated[Whole, typer.Option(help="Cycles in which all components train together at the end.")] = None,
    cascade: Annotated[
        bool | None, typer.Option("--cascade/--no-cascade", help="States of slow components drive the faster ones.")
    ] = None,
    optimiser: Annotated[Text, typer.Option(help="adam, or natural: natural gradients for q(v).")] = None,
    early_stopping: Annotated[
        bool | None, typer.Option("--early-stopping/--to-the-end", help="Keep the best cycle on unseen data.")
    ] = None,
    seed: Annotated[Whole, typer.Option(help="Seed of everything random.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate memory and time; train nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn a model from tables and leave it in a run folder."""
    given: dict[str, dict[str, Any]] = {
        "data": {"files": data, "validation": validation, "inputs": _split(inputs), "outputs": _split(outputs),
                 "time": time, "dt": dt, "gaps": gaps},
        "run": {"directory": run_dir, "checkpoint_seconds": checkpoint_seconds},
        "model": {"resolutions": _numbers(resolutions, int, "--resolutions takes whole numbers", "30,5,1"),
                  "filters": _numbers(filters, float, "--filters takes numbers", "10,60,300"),
                  "delays": _numbers(delays, int, "--delays takes whole numbers", "5,20"), "static": static,
                  "trees": trees,
                  "latent_dim": latent_dim, "inducing": inducing, "samples": samples, "windows": windows,
                  "window": window, "buffer": buffer, "cycles": cycles, "steps": steps,
                  "learning_rate": learning_rate, "anneal": anneal, "restarts": restarts,
                  "ensemble": ensemble, "preset": preset, "precision": precision, "window_start": window_start,
                  "order": order, "joint": joint, "calibrate": calibrate, "folds": folds, "noise": noise,
                  "finetune": finetune, "cascade": cascade, "optimiser": optimiser, "early_stopping": early_stopping,
                  "seed": seed},
    }  # fmt: skip
    tables = {} if config is None else read_config(config)
    for section, flags in given.items():
        tables[section] = tables.get(section, {}) | {
            key: value for key, value in flags.items() if value not in (None, [])
        }
    chosen = make_config(tables, "command line" if config is None else str(config))
    if dry_run:
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
    from mrgpssm.file import write_atomic
    from mrgpssm.spec.options import check_calibration
    from mrgpssm.training.progress import announce
    from mrgpssm.training.runs import RunDirectory

    run = RunDirectory(Path(config.run.directory), config.run.checkpoint_seconds)
    model, training, validation = _prepare(config)
    options, *_ = model.check(training, bool(validation))
    check_calibration(options, bool(validation))
    announce(() if quiet else model.chosen_)
    model = MRGPSSM(**options.to_json())  # what is chosen from the data is chosen once
    with run.claim(), collect_warnings() as doubts:
        if fresh:
            _refuse_used(run.root)  # once more: only now nobody else can write to it
            write_atomic(run.config, resolved(config, options.to_json()).to_toml().encode())
        model.fit(training, validation or None, not quiet, run)
    if as_json:
        print_json(_result(run, model) | {"warnings": doubts})
        return
    if model.validation_scores_ is not None:
        what = "validation files" if validation else "files that each fold left out"
        print_scores(f"Free run over the {what}", model.validation_scores_)
        if options.calibrate:
            say(_calibrated(model))
    say(f"Wrote {run.model}. Try: mrgpssm report {run.root}, mrgpssm simulate {run.root} DATA --out FILE")


def _result(run, model) -> dict[str, Any]:
    """What a fit left, for machines."""
    bounds = [[b if math.isfinite(b) else None for b in row] for row in model.bounds_.tolist()]  # JSON has no infinity
    result: dict[str, Any] = {"run": str(run.root), "model": str(run.model), "bounds": bounds}
    if model.validation_scores_ is not None:
        result["validation"] = model.validation_scores_.to_dict("index")
        result["before_calibration"] = model.uncalibrated_scores_.to_dict("index")
    return result


def _calibrated(model) -> str:
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
    from mrgpssm.spec.options import check_options

    columns = Columns(config.data.inputs, config.data.outputs, config.data.time, config.data.dt)
    model = MRGPSSM(**config.model)
    check_options(model.get_params())
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


def _numbers(text: str | None, kind: type, rule: str, example: str) -> list | None:
    if text is None:
        return None
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{rule} separated by commas, such as {example}; got {text!r}.") from None
