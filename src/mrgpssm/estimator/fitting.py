"""The stages of a fit: options against data, training, and what is learned on data left out."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import (
    Data,
    Scaling,
    Seen,
    Sequence,
    apply_drive,
    as_list,
    check_alike,
    check_folds,
    check_lengths,
    fill,
    take_pairs,
    trained_on,
)
from mrgpssm.data.doubts import Asked
from mrgpssm.errors import ConfigError
from mrgpssm.estimator.choosing import best_restarts, fold_ensembles
from mrgpssm.estimator.judges import Judge
from mrgpssm.estimator.remember import remember
from mrgpssm.estimator.unseen import Judged, Stage, calibrate_model
from mrgpssm.file import make_directory
from mrgpssm.native import ready
from mrgpssm.prediction.fitted import FittedModel, read_model, write_model
from mrgpssm.spec import Spec
from mrgpssm.training import FleetFit, Plan, Progress, Snapshot, begin, fit_fleet, train_fleet
from mrgpssm.training.checkpoint import fingerprint
from mrgpssm.training.fleet import check_start
from mrgpssm.training.planning import fold_scalings, make_plan
from mrgpssm.training.runs import RunDirectory, session, write_json


def check_data(spec: Spec, training: list[Sequence]) -> None:
    """What the options ask of the data."""
    check_alike(training)
    outputs = len(training[0].output_names)
    identity = spec.structure.emission == "identity"
    if identity and spec.structure.joint and spec.structure.latent_dim < outputs:
        raise ConfigError(
            f"latent_dim must be at least {outputs} to model {outputs} outputs jointly; "
            f'got {spec.structure.latent_dim}. Raise it, or use joint=False or emission="linear".'
        )
    check_start(spec)
    spec.check_refit()
    window_steps = spec.training.buffer + spec.training.window
    check_lengths(_fill_all(training), spec.structure.resolutions, window_steps)
    check_folds(training, spec.bands.folds)
    for k in range(spec.bands.folds):
        check_lengths(_fill_all(trained_on(training, spec.bands.folds, k)), spec.structure.resolutions, window_steps)


def _fill_all(sequences: list[Sequence]) -> list[Sequence]:
    """The sequences as they are walked: gaps filled."""
    return [fill(s).sequence for s in sequences]


def ask_of_data(spec: Spec) -> Asked:
    """What the options ask of the amount of data."""
    return Asked(
        max(spec.structure.resolutions) * (spec.training.buffer + spec.training.window),
        spec.structure.inducing,
        spec.bands.folds,
    )


def match_validation(spec: Spec, first: Sequence, validation: Data | None) -> list[Sequence] | None:
    """The validation sequences with the columns of training; some options cannot do without."""
    spec.check_evidence(validation is not None)
    names = (first.input_names, first.output_names, first.dt)
    return None if validation is None else as_list(validation, *names)


class Field(NamedTuple):
    """What a model is learned on: training data, validation sequences where there are some, and the run's folder."""

    training: list[Sequence]
    held_out: list[Sequence] | None
    run: RunDirectory | None

    def scale(self, spec: Spec) -> Scaling:
        """The scaling of what drives a model."""
        return Scaling.fit(apply_drive(spec.structure.drive, s) for s in self.training)


def train(field: Field, spec: Spec, report: Callable[[Progress], None], begun: Snapshot | None = None) -> FleetFit:
    """Train all members to the end: from the last checkpoint of the run, else from where training has `begun`."""
    with _prepare(field, spec, report, begun) as given:
        return fit_fleet(*given)


def train_some(
    field: Field, spec: Spec, report: Callable[[Progress], None], cycles: int, cool: bool = True
) -> tuple[Snapshot, Snapshot]:
    """The first cycles of the same, and one more at the lowest learning rate, to judge by; reports count only these."""
    each = len(spec.structure.resolutions)
    total = (cycles + 1) * each * spec.training.steps
    alone = lambda progress: report(replace(progress, total=total))  # noqa: E731
    with _prepare(field, spec, alone, None, cycles * each) as given:
        here, plan = train_fleet(*given, cycles * each), given[0]
        if not (cool and cycles):
            return here, here
        return here, train_fleet(plan.cool(cycles), here, alone)


