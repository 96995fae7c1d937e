"""What a user would pick instead: boosted trees, a GRU, linear models, a static regression; used as `MRGPSSM` is.

Each is tuned on its training sequences alone and simulates freely: measured outputs of the sequence that is simulated
are never looked at. Nothing heavy, scikit-learn among it, is imported before it is used.
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
