"""Tensors of a file, taken by name with the shape and the kind of numbers that its settings ask for."""

import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.file.tensors import Tensors, check_finite, find_tensor

__all__ = ["Tensors", "numbers", "whole_numbers"]


def numbers(tensors: Tensors, key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    """A tensor of finite numbers of that shape; `name` is what messages call the file."""
    values = find_tensor(tensors, key, shape, where=f"{name}: ").astype(float)
    check_finite(values, key, f"{name}: ")
    return values


def whole_numbers(tensors: Tensors, key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    """A tensor of whole numbers of 32 bits of that shape."""
    values = find_tensor(tensors, key, shape, where=f"{name}: ")
    if values.dtype != np.int32:
        raise ModelFileError(f"{name}: tensor {key} is of {values.dtype}; it must hold whole numbers of 32 bits.")
    return values
