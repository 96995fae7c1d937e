"""Gaussian processes: kernels and the whitened sparse conditional."""

from mrgpssm.gp.kernels import RBF, AbstractKernel, Matern32, Matern52
from mrgpssm.gp.sparse import (
    AbstractInducingPosterior,
    CentredPosterior,
    Conditional,
    Features,
    SparseGP,
    WhitenedPosterior,
)

__all__ = [
    "RBF",
    "AbstractInducingPosterior",
    "AbstractKernel",
    "CentredPosterior",
    "Conditional",
    "Features",
    "Matern32",
    "Matern52",
    "SparseGP",
    "WhitenedPosterior",
]
