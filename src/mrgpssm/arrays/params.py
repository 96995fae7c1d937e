"""Maps from unconstrained arrays to constrained parameters, and back.

An optimiser moves freely in the raw space; every raw value, however large, is a valid parameter.
"""

import jax
import jax.numpy as jnp

from mrgpssm.arrays.linalg import solve_lower
from mrgpssm.arrays.types import Array, Float, Scalar

_FLOOR = 1e-6
_RAW_LIMIT = 100.0


def positive(raw: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """softplus(raw) + 1e-6: smooth, and never zero even where softplus underflows."""
    return jax.nn.softplus(raw) + _FLOOR


def positive_inverse(value: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """The raw array that `positive` maps to `value`; values at or below the floor of 1e-6 map to just above it."""
    excess = jnp.maximum(value - _FLOOR, _FLOOR**2)
    return excess + jnp.log(-jnp.expm1(-excess))


def lower_triangular(raw: Float[Array, "*b m m"]) -> Float[Array, "*b m m"]:
    """A lower-triangular factor with positive diagonal; what stands above the diagonal is ignored."""
    diagonal = positive(jnp.diagonal(raw, axis1=-2, axis2=-1))
    eye = jnp.eye(raw.shape[-1], dtype=raw.dtype)
    return jnp.tril(raw, -1) + diagonal[..., None] * jnp.broadcast_to(eye, raw.shape)


def lower_triangular_inverse(factor: Float[Array, "*b m m"]) -> Float[Array, "*b m m"]:
    """The raw array that `lower_triangular` maps to `factor`."""
    diagonal = positive_inverse(jnp.diagonal(factor, axis1=-2, axis2=-1))
    eye = jnp.eye(factor.shape[-1], dtype=factor.dtype)
    return jnp.tril(factor, -1) + diagonal[..., None] * jnp.broadcast_to(eye, factor.shape)


def contraction(raw: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """A matrix W with spectral norm below 1, for any raw matrix G.

    W = G L⁻ᵀ with L Lᵀ = I + GᵀG. Then W Wᵀ = G (I + GᵀG)⁻¹ Gᵀ, so a singular value s of G becomes
    s / sqrt(1 + s²). No eigenvalue problem is solved, so gradients stay finite where singular values meet. L and the
    columns of W are written out, row by row: d is small, and one fused program beats calls into a library.
    """
    G = jnp.clip(raw, -_RAW_LIMIT, _RAW_LIMIT)
    d = G.shape[0]
    S = jnp.eye(d, dtype=G.dtype) + G.T @ G
    L: dict[tuple[int, int], Scalar] = {}
    columns: list[Float[Array, " d"]] = []
    for i in range(d):
        for j in range(i + 1):
            rest = S[i, j] - sum(L[i, k] * L[j, k] for k in range(j))
            L[i, j] = jnp.sqrt(rest) if i == j else rest / L[j, j]
        columns.append((G[:, i] - sum(L[i, k] * columns[k] for k in range(i))) / L[i, i])
    return jnp.stack(columns, axis=1)


def contraction_inverse(W: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The raw matrix that `contraction` maps to W: G = W C⁻ᵀ with C Cᵀ = I - WᵀW."""
    C = jnp.linalg.cholesky(jnp.eye(W.shape[0], dtype=W.dtype) - W.T @ W)
    return solve_lower(C, W.T).T
