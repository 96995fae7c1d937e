"""Several simulators as one: `Blend`, two simulators without a state for it, and what a simulator must have.

    from mrgpssm.blend import Blend, Simulator, StaticGP, StaticTrees

Nothing heavy is imported before one of these names is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrgpssm.blend.blend import Blend
    from mrgpssm.blend.simulator import Simulator
    from mrgpssm.blend.static import StaticGP, StaticTrees

__all__ = ["Blend", "Simulator", "StaticGP", "StaticTrees"]

_HOMES = {"Blend": "blend", "Simulator": "simulator", "StaticGP": "static", "StaticTrees": "static"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mrgpssm.blend' has no attribute {name!r}")
    return getattr(import_module(f"mrgpssm.blend.{_HOMES[name]}"), name)
