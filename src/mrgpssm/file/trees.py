"""Convert a tree of arrays to named tensors, and back into a template of the same shape."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.file.tensors import Tensors, check_finite, find_tensor

Tree = TypeVar("Tree")


def named_leaves(tree: object, prefix: str) -> Tensors:
    """Every array leaf under a dotted name such as `components.1.transition.gp.inducing`, after the prefix."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(prefix, path): np.asarray(leaf) for path, leaf in leaves}


def fill(template: Tree, tensors: Tensors, prefix: str, name: str, finite: bool = True) -> Tree:
    """The template with its leaves (arrays or shapes) replaced by tensors of the same names, shapes and types.

    Shapes are checked for all leaves before finiteness is, and no tensor under the prefix may be left over.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    wanted, where = {_name(prefix, path): leaf for path, leaf in leaves}, f"{name}: "
    found = {key: find_tensor(tensors, key, leaf.shape, leaf.dtype, where) for key, leaf in wanted.items()}
    for key, array in found.items() if finite else ():
        check_finite(array, key, where)
    spare = {key for key in tensors if not prefix or key.startswith(f"{prefix}.")} - set(wanted)
    if spare:
        raise ModelFileError(f"{name}: tensor {min(spare)[:80]} is not part of these settings.")
    return jax.tree_util.tree_unflatten(structure, [jnp.asarray(array) for array in found.values()])


def _name(prefix: str, path) -> str:
    return ".".join([prefix, *map(_part, path)] if prefix else map(_part, path))


def _part(key) -> str:
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise TypeError(f"A leaf under {key!r} has no name.")
