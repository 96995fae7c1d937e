"""Model files, format 1: what a simulation needs, every value checked, and how the model was made.

A file is checked in this order: checksum, kind, version, schema, sizes, shapes and types, finiteness. Nothing is built
before the sizes are those of tensors that are there. What a file names is looked up in fixed tables; nothing is ever
imported or executed from it. NumPy alone: the runtime reads its models here, too.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.file.tensors import Tensors, check_finite, find_tensor, pack, unpack
from mrgpssm.spec import HIDDEN_UNITS, INGREDIENTS, MEMORY, Number, Structure, Whole, options_of

Shapes = dict[str, tuple[int, ...]]

FORMAT_VERSION = 1
_KIND = "mrgpssm-model"
_KEYS = {"version", "structure", "inputs", "outputs", "units", "dt", "rounds", "seen", "provenance"}
_STRUCTURE = set(options_of(Structure))
# Options that the first files of this format do not have, and what their models were made with.
_LATER = {"memory": MEMORY, "integrators": 0, "feedthrough": False}
# The tensors of a component and their axes: d latent dimensions, m inducing points, u drives, z = d + u.
_COMPONENT = {
    "initial.mean": "d",
    "initial.raw_factor": "dd",
    "initial.prior_mean": "d",
    "initial.prior_raw_factor": "dd",
    "transition.gp.inducing": "dmz",
    "transition.gp.kernel.raw_amplitude": "",
    "transition.gp.kernel.raw_lengthscales": "z",
    "transition.gp.posterior.mean": "dm",
    "transition.gp.posterior.raw_factor": "dmm",
    "transition.raw_process_noise": "d",
}
_MEAN = {
    "stable": {"transition.mean.raw_contraction": "dd", "transition.mean.B": "du", "transition.mean.b": "d"},
    "paper": {},
}
# Those of an emission: y outputs and k hidden units beside the axes above.
_EMISSION = {
    "identity": {},
    "linear": {"emission.C": "yd"},
    "nonlinear": {"emission.C": "yd", "emission.V": "yk", "emission.W": "kd", "emission.w": "k"},
}
_LAWS = ("noise", "paths", "territory", "horizon")  # what may have been learned of measurements
_PLACES = {"kernel": "transition.gp.kernel.", "emission": "emission."}  # where the tensors of a user's own part are


@dataclass(frozen=True)
class StoredModel:
    """What a model file holds.

    Attributes:
        structure: What the model is made of; no option is None.
        input_names: Names of the inputs.
        output_names: Names of the outputs.
        units: Units of some of them, by name.
        dt: Seconds from one row to the next.
        scaling: `input_mean`, `input_sd`, `output_mean` and `output_sd`, one value per column.
        calibration: Factors on the deviations of samples from their mean, (D_y,).
        noise: `weights`, `dof` and `edges` of a Student's t, as in `StudentNoise`, where one was learned.
        territory: `points`, `reach` and `growth`, as in `Territory`, where it is known.
        horizon: `first` and `memory`, as in `Horizon`, where they were learned.
        paths: `own`, `lasting`, `memory` and `ties`, as in `PathLaw`, where they were learned.
        ensemble: Raw tensors of every model by the names of their leaves, in rounds: the best restart of every group of
            outputs, the second best, and so on.
        seen: What is remembered of the training data, as JSON, or None.
        provenance: How the model was made, as JSON; nothing that simulates reads it.
    """

    structure: Structure
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    scaling: Tensors
    calibration: np.ndarray
    noise: Tensors | None
    paths: Tensors | None
    territory: Tensors | None
    horizon: Tensors | None
    ensemble: tuple[tuple[Tensors, ...], ...]
    seen: Any
    provenance: dict[str, Any]


def pack_model(model: StoredModel) -> bytes:
    """The bytes of a model file; equal models have equal bytes."""
    options = model.structure.to_json()
    content = {
        "version": FORMAT_VERSION,
        "structure": {key: options[key] for key in _STRUCTURE},
        "inputs": list(model.input_names),
        "outputs": list(model.output_names),
        "units": model.units,
        "dt": model.dt,
        "rounds": len(model.ensemble),
        "seen": model.seen,
        "provenance": model.provenance,
    }
    tensors = {"calibration": model.calibration} | put_under("scaling", model.scaling)
    for name in _LAWS:
        tensors |= put_under(name, getattr(model, name) or {})
    for number, members in enumerate(model.ensemble):
        for group, member in enumerate(members):
            tensors |= put_under(f"models.{number}.{group}", member)
    return pack(_KIND, content, tensors)


def unpack_model(data: bytes, name: str, own: Mapping[str, Any] | None = None) -> StoredModel:
    """What the bytes of a model file hold, checked; `name` is what messages call the file.

    `own` are the user's own kernel, emission or scheme, by these names. What tensors they need is for them to check.
    """
    content, tensors = unpack(data, _KIND, name)
    with blame(name):
        return _read(content, tensors, own or {})


@contextlib.contextmanager
def blame(name: str) -> Iterator[None]:
    """Say in an error which file, or which part of it, is at fault."""
    try:
        yield
    except (ConfigError, ModelFileError) as error:
        raise ModelFileError(f"{name}: {error!s:.300}") from None


def _read(content: dict[str, Any], tensors: Tensors, own: Mapping[str, Any]) -> StoredModel:
    _check_version(content.get("version"))
    inputs, outputs, units, dt = read_columns(content, _KEYS)
    structure = _read_structure(content["structure"], own)
    rounds, provenance = Whole().check("rounds", content["rounds"]), content["provenance"]
    if not isinstance(provenance, dict):
        raise ModelFileError("the provenance must be a table.")
    groups, components = len(structure.groups(len(outputs))), len(structure.resolutions)
    if rounds * groups * components * len(_COMPONENT) > len(tensors):
        raise ModelFileError("its settings ask for more models than there are tensors.")
    shared = _shared_shapes(structure, len(inputs), len(outputs)) | _law_shapes(structure, inputs, outputs, tensors)
    member = _member_shapes(structure, len(inputs), len(outputs))
    places = [[f"models.{number}.{group}" for group in range(groups)] for number in range(rounds)]
    models = {f"{place}.{key}": shape for row in places for place in row for key, shape in member.items()}
    open_to = tuple(f"{place}.{start}" for row in places for place in row for start in _own_places(structure))
    _check_tensors(tensors, shared, models, structure.precision, open_to)
    _check_values(tensors)
    return StoredModel(
        structure=structure,
        input_names=inputs,
        output_names=outputs,
        units=units,
        dt=dt,
        scaling=take_under("scaling", tensors),
        calibration=tensors["calibration"],
        **{name: take_under(name, tensors) or None for name in _LAWS},
        ensemble=tuple(tuple(take_under(place, tensors) for place in row) for row in places),
        seen=content["seen"],
        provenance=provenance,
    )


def _check_version(number: Any) -> None:
    """A newer version is refused before anything else is looked at."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ModelFileError(f"the format version is {number!r:.40}; it must be a whole number, at least 1.")
    if number > FORMAT_VERSION:
        raise ModelFileError(
            f"written in format {number!r:.40}; this mrgpssm reads up to {FORMAT_VERSION}. Update mrgpssm."
        )


