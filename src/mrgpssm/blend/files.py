"""Blend files: one safetensors file with shares, laws of noise and trajectories, and every part under its own prefix.

A state-space model is held as in a file of its own, and read by the reader of that. Checks are those of model files.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

import numpy as np

from mrgpssm.arrays.drive import Drive
from mrgpssm.blend.fitted import FittedBlend
from mrgpssm.blend.forest import Forest
from mrgpssm.blend.process import Process
from mrgpssm.blend.simulator import Simulator
from mrgpssm.blend.static import AbstractStatic, FittedStatic, StaticGP, StaticTrees
from mrgpssm.data import Scaling, Seen
from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.estimator.estimator import MRGPSSM, from_fitted
from mrgpssm.file import pack, unpack
from mrgpssm.file.model import (
    blame,
    check_paths,
    feature_count,
    path_shapes,
    put_under,
    read_columns,
    read_names,
    take_under,
)
from mrgpssm.file.tensors import BLEND_KIND, Tensors, numbers, whole_numbers
from mrgpssm.prediction.fitted import model_bytes, parse_model
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.paths import PathLaw
from mrgpssm.spec import Structure

_VERSION = 1
_MODEL = "mrgpssm-model"
_KEYS = {"version", "inputs", "outputs", "units", "dt", "seen", "parts", "packages"}
_STATIC: dict[str, type[AbstractStatic]] = {"static-gp": StaticGP, "static-trees": StaticTrees}

Content = dict[str, Any]


def check_savable(parts: Mapping[str, Simulator], remedy: str) -> None:
    """Refuse parts that no file can hold."""
    for name, part in parts.items():
        if not isinstance(part, (MRGPSSM, StaticGP, StaticTrees)):
            raise ConfigError(
                f"Part {name!r} is a {type(part).__name__}, which cannot be saved; files hold MRGPSSM, StaticGP and "
                f"StaticTrees. {remedy}"
            )


def blend_bytes(model: FittedBlend) -> bytes:
    """The bytes of a blend file; equal blends have equal bytes."""
    check_savable(model.parts, "Leave it out of the blend, or keep the blend in memory.")
    tensors = {"shares": model.shares} | put_under("noise", asdict(model.noise)) | _scaling_tensors(model.scaling)
    tensors |= {} if model.paths is None else put_under("paths", asdict(model.paths))
    parts = []
    for number, (name, part) in enumerate(model.parts.items()):
        kind, content, own = _take_apart(part)
        parts.append({"name": name, "kind": kind, "content": content})
        tensors |= put_under(f"parts.{number}", own)
    content = {
        "version": _VERSION,
        "inputs": list(model.input_names),
        "outputs": list(model.output_names),
        "units": model.units,
        "dt": model.dt,
        "seen": None if model.seen is None else model.seen.to_json(),
        "parts": parts,
        "packages": {name: version(name) for name in ("mrgpssm", "jax")},
    }
    return pack(BLEND_KIND, content, tensors)


def _take_apart(part: Simulator) -> tuple[str, Content, Tensors]:
    """Kind, content and tensors of a part that can be saved."""
    if isinstance(part, MRGPSSM):
        return (_MODEL, *unpack(model_bytes(part.fitted_), _MODEL, "the state-space model"))
    assert isinstance(part, (StaticGP, StaticTrees))  # noqa: S101  # checked before
    kind = next(kind for kind, own in _STATIC.items() if isinstance(part, own))
    model = part.fitted_
    drive = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(model.drive).items()}
    options = part.get_params(deep=False) | drive
    own = {"noise_sd": model.noise_sd, **_scaling_tensors(model.scaling), **asdict(model.function)}
    return kind, {"options": options}, own


def _scaling_tensors(scaling: Scaling) -> Tensors:
    return put_under("scaling", {key: np.asarray(value, float) for key, value in asdict(scaling).items()})


def parse_blend(data: bytes, name: str, own: Mapping[str, Any] | None = None) -> FittedBlend:
    """A blend from a file's bytes; `name` is what messages call the file, `own` are the user's own parts."""
    content, tensors = unpack(data, BLEND_KIND, name)
    with blame(name):
        _check_version(content.get("version"))
        columns = inputs, outputs, units, dt = read_columns(content, _KEYS)
        listed = _check_parts(content["parts"])
        shares = _read_shares(tensors, len(listed), len(outputs))
        noise = _read_noise(tensors, len(inputs), len(outputs))
        scaling, paths = _read_scaling(tensors, len(inputs), len(outputs)), _read_paths(tensors, len(outputs))
        laws = put_under("noise", asdict(noise)) | put_under("paths", {} if paths is None else asdict(paths))
        _check_spare(tensors, {"shares", *laws, *_scaling_tensors(scaling)})
    parts: dict[str, Simulator] = {}
    for number, part in enumerate(listed):
        where, mine = f"{name}, part {part['name']}", take_under(f"parts.{number}", tensors)
        if part["kind"] != _MODEL:
            with blame(where):
                parts[part["name"]] = _read_static(part, mine, columns)
            continue
        fitted = parse_model(pack(_MODEL, part["content"], mine), where, own)
        if (fitted.input_names, fitted.output_names) != (inputs, outputs):
            raise ModelFileError(f"{where}: its columns are not those of the blend.")
        parts[part["name"]] = from_fitted(fitted)
    seen = None if content["seen"] is None else Seen.from_json(content["seen"], len(inputs), name)
    return FittedBlend(parts, shares, noise, inputs, outputs, dt, scaling, units, seen, paths)


def _check_version(number: Any) -> None:
    """A newer version is refused before anything else is looked at."""
    if number != _VERSION:
        raise ModelFileError(f"a blend of format {number!r:.40}; this mrgpssm reads {_VERSION}. Update mrgpssm.")


def _check_parts(parts: Any) -> list[Content]:
    if not isinstance(parts, list) or not parts or not all(map(_is_part, parts)):
        raise ModelFileError("the parts must be a list of names, kinds and contents.")
    read_names([part["name"] for part in parts], "parts")
    return parts


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict) or set(part) != {"name", "kind", "content"}:
        return False
    named = isinstance(part["name"], str) and part["name"].isidentifier()
    return named and part["kind"] in (_MODEL, *_STATIC) and isinstance(part["content"], dict)


def _check_spare(tensors: Tensors, known: set[str]) -> None:
    extra = sorted(key for key in tensors if key not in known and not key.startswith("parts."))
    if extra:
        raise ModelFileError(f"tensor {extra[0][:60]!r} is not part of a blend.")


def _read_shares(tensors: Tensors, parts: int, outputs: int) -> np.ndarray:
    shares = numbers(tensors, "shares", (parts, outputs))
    if not (shares >= -1e-9).all() or not np.allclose(shares.sum(axis=0), 1):
        raise ModelFileError("the shares of the parts must be at least 0 and add up to 1.")
    return shares


def _read_paths(tensors: Tensors, outputs: int) -> PathLaw | None:
    """The law of trajectories, where there is one."""
    found = {key: numbers(tensors, key, shape) for key, shape in path_shapes(tensors, outputs).items()}
    check_paths(paths := take_under("paths", found))
    return PathLaw(**paths) if paths else None


def _read_noise(tensors: Tensors, inputs: int, outputs: int) -> StudentNoise:
    """The law; ν is above 2, so that deviations exist."""
    shapes = {"weights": (outputs, feature_count(inputs)), "dof": (outputs,), "edges": (outputs, 2)}
    noise = StudentNoise(**{key: numbers(tensors, f"noise.{key}", shape) for key, shape in shapes.items()})
    if not (noise.dof > 2).all():
        raise ModelFileError("the noise must have more than 2 degrees of freedom.")
    return noise


def _read_scaling(tensors: Tensors, inputs: int, outputs: int) -> Scaling:
    sizes = {f.name: inputs if f.name.startswith("input") else outputs for f in fields(Scaling)}
    found = Scaling(**{key: numbers(tensors, f"scaling.{key}", (size,)) for key, size in sizes.items()})
    if not ((found.input_sd > 0).all() and (found.output_sd > 0).all()):
        raise ModelFileError("deviations must be positive.")
    return found


def _read_static(
    part: Content, tensors: Tensors, columns: tuple[tuple[str, ...], tuple[str, ...], dict[str, str], float]
) -> AbstractStatic:
    """A static simulator with what it has learned."""
    options, kind, outputs = part["content"].get("options"), _STATIC[part["kind"]], len(columns[1])
    if not isinstance(options, dict) or set(options) != set(kind().get_params(deep=False)):
        raise ModelFileError(f"its options are not those of {kind.__name__}.")
    drive = Structure(**{field.name: options[field.name] for field in fields(Drive)}).drive
    drives = drive.width(len(columns[0]))
    function = (_read_process if kind is StaticGP else _read_forest)(tensors, outputs, drives)
    noise_sd = numbers(tensors, "noise_sd", (outputs,))
    if not (noise_sd > 0).all():
        raise ModelFileError("tensor noise_sd must be positive.")
    static = kind(**options)
    static.fitted_ = FittedStatic(function, drive, _read_scaling(tensors, drives, outputs), noise_sd, *columns)
    return static


def _read_process(tensors: Tensors, outputs: int, drives: int) -> Process:
    rows = len(np.atleast_1d(tensors.get("inducing", ())))
    process = Process(
        inducing=numbers(tensors, "inducing", (rows, drives)),
        weights=numbers(tensors, "weights", (outputs, rows)),
        lengthscales=numbers(tensors, "lengthscales", (outputs, drives)),
        slopes=numbers(tensors, "slopes", (outputs, drives)),
    )
    if not rows or not (process.lengthscales > 0).all():
        raise ModelFileError("there must be inducing rows, and lengthscales must be positive.")
    return process


def _read_forest(tensors: Tensors, outputs: int, drives: int) -> Forest:
    trees = np.atleast_1d(tensors.get("roots", ())).shape[-1]
    nodes = (np.size(tensors.get("values", 0)),)
    forest = Forest(
        features=whole_numbers(tensors, "features", nodes),
        children=whole_numbers(tensors, "children", nodes),
        values=numbers(tensors, "values", nodes),
        roots=whole_numbers(tensors, "roots", (outputs, trees)),
        baselines=numbers(tensors, "baselines", (outputs,)),
    )
    fault = forest.find_fault(drives)
    if fault is not None:
        raise ModelFileError(f"{fault}.")
    return forest
