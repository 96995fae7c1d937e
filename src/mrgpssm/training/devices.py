"""Several devices in one process: the fleet axis cut over all of them, every device with its own members.

Members never speak to each other, so a fleet of F on N devices is N fleets of F / N, run by one program (`shard_map`
over a mesh with the single axis "fleet"); the native kernels are called on every device for its own part. Data is
copied to all devices once.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mrgpssm.arrays.compile import quick_jit

_FLEET = "fleet"


def fleet_mesh(members: int) -> Mesh | None:
    """As many of the visible devices as divide the fleet into equal parts; None where one device does it all.

    A default device that the user has set is respected.
    """
    devices = jax.local_devices()
    if jax.config.jax_default_device is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    count = max(n for n in range(1, min(len(devices), members) + 1) if members % n == 0)
    return Mesh(np.array(devices[:count]), (_FLEET,)) if count > 1 else None


def on_all(tree: Any, mesh: Mesh | None) -> Any:
    """The tree's arrays copied to every device of the mesh."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def on_first(tree: Any, mesh: Mesh | None) -> Any:
    """What a sharded run leaves, gathered on the first device."""
    return tree if mesh is None else jax.device_put(tree, mesh.devices.flat[0])


def fleet_program(function: Callable, in_axes: tuple) -> Callable:
    """`function` of one member, compiled for fleets; a mesh as first argument says which devices share the members."""
    mapped = eqx.filter_vmap(function, in_axes=in_axes)

    @quick_jit
    def run(mesh: Mesh | None, *arguments):
        if mesh is None:
            return mapped(*arguments)
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        specs = tuple(_specs(axes, part) for axes, part in zip(in_axes, arrays, strict=True))
        local = jax.shard_map(
            lambda *parts: mapped(*eqx.combine(parts, rest)),
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec(_FLEET),
            check_vma=False,
        )
        return local(*arrays)

    return run


def _specs(axes: Any, part: Any) -> Any:
    """Where vmap maps an axis, the mesh cuts it."""
    if isinstance(axes, tuple):
        return type(part)(*(_specs(a, p) for a, p in zip(axes, part, strict=True)))
    spec = PartitionSpec() if axes is None else PartitionSpec(_FLEET)
    return jax.tree.map(lambda _: spec, part)