@contextmanager
def _prepare(
    field: Field, spec: Spec, report: Callable[[Progress], None], begun: Snapshot | None, turns: int | None = None
) -> Iterator[tuple[Plan, Snapshot, Callable[[Progress], None], Callable[[Snapshot], None]]]:
    """The plan, where to start, and who hears of progress and of snapshots: in a run its trace and checkpoints."""
    with floating_point(spec.structure.precision):
        plan, ssm = make_plan(spec, field.training, field.scale(spec), field.held_out or [])
        start, first = begun or begin(plan, ssm), field.training[0]
        if field.run is None:
            yield plan, start, report, lambda _: None
            return
        # Both paths agree, but not bit for bit: a run goes on by the one it began with.
        settings: dict[str, Any] = spec.to_json() | {"native_kernel": ready()}
        identity = {
            "options": settings,
            "inputs": list(first.input_names),
            "outputs": list(first.output_names),
            "dt": first.dt,
            "rows": sum(map(len, field.training)),
            "sequences": len(field.training),
        }
        field.run.identify(fingerprint(plan, settings), identity)
        with session(field.run, start, turns or len(plan.schedule), report) as callbacks:
            yield plan, *callbacks


def name_stages(stage: Callable[[str], None]) -> Stage:
    """What people are told of calibration."""
    return lambda what, whose: stage(f"calibration: {what} of {whose}")


def judge(
    model: FittedModel, judges: list[Judge], held_out: list[Sequence] | None, stage: Callable[[str], None]
) -> Judged:
    """Bands and scores on data that training has not seen, where there is some."""
    folds = {} if held_out else {judge.number: judge.model for judge in judges}
    if model.spec.bands.folds and not judges:
        warnings.warn("All folds were given up in training, so the bands are not calibrated.", stacklevel=3)
    found = calibrate_model(model, judges, name_stages(stage))
    return replace(found, folds=folds)


def leave_model(run: RunDirectory, found: Judged) -> None:
    """The models of the folds and the scores, where there are some, then the model: a run that has it is finished."""
    for number, fold in found.folds.items():
        make_directory(run.folds)
        write_model(run.folds / f"{number + 1}.mrgpssm", fold)
    if found.before is not None and found.after is not None:
        scores = {"validation": found.after, "before_calibration": found.before}
        write_json(run.metrics, {name: table.to_dict("index") for name, table in scores.items()})
    write_model(run.model, found.model)


def read_folds(run: RunDirectory) -> dict[int, FittedModel]:
    """The models of the folds that a finished run has left, by number."""
    return {int(path.stem) - 1: read_model(path) for path in sorted(run.folds.glob("*.mrgpssm"))}


def list_judges(field: Field, spec: Spec, fleet: FleetFit) -> tuple[FittedModel, list[Judge]]:
    """The model of a fleet, and who judges it on what they have not seen."""
    model = remember(best_restarts(spec, fleet, field.scale(spec), field.training[0]), field.training)
    return model, make_judges(model, fleet, field.training, field.held_out)


def make_judges(
    model: FittedModel, fleet: FleetFit, training: list[Sequence], held_out: list[Sequence] | None
) -> list[Judge]:
    """The model with the validation sequences; without them that of every fold, in its own units."""
    if held_out:
        return [Judge(model, held_out, "the validation recordings")]
    folds, scalings, found = model.spec.bands.folds, fold_scalings(model.spec, training, model.scaling), []
    for k, ensemble in fold_ensembles(model.spec, fleet, len(model.groups)):
        known = trained_on(training, folds, k)
        own = remember(replace(model, ensemble=ensemble, scaling=scalings[k], seen=Seen.of(known)), known)
        pasts, unseen = zip(*take_pairs(training, folds, k), strict=True)
        found.append(Judge(own, list(unseen), f"fold {k + 1} of {folds}", k, pasts))
    return found
