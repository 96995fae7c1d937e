"""Model files: one safetensors file with everything a fitted model needs to be used.

A file is checked in this order: checksum, version, schema, shapes, finiteness. What it names (presets, ways to start)
is looked up in fixed tables; nothing is ever imported or executed from it.
"""

import functools
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.arrays.drive import Memory
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Filled, Scaling, Seen, Sequence, apply_drive, follow_drive
from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.file import fill, named_leaves, pack, read_tensors, unpack, write_atomic
from mrgpssm.model import SSM, Component
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.noise_files import noise_tensors, read_noise
from mrgpssm.runtime.output import OutputLaw
from mrgpssm.spec import Number, Spec, Whole, make_spec
from mrgpssm.spec.cascade import slower
from mrgpssm.training.members import Groups, model_shape, output_groups

FORMAT_VERSION = 5
_KIND = "mrgpssm-model"
_KEYS = {"version", "options", "inputs", "outputs", "units", "dt", "packages", "ensemble"}
_MAY_BE = {"seen"}
# Options that came with a format, and what they mean before it.
_ADDED = {2: {"ensemble": 1, "calibrate": True}, 3: {"filters": [], "folds": 0, "noise": "gaussian"}}
_ADDED |= {4: {"delays": []}}
_ADDED |= {5: {"finetune": 0, "cascade": False, "optimiser": "adam", "early_stopping": False}}
_SCALING = ("input_mean", "input_sd", "output_mean", "output_sd")


