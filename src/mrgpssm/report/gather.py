"""Gather the evidence of a run: the only part of a report that reads files and simulates. It simulates once."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.data import Sequence as Series
from mrgpssm.data import apply_drive, match
from mrgpssm.data.doubts import doubt_inputs, doubt_scores, was_seen
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.estimator.config import RunConfig, make_config, read_config
from mrgpssm.file import read_bytes, read_json, read_tensors
from mrgpssm.file.tensors import BLEND_KIND, find_model, read_kind
from mrgpssm.prediction.drift import extract_learned
from mrgpssm.prediction.fitted import UNCALIBRATED, FittedModel, parse_model
from mrgpssm.prediction.forecast import FINE_LEVELS, Forecast
from mrgpssm.prediction.predict import forecast
from mrgpssm.report.evidence import OtherModel, RunEvidence, SimulatedRecording, TrainingData, make_drawable
from mrgpssm.report.trace import read_trace
from mrgpssm.training.runs import RunDirectory

_CALIBRATED = "The bands were calibrated on these recordings; others, with --data, say how good they are."
_AGAIN = "again"  # the folder of a repeated run


def gather(
    root: Path,
    data: Sequence[str] = (),
    *,
    time: str | None = None,
    samples: int = 100,
    seed: int = 0,
    notes: str = "",
    compare: Sequence[Path] = (),
) -> RunEvidence:
    """The evidence of a finished run on the given test files, or else on its validation or training files."""
    run = RunDirectory(root)
    if not root.is_dir():
        raise ConfigError(f"{root}: there is no such folder; give the folder of a run.")
    find_model(root)
    model = _read_model(run)
    config = make_config(read_config(run.config), str(run.config)) if run.config.exists() else None
    rivals = tuple(_read_rival(path, model.output_names) for path in compare)
    files, known = (data, False) if data else _find_files(config, root)
    calibrated = (_CALIBRATED,) if config and files is config.data.validation else ()
    test = _read(model, config, files, time)
    identity = read_json(run.identity) if run.identity.exists() else {}
    return assemble(
        model,
        test,
        simulate_all(model, test, samples, seed),
        name=root.resolve().name,
        notes=notes,
        samples=samples,
        training=_read_training(model, config),
        trace=read_trace(run.trace),
        known=known,
        more_doubts=calibrated if model.calibrated else (f"{UNCALIBRATED[0].upper()}{UNCALIBRATED[1:]}.",),
        rivals=rivals,
        packages=dict(identity.get("packages", {})),
        config=read_bytes(run.config).decode("utf-8", "replace") if run.config.exists() else "",
        commands=_list_commands(
            run,
            {"--data": data, "--compare": compare},
            {"--note": notes, "--time": time, "--samples": samples, "--seed": seed},
        ),
    )


def _read_model(run: RunDirectory) -> FittedModel:
    """The state-space model of a run; that of a blend has a folder of its own."""
    data = read_tensors(run.model)
    if read_kind(data, str(run.model)) == BLEND_KIND:
        raise ConfigError(
            f"{run.root} holds a blend, and a report is about a state-space model: mrgpssm report "
            f"{run.root / 'parts' / 'mrgpssm'} --data FILE; mrgpssm evaluate {run.root} FILE scores the blend."
        )
    return parse_model(data, str(run.model))


def simulate_all(model: FittedModel, test: Iterable[Series], samples: int, seed: int) -> list[Forecast]:
    """A free run over every recording, with the quantiles a report draws."""
    settings: dict[str, Any] = {"samples": samples, "seed": seed, "stride": 1, "quantiles": FINE_LEVELS}
    return [forecast(model, sequence, None, keep_samples=False, **settings) for sequence in test]


def assemble(
    model: FittedModel,
    test: Sequence[Series],
    runs: Sequence[Forecast],
    *,
    training: Sequence[Series] | None,
    known: bool = False,
    more_doubts: tuple[str, ...] = (),
    **about: Any,
) -> RunEvidence:
    """Evidence from data in memory; `about` are further fields of `RunEvidence`.

    Recordings count as seen in training if the model recognises them, and all of them if `known` is true.
    """
    for column, name in enumerate(model.output_names):
        if all(np.isnan(s.outputs[:, column]).all() for s in test):
            raise DataError(f"Output {name!r} has no measured value in the test data; give recordings that have it.")
    recordings = []
    for s, run in zip(test, runs, strict=True):
        shown, lost = make_drawable(run, s.outputs)
        place = (s.name, s.clock() * s.dt, s.inputs, s.outputs)
        recordings.append(SimulatedRecording(*place, shown, s.time is None, lost, known or was_seen(model.seen, s)))
    doubts = (*(() if model.seen is None else model.seen.doubts), *more_doubts)
    return RunEvidence(
        input_names=model.input_names,
        drive_names=model.drive_names,
        output_names=model.output_names,
        units=model.units,
        dt=model.dt,
        options=model.spec.to_json(),
        recordings=tuple(recordings),
        learned=extract_learned(model, np.concatenate([apply_drive(model.structure.drive, s).inputs for s in test])),
        training=None if training is None else _show_training(training),
        doubts=(*doubts, *doubt_scores(model.seen, test), *doubt_inputs(model.seen, test)),
        **about,
    )


def _find_files(config: RunConfig | None, root: Path) -> tuple[Sequence[str], bool]:
    """The files of a run to test it on, and whether they are its training data."""
    if config is None:
        raise ConfigError(f"{root} was not trained from files; name the test data with --data FILE.")
    return (config.data.validation, False) if config.data.validation else (config.data.files, True)


def _read(model: FittedModel, config: RunConfig | None, files: Sequence[str], time: str | None) -> list[Series]:
    clock = time or (config.data.time if config else None)
    columns = Columns(model.input_names, model.output_names, clock, None if clock else model.dt)
    gaps: Any = config.data.gaps if config else "split"
    names = (model.input_names, model.output_names, model.dt)
    return [match(s, *names) for s in read_sequences(list(files), columns, gaps=gaps)]


def _read_training(model: FittedModel, config: RunConfig | None) -> list[Series] | None:
    """The training recordings, if their files still exist."""
    try:
        return None if config is None else _read(model, config, config.data.files, None)
    except DataError:
        return None


def _show_training(training: Sequence[Series]) -> TrainingData:
    inputs, outputs = (np.concatenate([getattr(s, side) for s in training]) for side in ("inputs", "outputs"))
    return TrainingData(tuple(s.name for s in training), tuple(map(len, training)), inputs, outputs)


def _read_rival(root: Path, outputs: tuple[str, ...]) -> OtherModel:
    """The resolutions of another run, and its RMSE on its validation data."""
    run = RunDirectory(root)
    if not (run.metrics.exists() and run.identity.exists()):
        raise ConfigError(f"{root} holds no run with scores; --compare takes runs that were trained with --validation.")
    scores = read_json(run.metrics).get("validation", {})
    resolutions = tuple(read_json(run.identity).get("options", {}).get("resolutions", ()))
    rmse = {name: scores[name]["rmse"] for name in outputs if name in scores}
    return OtherModel(root.resolve().name, resolutions, rmse)


def _list_commands(run: RunDirectory, lists: dict[str, Sequence[object]], single: dict[str, object]) -> tuple[str, ...]:
    """The shell commands that repeat the run and this report; a run made in Python is only reported."""
    made = run.config.exists()
    fit = ["mrgpssm", "fit", str(run.config), "--run-dir", _AGAIN]
    options = [(option, value) for option, values in lists.items() for value in values]
    options += [(option, value) for option, value in single.items() if value not in (None, "")]
    report = ["mrgpssm", "report", _AGAIN if made else str(run.root)]
    report += [str(word) for pair in options for word in pair]
    return tuple(shlex.join(line) for line in ([fit, report] if made else [report]))
