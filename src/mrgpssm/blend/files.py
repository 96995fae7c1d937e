"""Blend files: one safetensors file with the shares, the noise law, and every part under a prefix of its own.

A state-space model is held as in a file of its own, and read by the reader of that. Checks are those of model files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.blend.fitted import FittedBlend
from mrgpssm.blend.forest import Forest
from mrgpssm.blend.process import Process
from mrgpssm.blend.simulator import Simulator
from mrgpssm.blend.static import AbstractStatic, FittedStatic, StaticGP, StaticTrees
from mrgpssm.data import Scaling, Seen
from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.estimator.estimator import MRGPSSM, from_fitted
from mrgpssm.file import pack, unpack, write_atomic
from mrgpssm.file.model import feature_count
from mrgpssm.file.numbers import Tensors, numbers, whole_numbers
from mrgpssm.file.tensors import BLEND_KIND
from mrgpssm.prediction.fitted import model_bytes, parse_model
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.spec import Number, Structure

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


def write_blend(path: Path, model: FittedBlend) -> None:
    """Write a blend file; the old one stays until the new one is safe on disk."""
    write_atomic(path, blend_bytes(model))


def blend_bytes(model: FittedBlend) -> bytes:
    """The bytes of a blend file; equal blends have equal bytes."""
    check_savable(model.parts, "Leave it out of the blend, or keep the blend in memory.")
    tensors = {"shares": model.shares, **_noise_tensors(model.noise), **_scaling_tensors(model.scaling)}
    parts = []
    for number, (name, part) in enumerate(model.parts.items()):
        kind, content, own = _take_apart(part)
        parts.append({"name": name, "kind": kind, "content": content})
        tensors |= {f"parts.{number}.{key}": value for key, value in own.items()}
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


def parse_blend(data: bytes, name: str, own: Mapping[str, Any] | None = None) -> FittedBlend:
    """A blend from a file's bytes; `name` is what messages call the file, `own` are the user's own parts."""
    content, tensors = unpack(data, BLEND_KIND, name)
    inputs, outputs, parts = _read_content(content, name)
    sizes = len(inputs), len(outputs)
    shares = numbers(tensors, "shares", (len(parts), len(outputs)), name)
    if not (shares >= -1e-9).all() or not np.allclose(shares.sum(axis=0), 1):
        raise ModelFileError(f"{name}: the shares of the parts must be at least 0 and add up to 1.")
    noise = _read_noise(tensors, *sizes, name)
    model = FittedBlend(
        parts=dict(_read_parts(parts, tensors, (inputs, outputs), content, name, own)),
        shares=shares,
        noise=noise,
        input_names=inputs,
        output_names=outputs,
        dt=float(content["dt"]),
        scaling=_read_scaling(tensors, *sizes, name),
        units=content["units"],
        seen=None if content["seen"] is None else Seen.from_json(content["seen"], len(inputs), name),
    )
    known = {"shares", *_noise_tensors(noise), *_scaling_tensors(model.scaling)}
    extra = sorted(key for key in tensors if key not in known and not key.startswith("parts."))
    if extra:
        raise ModelFileError(f"{name}: tensor {extra[0][:60]!r} is not part of a blend.")
    return model


def _noise_tensors(noise: StudentNoise) -> Tensors:
    return {f"noise.{field.name}": getattr(noise, field.name) for field in fields(StudentNoise)}


def _read_noise(tensors: Tensors, inputs: int, outputs: int, name: str) -> StudentNoise:
    """The law; ν is above 2, so that deviations exist."""
    shapes = {"weights": (outputs, feature_count(inputs)), "dof": (outputs,), "edges": (outputs, 2)}
    noise = StudentNoise(**{key: numbers(tensors, f"noise.{key}", shape, name) for key, shape in shapes.items()})
    if not (noise.dof > 2).all():
        raise ModelFileError(f"{name}: the noise must have more than 2 degrees of freedom.")
    return noise


def _take_apart(part: Simulator) -> tuple[str, Content, Tensors]:
    """Kind, content and tensors of a part that can be saved."""
    if isinstance(part, MRGPSSM):
        return (_MODEL, *unpack(model_bytes(part.fitted_), _MODEL, "the state-space model"))
    assert isinstance(part, (StaticGP, StaticTrees))  # noqa: S101  # checked before
    kind = next(kind for kind, own in _STATIC.items() if isinstance(part, own))
    model = part.fitted_
    options = part.get_params(deep=False) | {"filters": list(model.drive.filters), "delays": list(model.drive.delays)}
    tensors = {f.name: getattr(model.function, f.name) for f in fields(model.function)}
    return kind, {"options": options}, tensors | {"noise_sd": model.noise_sd} | _scaling_tensors(model.scaling)


def _read_parts(
    parts: list[Content],
    tensors: Tensors,
    columns: tuple[tuple[str, ...], tuple[str, ...]],
    about: Content,
    name: str,
    own: Mapping[str, Any] | None,
) -> Iterator[tuple[str, Simulator]]:
    for number, part in enumerate(parts):
        prefix, where = f"parts.{number}.", f"{name}, part {part['name']}"
        mine = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if part["kind"] == _MODEL:
            fitted = parse_model(pack(_MODEL, part["content"], mine), where, own)
            if (fitted.input_names, fitted.output_names) != columns:
                raise ModelFileError(f"{where}: its columns are not those of the blend.")
            yield part["name"], from_fitted(fitted)
        else:
            yield part["name"], _read_static(part, mine, columns, about, where)


def _read_static(
    part: Content, tensors: Tensors, columns: tuple[tuple[str, ...], tuple[str, ...]], about: Content, name: str
) -> AbstractStatic:
    """A static simulator with what it has learned."""
    options, (inputs, outputs) = part["content"].get("options"), columns
    kind = _STATIC[part["kind"]]
    if not isinstance(options, dict) or set(options) != set(kind().get_params(deep=False)):
        raise ModelFileError(f"{name}: its options are not those of {kind.__name__}.")
    try:
        drive = Structure(filters=options["filters"], delays=options["delays"]).drive
    except ConfigError as error:
        raise ModelFileError(f"{name}: {error!s:.300}") from None
    drives = len(drive.names(inputs))
    function = (_read_process if kind is StaticGP else _read_forest)(tensors, len(outputs), drives, name)
    noise_sd = numbers(tensors, "noise_sd", (len(outputs),), name)
    if not (noise_sd > 0).all():
        raise ModelFileError(f"{name}: tensor noise_sd must be positive.")
    scaling = _read_scaling(tensors, drives, len(outputs), name)
    static = kind(**options)
    static.fitted_ = FittedStatic(
        function, drive, scaling, noise_sd, inputs, outputs, about["units"], float(about["dt"])
    )
    return static


def _read_process(tensors: Tensors, outputs: int, drives: int, name: str) -> Process:
    rows = len(tensors["inducing"]) if "inducing" in tensors and tensors["inducing"].ndim else 0
    process = Process(
        numbers(tensors, "inducing", (rows, drives), name),
        numbers(tensors, "weights", (outputs, rows), name),
        numbers(tensors, "lengthscales", (outputs, drives), name),
        numbers(tensors, "slopes", (outputs, drives), name),
    )
    if not rows or not (process.lengthscales > 0).all():
        raise ModelFileError(f"{name}: there must be inducing rows, and lengthscales must be positive.")
    return process


def _read_forest(tensors: Tensors, outputs: int, drives: int, name: str) -> Forest:
    roots = tensors.get("roots", np.zeros(0))
    count, nodes = roots.shape[-1] if roots.ndim else 0, (tensors["values"].size if "values" in tensors else 1,)
    forest = Forest(
        whole_numbers(tensors, "features", nodes, name),
        whole_numbers(tensors, "children", nodes, name),
        numbers(tensors, "values", nodes, name),
        whole_numbers(tensors, "roots", (outputs, count), name),
        numbers(tensors, "baselines", (outputs,), name),
    )
    fault = forest.find_fault(drives)
    if fault is not None:
        raise ModelFileError(f"{name}: {fault}.")
    return forest


def _scaling_tensors(scaling: Scaling) -> Tensors:
    return {f"scaling.{f.name}": np.asarray(getattr(scaling, f.name), float) for f in fields(scaling)}


def _read_scaling(tensors: Tensors, inputs: int, outputs: int, name: str) -> Scaling:
    sizes = {f.name: inputs if f.name.startswith("input") else outputs for f in fields(Scaling)}
    found = Scaling(**{key: numbers(tensors, f"scaling.{key}", (size,), name) for key, size in sizes.items()})
    if not ((found.input_sd > 0).all() and (found.output_sd > 0).all()):
        raise ModelFileError(f"{name}: deviations must be positive.")
    return found


def _read_content(content: Content, name: str) -> tuple[tuple[str, ...], tuple[str, ...], list[Content]]:
    """Inputs, outputs and parts; every key is checked, a newer version before anything else."""
    if content.get("version") != _VERSION:
        number = content.get("version")
        raise ModelFileError(
            f"{name}: a blend of format {number!r:.40}; this mrgpssm reads {_VERSION}. Update mrgpssm."
        )
    odd = sorted(set(content) ^ _KEYS)
    if odd:
        raise ModelFileError(f"{name}: the metadata key {odd[0][:60]!r} is missing or unknown.")
    inputs, outputs = (_read_names(content[key], key, name) for key in ("inputs", "outputs"))
    units, parts = content["units"], content["parts"]
    if not isinstance(units, dict) or not all(isinstance(v, str) for v in units.values()):
        raise ModelFileError(f"{name}: units must map names to texts.")
    if not Number().accepts(content["dt"]):
        raise ModelFileError(f"{name}: dt must be a positive number; got {content['dt']!r:.40}.")
    if not isinstance(parts, list) or not parts or not all(map(_is_part, parts)):
        raise ModelFileError(f"{name}: the parts must be a list of names, kinds and contents.")
    _read_names([part["name"] for part in parts], "parts", name)
    return inputs, outputs, parts


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict) or set(part) != {"name", "kind", "content"}:
        return False
    named = isinstance(part["name"], str) and part["name"].isidentifier()
    return named and part["kind"] in (_MODEL, *_STATIC) and isinstance(part["content"], dict)


def _read_names(value: Any, key: str, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ModelFileError(f"{name}: {key} must be a list of names.")
    if len(set(value)) != len(value):
        raise ModelFileError(f"{name}: {key} has a name twice.")
    return tuple(value)