@dataclass(frozen=True)
class FittedModel:
    """What training leaves: one or more models per group of output columns, and the way to the data's units.

    `ensemble` holds rounds: the best restart of every group, the second best of every group, and so on. Deviations of
    samples from their mean are multiplied by `calibration`, one factor per output. `bounds` and `skipped` are (groups,
    restarts): the lower bound of every restart, and its skipped steps. `seen` is what is remembered of the training
    data; older files have nothing of it.
    """

    spec: Spec
    ensemble: tuple[tuple[SSM[Component], ...], ...]
    scaling: Scaling
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    bounds: np.ndarray
    skipped: np.ndarray
    calibration: np.ndarray
    noise: StudentNoise | None = None
    seen: Seen | None = None

    @functools.cached_property
    def output_law(self) -> OutputLaw:
        """How measurements follow from samples of the outputs."""
        with floating_point(self.spec.structure.precision):
            noise = [[np.asarray(ssm.observation_variance(), float) for ssm in models] for models in self.ensemble]
        return OutputLaw(self.calibration, np.sqrt([np.concatenate(row) for row in noise]), self.noise)

    @property
    def models(self) -> tuple[SSM[Component], ...]:
        """The best restart of every group."""
        return self.ensemble[0]

    @property
    def drive_names(self) -> tuple[str, ...]:
        """What the model is driven by: inputs, their averages and delayed copies."""
        return self.spec.structure.drive.names(self.input_names)

    def drive(self, sequence: Sequence) -> np.ndarray:
        """What drives the model at every row, scaled."""
        return self.scaling.inputs(apply_drive(self.spec.structure.drive, sequence).inputs)

    def follow(self, filled: Filled, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
        """The same at all filled rows, after the inputs in memory; and what is remembered then."""
        drive, after = follow_drive(self.spec.structure.drive, filled, memory)
        return self.scaling.inputs(drive), after

    @property
    def groups(self) -> Groups:
        """The output columns of every model."""
        return output_groups(self.spec.structure, len(self.output_names))


def model_bytes(model: FittedModel) -> bytes:
    """The bytes of a model file; equal models have equal bytes."""
    content = {
        "version": FORMAT_VERSION,
        "options": model.spec.to_json(),
        "inputs": list(model.input_names),
        "outputs": list(model.output_names),
        "units": model.units,
        "dt": model.dt,
        "packages": {name: version(name) for name in ("mrgpssm", "jax")},
        "ensemble": len(model.ensemble),
    }
    if model.seen is not None:
        content["seen"] = model.seen.to_json()
    tensors = {f"scaling.{name}": np.asarray(getattr(model.scaling, name), float) for name in _SCALING}
    tensors |= {"bounds": np.asarray(model.bounds, float), "skipped": np.asarray(model.skipped, np.int64)}
    tensors |= {"calibration": np.asarray(model.calibration, float)}
    tensors |= noise_tensors(model.noise)
    for number, models in enumerate(model.ensemble):
        for index, ssm in enumerate(models):
            tensors |= named_leaves(ssm, _prefix(number, index))
    return pack(_KIND, content, tensors)


def write_model(path: Path, model: FittedModel) -> None:
    """Write a model file; the old one stays until the new one is safe on disk."""
    write_atomic(path, model_bytes(model))


def read_model(path: Path) -> FittedModel:
    """Read and check a model file."""
    return parse_model(read_tensors(path), str(path))


def parse_model(data: bytes, name: str) -> FittedModel:
    """A model from a file's bytes; `name` is what messages call the file."""
    content, tensors = unpack(data, _KIND, name)
    spec, inputs, outputs, units, dt, rounds = _schema(content, name)
    groups = output_groups(spec.structure, len(outputs))
    drives = spec.structure.drive.names(inputs)
    statistics = [_vector(tensors, f"scaling.{key}", len(drives if "input" in key else outputs), name)
                  for key in _SCALING]  # fmt: skip
    shape = (len(groups), spec.training.restarts)
    bounds, skipped = _table(tensors, "bounds", shape, name), _table(tensors, "skipped", shape, name)
    calibration = np.ones(len(outputs))
    if content["version"] > 1:
        calibration = _vector(tensors, "calibration", len(outputs), name, positive=True)
    _check_sizes(spec, len(drives), tensors, name)
    with floating_point(spec.structure.precision):
        shape = model_shape(spec.structure, len(drives), len(groups[0]))
        ensemble = tuple(
            tuple(fill(shape, tensors, _prefix(number, index), name) for index in range(len(groups)))
            for number in range(rounds)
        )
    noise = read_noise(tensors, spec.bands.noise, len(outputs), len(drives), name)
    model = FittedModel(
        spec, ensemble, Scaling(*statistics), inputs, outputs, units, dt, bounds, skipped, calibration, noise
    )
    if "seen" in content:
        model = replace(model, seen=Seen.from_json(content["seen"], len(inputs), name))
    known = {"bounds", "skipped", "calibration", *(f"scaling.{key}" for key in _SCALING)}
    known |= {*noise_tensors(noise)}
    extra = sorted(key for key in tensors if key not in known and not key.startswith(("models.", "ensemble.")))
    if extra:
        raise ModelFileError(f"{name}: tensor {extra[0][:60]!r} is not part of a model.")
    return model


def _check_sizes(spec: Spec, drives: int, tensors: dict[str, np.ndarray], name: str) -> None:
    """Sizes that cost time and memory must be those of tensors that are there, before anything is built from them."""
    d, m = spec.structure.latent_dim, spec.structure.inducing
    for part in (0, len(spec.structure.resolutions) - 1):
        z = d + drives + (d * len(slower(spec.structure.resolutions, part)) if spec.structure.cascade else 0)
        _table(tensors, f"{_prefix(0, 0)}.components.{part}.transition.gp.inducing", (d, m, z), name)


def _prefix(number: int, index: int) -> str:
    """What the tensors of a model are called: the best of every group as in format 1."""
    return f"models.{index}" if number == 0 else f"ensemble.{number}.{index}"


def _schema(content: dict[str, Any], name: str):
    """Every key of the metadata, with its type; a newer version is refused before anything else is looked at."""
    number = content.get("version")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ModelFileError(f"{name}: the format version is {number!r:.40}; it must be a whole number.")
    if number > FORMAT_VERSION:
        raise ModelFileError(
            f"{name}: written in format {number}; this mrgpssm reads up to {FORMAT_VERSION}. Update mrgpssm."
        )
    keys = _KEYS if number > 1 else _KEYS - {"ensemble"}
    odd = sorted((set(content) - _MAY_BE) ^ keys)
    if odd:
        raise ModelFileError(f"{name}: the metadata key {odd[0][:60]!r} is missing or unknown.")
    spec, later = content["options"], {k: v for n, add in _ADDED.items() if n > number for k, v in add.items()}
    if not isinstance(spec, dict) or set(spec) != set(Spec().flat()) - set(later):
        raise ModelFileError(f"{name}: the options are not those of format {number}.")
    spec = spec | later
    rounds = content.get("ensemble", 1)
    if not Whole().accepts(rounds):
        raise ModelFileError(f"{name}: the ensemble is {rounds!r:.40}; it must be a whole number, at least 1.")
    try:
        checked = make_spec(spec).fixed()
    except ConfigError as error:
        raise ModelFileError(f"{name}: {error!s:.300}") from None
    inputs, outputs = (_strings(content[key], key, name) for key in ("inputs", "outputs"))
    units, dt = content["units"], content["dt"]
    if not isinstance(units, dict) or not all(isinstance(v, str) for v in units.values()):
        raise ModelFileError(f"{name}: units must map names to texts.")
    if not Number().accepts(dt):
        raise ModelFileError(f"{name}: dt must be a positive number; got {dt!r:.40}.")
    if rounds > checked.training.ensemble:
        raise ModelFileError(
            f"{name}: {rounds} models an output; its settings ask for at most {checked.training.ensemble}."
        )
    if checked.structure.joint and checked.structure.latent_dim < len(outputs):
        raise ModelFileError(f"{name}: {len(outputs)} joint outputs need at least as many latent dimensions.")
    return checked, inputs, outputs, units, float(dt), rounds


def _strings(value: Any, key: str, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ModelFileError(f"{name}: {key} must be a list of names.")
    if len(set(value)) != len(value):
        raise ModelFileError(f"{name}: {key} has a name twice.")
    return tuple(value)


def _vector(tensors: dict[str, np.ndarray], key: str, length: int, name: str, positive: bool = False) -> np.ndarray:
    values = _table(tensors, key, (length,), name)
    if not np.isfinite(values).all() or ((positive or key.endswith("_sd")) and not (values > 0).all()):
        raise ModelFileError(f"{name}: tensor {key} must be finite, and positive where it is a deviation.")
    return values


def _table(tensors: dict[str, np.ndarray], key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    if key not in tensors or tensors[key].shape != shape:
        found = list(tensors[key].shape) if key in tensors else "missing"
        raise ModelFileError(f"{name}: tensor {key} is {found}; its settings ask for {list(shape)}.")
    return tensors[key]