def _read_structure(table: Any, own: Mapping[str, Any]) -> Structure:
    table = _LATER | table if isinstance(table, dict) else {}
    if {key for key, value in table.items() if value is not None} != _STRUCTURE:
        raise ModelFileError(f"the options of its structure are not those of format {FORMAT_VERSION}.")
    for key in INGREDIENTS:
        if not isinstance(table[key], str):
            raise ModelFileError(f"the {key} of its structure must be a name.")
    return Structure(**(table | {key: part.find(key, table[key], own.get(key)) for key, part in INGREDIENTS.items()}))


def _own_places(structure: Structure) -> list[str]:
    """Beginnings of the names of tensors, in a model, that belong to a user's own parts."""
    kinds = [place for key, place in _PLACES.items() if not isinstance(getattr(structure, key), str)]
    return [f"components.{part}.{place}" for part in range(len(structure.resolutions)) for place in kinds]


def read_columns(
    content: dict[str, Any], keys: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str], float]:
    """Inputs, outputs, units and dt from metadata, which must have these keys."""
    odd = sorted(set(content) ^ keys)
    if odd:
        raise ModelFileError(f"the metadata key {odd[0][:60]!r} is missing or unknown.")
    inputs, outputs = (read_names(content[key], key) for key in ("inputs", "outputs"))
    dt, units = Number().check("dt", content["dt"]), content["units"]
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise ModelFileError("units must map names to texts.")
    return inputs, outputs, units, dt


def read_names(value: Any, key: str) -> tuple[str, ...]:
    """A list of different names."""
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ModelFileError(f"{key} must be a list of names.")
    if len(set(value)) != len(value):
        raise ModelFileError(f"{key} has a name twice.")
    return tuple(value)


def _shared_shapes(structure: Structure, inputs: int, outputs: int) -> Shapes:
    """The tensors that all models of a file share."""
    drives = structure.drive.width(inputs)
    columns = {"input": drives, "output": outputs}
    shapes: Shapes = {f"scaling.{side}_{what}": (n,) for side, n in columns.items() for what in ("mean", "sd")}
    return shapes | {"calibration": (outputs,)}


def _law_shapes(structure: Structure, inputs: tuple[str, ...], outputs: tuple[str, ...], tensors: Tensors) -> Shapes:
    """Those of what was learned of measurements, as far as a file has it."""
    n, features = len(outputs), feature_count(structure.drive.width(len(inputs)))
    noise = {"noise.weights": (n, features), "noise.dof": (n,), "noise.edges": (n, 2)}
    horizon = {"horizon.first": (n,), "horizon.memory": (n,)}
    found = noise if "noise.weights" in tensors else {}
    found |= horizon if "horizon.first" in tensors else {}
    return found | path_shapes(tensors, n) | _map_shapes(tensors, structure.drive.width(len(inputs)), n)


