"""Convert a tree of arrays to named tensors, and back into a template of the same shape."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.errors import ModelFileError

Tree = TypeVar("Tree")


def named_leaves(tree: object, prefix: str) -> dict[str, np.ndarray]:
    """Every array leaf under a dotted name such as `components.1.transition.gp.inducing`, after the prefix."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(prefix, path): np.asarray(leaf) for path, leaf in leaves}


def fill(template: Tree, tensors: dict[str, np.ndarray], prefix: str, name: str, finite: bool = True) -> Tree:
    """The template with its leaves (arrays or shapes) replaced by tensors of the same names, shapes and types.

    Shapes are checked for all leaves before finiteness is, and no tensor under the prefix may be left over.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    found = [_find(_name(prefix, path), leaf, tensors, name) for path, leaf in leaves]
    for (path, _), array in zip(leaves, found, strict=True):
        if finite and not np.isfinite(array).all():
            raise ModelFileError(f"{name}: tensor {_name(prefix, path)} holds values that are not finite.")
    spare = {key for key in tensors if not prefix or key.startswith(f"{prefix}.")} - {
        _name(prefix, path) for path, _ in leaves
    }
    if spare:
        raise ModelFileError(f"{name}: tensor {min(spare)[:80]} is not part of these settings.")
    return jax.tree_util.tree_unflatten(structure, [jnp.asarray(array) for array in found])


def _find(leaf_name: str, leaf, tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    if leaf_name not in tensors:
        raise ModelFileError(f"{name}: tensor {leaf_name} is missing; the file does not fit its own settings.")
    array = tensors[leaf_name]
    if array.shape != leaf.shape or str(array.dtype) != str(leaf.dtype):
        raise ModelFileError(
            f"{name}: tensor {leaf_name} is {array.dtype}{list(array.shape)}; its settings ask for "
            f"{leaf.dtype}{list(leaf.shape)}."
        )
    return array


def _name(prefix: str, path) -> str:
    return ".".join([prefix, *map(_part, path)] if prefix else map(_part, path))


def _part(key) -> str:
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise TypeError(f"A leaf under {key!r} has no name.")
