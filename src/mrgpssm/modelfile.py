"""Model files: one safetensors file with everything a fitted model needs to be used.

A file is checked in this order: checksum, version, schema, shapes, finiteness. What it names (presets, ways to start)
is looked up in fixed tables; nothing is ever imported or executed from it.
"""

import math
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.data import Scaling
from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.members import Groups, model_shape, output_groups
from mrgpssm.model import SSM, Component
from mrgpssm.options import Options, check_options
from mrgpssm.precision import floating_point
from mrgpssm.storage import fill, named_leaves, pack, read_bytes, unpack, write_atomic

FORMAT_VERSION = 1
_KIND = "mrgpssm-model"
_KEYS = {"version", "options", "inputs", "outputs", "units", "dt", "packages"}
_SCALING = ("input_mean", "input_sd", "output_mean", "output_sd")


@dataclass(frozen=True)
class FittedModel:
    """What training leaves: one model per group of output columns, and how to go to and from the data's units.

    `bounds` and `skipped` are (groups, restarts): the lower bound of every restart, and its skipped steps.
    """

    options: Options
    models: tuple[SSM[Component], ...]
    scaling: Scaling
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    bounds: np.ndarray
    skipped: np.ndarray

    @property
    def groups(self) -> Groups:
        """The output columns of every model."""
        return output_groups(self.options, len(self.output_names))


def model_bytes(model: FittedModel) -> bytes:
    """The bytes of a model file; equal models have equal bytes."""
    content = {
        "version": FORMAT_VERSION,
        "options": model.options.to_json(),
        "inputs": list(model.input_names),
        "outputs": list(model.output_names),
        "units": model.units,
        "dt": model.dt,
        "packages": {name: version(name) for name in ("mrgpssm", "jax")},
    }
    tensors = {f"scaling.{name}": np.asarray(getattr(model.scaling, name), float) for name in _SCALING}
    tensors |= {"bounds": np.asarray(model.bounds, float), "skipped": np.asarray(model.skipped, np.int64)}
    for index, ssm in enumerate(model.models):
        tensors |= named_leaves(ssm, f"models.{index}")
    return pack(_KIND, content, tensors)


def write_model(path: Path, model: FittedModel) -> None:
    """Write a model file; the old one stays until the new one is safe on disk."""
    write_atomic(path, model_bytes(model))


def read_model(path: Path) -> FittedModel:
    """Read and check a model file."""
    return parse_model(read_bytes(path), str(path))


def parse_model(data: bytes, name: str) -> FittedModel:
    """A model from a file's bytes; `name` is what messages call the file."""
    content, tensors = unpack(data, _KIND, name)
    options, inputs, outputs, units, dt = _schema(content, name)
    groups = output_groups(options, len(outputs))
    statistics = [_vector(tensors, f"scaling.{key}", len(inputs if "input" in key else outputs), name)
                  for key in _SCALING]  # fmt: skip
    shape = (len(groups), options.restarts)
    bounds, skipped = _table(tensors, "bounds", shape, name), _table(tensors, "skipped", shape, name)
    with floating_point(options.precision):
        models = tuple(
            fill(model_shape(options, len(inputs), len(columns)), tensors, f"models.{index}", name)
            for index, columns in enumerate(groups)
        )
    known = {"bounds", "skipped", *(f"scaling.{key}" for key in _SCALING)}
    extra = sorted(key for key in tensors if key not in known and not key.startswith("models."))
    if extra:
        raise ModelFileError(f"{name}: tensor {extra[0][:60]!r} is not part of a model.")
    return FittedModel(options, models, Scaling(*statistics), inputs, outputs, units, dt, bounds, skipped)


def _schema(content: dict[str, Any], name: str):
    """Every key of the metadata, with its type; a newer version is refused before anything else is looked at."""
    number = content.get("version")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ModelFileError(f"{name}: the format version is {number!r:.40}; it must be a whole number.")
    if number > FORMAT_VERSION:
        raise ModelFileError(
            f"{name}: written in format {number}; this mrgpssm reads up to {FORMAT_VERSION}. Update mrgpssm."
        )
    if set(content) != _KEYS:
        odd = sorted(set(content) ^ _KEYS)[0]
        raise ModelFileError(f"{name}: the metadata key {odd[:60]!r} is missing or unknown.")
    options = content["options"]
    if not isinstance(options, dict) or set(options) != set(Options.__dataclass_fields__):
        raise ModelFileError(f"{name}: the options are not those of format {FORMAT_VERSION}.")
    try:
        checked = check_options(options)
    except ConfigError as error:
        raise ModelFileError(f"{name}: {error}") from None
    inputs, outputs = (_strings(content[key], key, name) for key in ("inputs", "outputs"))
    units, dt = content["units"], content["dt"]
    if not isinstance(units, dict) or not all(isinstance(v, str) for v in units.values()):
        raise ModelFileError(f"{name}: units must map names to texts.")
    if not isinstance(dt, (int, float)) or isinstance(dt, bool) or not (math.isfinite(dt) and dt > 0):
        raise ModelFileError(f"{name}: dt must be a positive number; got {dt!r:.40}.")
    if checked.joint and checked.latent_dim < len(outputs):
        raise ModelFileError(f"{name}: {len(outputs)} joint outputs need at least as many latent dimensions.")
    return checked, inputs, outputs, units, float(dt)


def _strings(value: Any, key: str, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ModelFileError(f"{name}: {key} must be a list of names.")
    if len(set(value)) != len(value):
        raise ModelFileError(f"{name}: {key} has a name twice.")
    return tuple(value)


def _vector(tensors: dict[str, np.ndarray], key: str, length: int, name: str) -> np.ndarray:
    values = _table(tensors, key, (length,), name)
    if not np.isfinite(values).all() or (key.endswith("_sd") and not (values > 0).all()):
        raise ModelFileError(f"{name}: tensor {key} must be finite, and positive where it is a deviation.")
    return values


def _table(tensors: dict[str, np.ndarray], key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    if key not in tensors or tensors[key].shape != shape:
        found = list(tensors[key].shape) if key in tensors else "missing"
        raise ModelFileError(f"{name}: tensor {key} is {found}; its settings ask for {list(shape)}.")
    return tensors[key]
