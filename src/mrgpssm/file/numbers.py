"""Tensors of a file, taken by name with the shape and the kind of numbers that its settings ask for."""

import numpy as np

from mrgpssm.errors import ModelFileError

Tensors = dict[str, np.ndarray]


def numbers(tensors: Tensors, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of finite numbers of that shape."""
    values = _find(tensors, key, shape).astype(float)
    if not np.isfinite(values).all():
        raise ModelFileError(f"tensor {key} holds values that are not finite.")
    return values


def whole_numbers(tensors: Tensors, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of whole numbers of 32 bits of that shape."""
    values = _find(tensors, key, shape)
    if values.dtype != np.int32:
        raise ModelFileError(f"tensor {key} is of {values.dtype}; it must hold whole numbers of 32 bits.")
    return values


def _find(tensors: Tensors, key: str, shape: tuple[int, ...]) -> np.ndarray:
    if key not in tensors or tensors[key].shape != shape:
        found = list(tensors[key].shape) if key in tensors else "missing"
        raise ModelFileError(f"tensor {key} is {found}; its settings ask for {list(shape)}.")
    return tensors[key]
