"""Gaussian processes: kernels and the whitened sparse conditional."""

from mrgpssm.gp.kernels import KERNELS, RBF, AbstractKernel, Matern32, Matern52, make_kernel
from mrgpssm.gp.sparse import (
    AbstractInducingPosterior,
    CentredPosterior,
    Conditional,
    Features,
    SparseGP,
    WhitenedPosterior,
)

__all__ = [
    "KERNELS",
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
    "make_kernel",
]
