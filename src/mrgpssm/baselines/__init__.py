"""Baselines with the interface of `MRGPSSM`: boosted trees, a GRU, linear models and a static regression.

Each baseline is tuned on its training sequences alone and simulates freely: it never sees the measured outputs of the
sequence that it simulates. Heavy packages such as scikit-learn are imported when they are first used.
"""

from mrgpssm.baselines.arx import ARX
from mrgpssm.baselines.base import AbstractBaseline
from mrgpssm.baselines.gru import GRU
from mrgpssm.baselines.output_error import OutputError
from mrgpssm.baselines.static import StaticRegression
from mrgpssm.baselines.subspace import Subspace
from mrgpssm.baselines.trees import BoostedTrees

METHODS: dict[str, type[AbstractBaseline]] = {
    "trees": BoostedTrees,
    "gru": GRU,
    "arx": ARX,
    "subspace": Subspace,
    "oe": OutputError,
    "static": StaticRegression,
}

__all__ = [
    "ARX",
    "GRU",
    "METHODS",
    "AbstractBaseline",
    "BoostedTrees",
    "OutputError",
    "StaticRegression",
    "Subspace",
]
