"""The fitted model: what training leaves, in memory and in model files (`mrgpssm.file.model`)."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.arrays.drive import Memory
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Filled, Scaling, Seen, Sequence, apply_drive, follow_drive
from mrgpssm.file import fill, named_leaves, read_tensors, write_atomic
from mrgpssm.file.model import StoredModel, pack_model, unpack_model
from mrgpssm.model import SSM, Component
from mrgpssm.prediction.provenance import Provenance
from mrgpssm.runtime.horizon import Horizon
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import OutputLaw
from mrgpssm.runtime.paths import PathLaw
from mrgpssm.runtime.territory import Territory
from mrgpssm.spec import Spec, Structure
from mrgpssm.training.members import model_shape

UNCALIBRATED = "the bands are not calibrated; validation recordings, or Bands(folds=4), would do it"


@dataclass(frozen=True)
class FittedModel:
    """What training leaves: one or more models per group of output columns, and the way to the data's units.

    `ensemble` holds rounds: the best restart of every group, the second best of every group, and so on. Deviations of
    samples from their mean are multiplied by `calibration`, one factor per output; `noise` and `paths` are the laws of
    measurements and of their trajectories, `territory` is what training has seen, and `horizon` what a warm-up tells,
    where they were learned. `seen` is what is remembered of the training data to recognise it, and `provenance` how the
    model was made.
    """

    structure: Structure
    ensemble: tuple[tuple[SSM[Component], ...], ...]
    scaling: Scaling
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    calibration: np.ndarray
    provenance: Provenance
    noise: StudentNoise | None = None
    paths: PathLaw | None = None
    territory: Territory | None = None
    horizon: Horizon | None = None
    seen: Seen | None = None

    @property
    def spec(self) -> Spec:
        """All options of the fit; those of training and bands have their defaults where nothing is known of them."""
        return Spec(self.structure, self.provenance.training, self.provenance.bands)

    @property
    def calibrated(self) -> bool:
        """Whether bands were learned on data that training has not seen; early files hold no law of trajectories."""
        return self.paths is not None or self.noise is not None or bool((self.calibration != 1).any())

    def describe(self) -> str:
        """In a few words."""
        bands = "calibrated" if self.calibrated else "not calibrated"
        return f"resolutions {self.structure.resolutions}, of {', '.join(self.output_names)}, bands {bands}"

    @property
    def bounds(self) -> np.ndarray:
        """(groups, restarts) lower bounds on the training data; without restarts where nothing is known of them."""
        return self.provenance.bounds

    @functools.cached_property
    def output_law(self) -> OutputLaw:
        """How measurements follow from samples of the outputs."""
        with floating_point(self.structure.precision):
            noise = [[np.asarray(ssm.observation_variance(), float) for ssm in models] for models in self.ensemble]
        paths = PathLaw.white(len(self.output_names)) if self.paths is None else self.paths
        noise_sd = np.sqrt([np.concatenate(row) for row in noise])
        return OutputLaw(self.calibration, noise_sd, self.noise, paths, self.territory, self.horizon)

    @property
    def models(self) -> tuple[SSM[Component], ...]:
        """The best restart of every group."""
        return self.ensemble[0]

    @property
    def drive_names(self) -> tuple[str, ...]:
        """What the model is driven by: inputs, their averages and delayed copies."""
        return self.structure.drive.names(self.input_names)

    def drive(self, sequence: Sequence) -> np.ndarray:
        """What drives the model at every row, scaled."""
        return self.scaling.inputs(apply_drive(self.structure.drive, sequence).inputs)

    def follow(self, filled: Filled, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
        """What is known of the inputs at filled rows, scaled, after those in memory; and what is remembered then."""
        drive, after = follow_drive(self.structure.drive, filled, memory)
        return self.scaling.inputs(drive), after

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The output columns of every model."""
        return self.structure.groups(len(self.output_names))


def store_model(model: FittedModel) -> StoredModel:
    """The model as a file holds it."""
    return StoredModel(
        structure=model.structure,
        input_names=model.input_names,
        output_names=model.output_names,
        units=model.units,
        dt=model.dt,
        scaling={f.name: np.asarray(getattr(model.scaling, f.name), float) for f in fields(Scaling)},
        calibration=np.asarray(model.calibration, float),
        noise=_list_fields(model.noise),
        paths=_list_fields(model.paths),
        territory=_list_fields(model.territory),
        horizon=_list_fields(model.horizon),
        ensemble=tuple(tuple(named_leaves(ssm, "") for ssm in models) for models in model.ensemble),
        seen=None if model.seen is None else model.seen.to_json(),
        provenance=model.provenance.to_json(),
    )


def _list_fields(law: StudentNoise | PathLaw | Territory | Horizon | None) -> dict[str, np.ndarray] | None:
    return None if law is None else {field.name: getattr(law, field.name) for field in fields(law)}


def restore_model(stored: StoredModel, name: str) -> FittedModel:
    """The model that a file holds; `name` is what messages call the file."""
    structure, inputs = stored.structure, len(stored.input_names)
    groups = structure.groups(len(stored.output_names))
    with floating_point(structure.precision):
        shape = model_shape(structure, structure.drive.width(inputs), len(groups[0]))
        ensemble = tuple(tuple(fill(shape, member, "", name) for member in row) for row in stored.ensemble)
    return FittedModel(
        structure=structure,
        ensemble=ensemble,
        scaling=Scaling(**stored.scaling),
        input_names=stored.input_names,
        output_names=stored.output_names,
        units=stored.units,
        dt=stored.dt,
        calibration=stored.calibration,
        provenance=Provenance.from_json(stored.provenance, len(groups)),
        noise=None if stored.noise is None else StudentNoise(**stored.noise),
        paths=None if stored.paths is None else PathLaw(**stored.paths),
        territory=None if stored.territory is None else Territory(**stored.territory),
        horizon=None if stored.horizon is None else Horizon(**stored.horizon),
        seen=None if stored.seen is None else Seen.from_json(stored.seen, inputs, name),
    )


def model_bytes(model: FittedModel) -> bytes:
    """The bytes of a model file; equal models have equal bytes."""
    return pack_model(store_model(model))


def write_model(path: Path, model: FittedModel) -> None:
    """Write a model file; the old one stays until the new one is safe on disk."""
    write_atomic(path, model_bytes(model))


def read_model(path: Path, own: Mapping[str, Any] | None = None) -> FittedModel:
    """Read and check a model file; `own` are the user's own parts that it names."""
    return parse_model(read_tensors(path), str(path), own)


def parse_model(data: bytes, name: str, own: Mapping[str, Any] | None = None) -> FittedModel:
    """A model from a file's bytes; `name` is what messages call the file."""
    return restore_model(unpack_model(data, name, own), name)
