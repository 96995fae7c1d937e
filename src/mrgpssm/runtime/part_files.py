"""The instantaneous parts as tensors of a model file: written under their names, read with every check."""

from dataclasses import fields

import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.runtime.part import Blend, Part
from mrgpssm.runtime.static import StaticPart
from mrgpssm.runtime.trees import TreesPart

Tensors = dict[str, np.ndarray]


def part_tensors(blend: Blend) -> Tensors:
    """What the tensors are called."""
    return {key: tensor for name, part in blend.parts.items() for key, tensor in named(part, name).items()}


def named(part: Part, name: str) -> Tensors:
    """The tensors of one part."""
    return {f"{name}.{f.name}": getattr(part, f.name) for f in fields(part)}  # pyright: ignore[reportArgumentType]


def read_parts(
    tensors: Tensors, outputs: int, drives: int, rows: int, rounds: int, name: str
) -> tuple[StaticPart | None, TreesPart | None]:
    """The parts that there are, of at most so many inducing `rows` and `rounds` of boosting."""
    static = _static(tensors, outputs, drives, rows, name) if rows and "static.inducing" in tensors else None
    trees = read_trees(tensors, "trees", outputs, drives, rounds, name) if rounds and "trees.roots" in tensors else None
    blend = Blend.of(outputs, static=static, trees=trees)
    if not all((part.shares >= 0).all() for part in blend.parts.values()) or not (blend.rest >= -1e-9).all():
        raise ModelFileError(f"{name}: the shares of static and trees must be in 0..1, and so must their sum.")
    return static, trees


def _static(tensors: Tensors, outputs: int, drives: int, most: int, name: str) -> StaticPart:
    rows = len(tensors["static.inducing"]) if tensors["static.inducing"].ndim else 0
    if not 0 < rows <= most:
        raise ModelFileError(f"{name}: tensor static.inducing has {rows} rows; its settings ask for 1 to {most}.")
    part = StaticPart(
        numbers(tensors, "static.inducing", (rows, drives), name),
        numbers(tensors, "static.weights", (outputs, rows), name),
        numbers(tensors, "static.lengthscales", (outputs, drives), name),
        numbers(tensors, "static.slopes", (outputs, drives), name),
        numbers(tensors, "static.shares", (outputs,), name),
    )
    if not (part.lengthscales > 0).all():
        raise ModelFileError(f"{name}: the lengthscales of the static part must be positive.")
    return part


def read_trees(tensors: Tensors, prefix: str, outputs: int, drives: int, most: int, name: str) -> TreesPart:
    """Trees of so many drives, at most so many of them for every output."""
    roots = tensors.get(f"{prefix}.roots", np.zeros(0))
    count = roots.shape[-1] if roots.ndim else 0
    if not 0 < count <= most:
        raise ModelFileError(f"{name}: tensor {prefix}.roots has {count} columns; its settings ask for 1 to {most}.")
    nodes = (tensors[f"{prefix}.values"].size if f"{prefix}.values" in tensors else 1,)
    part = TreesPart(
        _whole(tensors, f"{prefix}.features", nodes, name),
        _whole(tensors, f"{prefix}.children", nodes, name),
        numbers(tensors, f"{prefix}.values", nodes, name),
        _whole(tensors, f"{prefix}.roots", (outputs, count), name),
        numbers(tensors, f"{prefix}.baselines", (outputs,), name),
        numbers(tensors, f"{prefix}.shares", (outputs,), name),
    )
    fault = part.fault(drives)
    if fault is not None:
        raise ModelFileError(f"{name}: {fault}.")
    return part


def numbers(tensors: Tensors, key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    """A tensor of finite numbers, of the shape that the settings ask for."""
    values = _shaped(tensors, key, shape, name).astype(float)
    if not np.isfinite(values).all():
        raise ModelFileError(f"{name}: tensor {key} holds values that are not finite.")
    return values


def _whole(tensors: Tensors, key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    values = _shaped(tensors, key, shape, name)
    if values.dtype != np.int32:
        raise ModelFileError(f"{name}: tensor {key} is of {values.dtype}; it must hold whole numbers of 32 bits.")
    return values


def _shaped(tensors: Tensors, key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    if key not in tensors or tensors[key].shape != shape:
        found = list(tensors[key].shape) if key in tensors else "missing"
        raise ModelFileError(f"{name}: tensor {key} is {found}; its settings ask for {list(shape)}.")
    return tensors[key]