def _map_shapes(tensors: Tensors, drives: int, n: int) -> Shapes:
    """Those of a territory, where a file has one; it may have any number of points."""
    if "territory.points" not in tensors:
        return {}
    count = tensors["territory.points"].shape[:1]
    return {"territory.points": (*count, drives + n), "territory.reach": (), "territory.growth": (n,)}


def path_shapes(tensors: Tensors, n: int) -> Shapes:
    """Those of the law of trajectories of n outputs, where a file has one."""
    shapes: Shapes = {"paths.own": (n,), "paths.lasting": (n,), "paths.memory": (n,), "paths.ties": (n, n)}
    return shapes if "paths.own" in tensors else {}


def feature_count(drives: int) -> int:
    """The length of φ = [1, z, z²/2, m u] with z = [m, log d, u], which the scale of `StudentNoise` is linear in."""
    return 1 + 2 * (2 + drives) + drives


def _member_shapes(structure: Structure, inputs: int, outputs: int) -> Shapes:
    """The tensors of one model, by the names of its leaves."""
    d, width = structure.latent_dim, len(structure.groups(outputs)[0])
    emission = _EMISSION[structure.emission] if isinstance(structure.emission, str) else {}
    if d < width and structure.emission == "identity":
        raise ModelFileError(f"{width} joint outputs need at least as many latent dimensions.")
    shapes: Shapes = {"raw_observation_noise": (width,)}
    for part in range(len(structure.resolutions)):
        u = structure.drive.width(inputs) + d * len(structure.slower(part))
        sizes = {"d": d, "m": structure.inducing, "u": u, "z": d + u, "y": width, "k": HIDDEN_UNITS}
        for key, axes in (_COMPONENT | _MEAN[structure.preset] | emission).items():
            shapes[f"components.{part}.{key}"] = tuple(sizes[axis] for axis in axes)
    return shapes


def _check_tensors(tensors: Tensors, shared: Shapes, models: Shapes, precision: str, open_to: tuple[str, ...]) -> None:
    """Names, types and shapes: shared tensors are of 64 bits, those of the models have the model's precision.

    There may be further ones whose names begin as `open_to` says.
    """
    for shapes, dtype in ((shared, "float64"), (models, precision)):
        for key, shape in shapes.items():
            find_tensor(tensors, key, shape, dtype)
    spare = {key for key in set(tensors) - set(shared) - set(models) if not key.startswith(open_to)}
    if spare:
        raise ModelFileError(f"tensor {min(spare)[:80]!r} is not part of a model with these settings.")


def _check_values(tensors: Tensors) -> None:
    for key, values in tensors.items():
        check_finite(values, key)
    for key in ("scaling.input_sd", "scaling.output_sd", "calibration"):
        if not (tensors[key] > 0).all():
            raise ModelFileError(f"tensor {key} must be positive.")
    if "noise.dof" in tensors and not (tensors["noise.dof"] > 2).all():
        raise ModelFileError("the noise must have more than 2 degrees of freedom.")
    check_paths(take_under("paths", tensors))
    if "horizon.first" in tensors:
        first, memory = tensors["horizon.first"], tensors["horizon.memory"]
        if (first <= 0).any() or (first > 1).any() or (memory <= 0).any():
            raise ModelFileError("tensor horizon.first must be above 0 and at most 1, and horizon.memory positive.")
    if "territory.points" in tensors:
        reach, growth = tensors["territory.reach"], tensors["territory.growth"]
        if not len(tensors["territory.points"]) or not reach > 0 or (growth < 0).any() or (growth > 10).any():
            raise ModelFileError("the territory must have points, a positive reach and growths from 0 to 10.")


def check_paths(paths: Tensors) -> None:
    """Values of the law of trajectories, where a file has one."""
    if not paths:
        return
    shares = np.concatenate([paths["own"], paths["lasting"]])
    ties, ones = paths["ties"], np.ones(len(paths["own"]))
    if (shares < 0).any() or (shares > 1).any() or (paths["memory"] <= 0).any():
        raise ModelFileError("tensors paths.own and paths.lasting must be from 0 to 1, and paths.memory positive.")
    if not (ties == ties.T).all() or (np.diagonal(ties) != ones).any() or np.linalg.eigvalsh(ties)[0] <= 0:
        raise ModelFileError("tensor paths.ties must be a matrix of correlations.")


def put_under(prefix: str, tensors: Tensors) -> Tensors:
    """The tensors with names that begin with a prefix."""
    return {f"{prefix}.{key}": tensor for key, tensor in tensors.items()}


def take_under(prefix: str, tensors: Tensors) -> Tensors:
    """Those of the tensors whose names begin with a prefix, without it."""
    return {key.removeprefix(f"{prefix}."): t for key, t in tensors.items() if key.startswith(f"{prefix}.")}
