"""The one jittered Cholesky, triangular solves and Gaussian divergences."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from mrgpssm import native
from mrgpssm.arrays.types import Array, Bool, Float, Scalar
from mrgpssm.native import cpu, gpu_factor

_MAX_JITTER = 1e-1
_SMALL = 8
_product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class JitteredCholesky(NamedTuple):
    """A factor and the jitter it needed: `factor @ factor.T = matrix + jitter * I`."""

    factor: Float[Array, "m m"]
    jitter: Scalar


def base_jitter(dtype: jnp.dtype) -> float:
    """The smallest jitter tried on a matrix with unit diagonal.

    In float32, 1e-6 leaves 3.5 % of conditional variances negative at 50 inducing points, 1e-5 none.
    """
    return 1e-8 if jnp.finfo(dtype).bits >= 64 else 1e-5


def jittered_cholesky(matrix: Float[Array, "m m"], cholesky: Callable = jnp.linalg.cholesky) -> JitteredCholesky:
    """Lower factor of a correlation matrix plus the smallest of ε, 10 ε, 100 ε, ... that makes it finite.

    The search for the jitter carries no gradient; the factor does. A matrix that has no factor even at
    jitter 0.1 (it holds a NaN, say) gives a NaN factor, for the caller to report.
    """
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    fixed = jax.lax.stop_gradient(matrix)

    def fails(jitter: Scalar) -> Bool[Array, ""]:
        factor = cholesky(fixed + jitter * eye)
        return ~jnp.all(jnp.isfinite(factor)) & (jitter < _MAX_JITTER / 2)

    start = jnp.asarray(base_jitter(matrix.dtype), matrix.dtype)
    jitter = jax.lax.while_loop(fails, lambda jitter: 10 * jitter, start)
    return JitteredCholesky(cholesky(matrix + jitter * eye), jitter)


class Factors(NamedTuple):
    """L, its inverse, and the jitter that L needed: `root @ root.T = matrix + jitter * I`."""

    root: Float[Array, "m m"]
    inverse: Float[Array, "m m"]
    jitter: Scalar


@jax.custom_vjp
def factors(matrix: Float[Array, "m m"]) -> Factors:
    """Both factors of a correlation matrix that whitening needs, with the jitter rule of `jittered_cholesky`.

    With the inverse W = L⁻¹ at hand, the reverse pass is a few products (Murray, 2016): for cotangents L̄ and W̄,

        Ḡ = L̄ - Wᵀ W̄ Wᵀ,    P = Φ(Lᵀ tril(Ḡ)),    K̄ = Wᵀ (P + Pᵀ) W / 2,

    where Φ takes the lower triangle and halves its diagonal. Which kernel computes it is settled when a program is
    compiled for a platform.
    """
    bounds = jnp.asarray([base_jitter(matrix.dtype), _MAX_JITTER], matrix.dtype)
    ways = {"cpu": cpu.factor if native.usable("cpu") else _by_rows}
    if native.usable("gpu") and gpu_factor.usable(matrix.shape[0], str(matrix.dtype)):
        ways["cuda"] = gpu_factor.factor
    return Factors(*jax.lax.platform_dependent(matrix, bounds, default=_by_library, **ways))


Parts = tuple[Float[Array, "m m"], Float[Array, "m m"], Scalar]


def _by_library(matrix: Float[Array, "m m"], bounds: Float[Array, "2"]) -> Parts:
    """`factors` with the library's Cholesky."""
    del bounds
    root, jitter = jittered_cholesky(matrix)
    return root, solve_lower(root, jnp.eye(matrix.shape[0], dtype=matrix.dtype)), jitter


def _by_rows(matrix: Float[Array, "m m"], bounds: Float[Array, "2"]) -> Parts:
    """`factors` without the library's Cholesky, which on few cores can wait for itself forever (see `factor.cc`)."""
    del bounds
    root, jitter = jittered_cholesky(matrix, _cholesky)
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)

    def row(i, inverse):
        return inverse.at[i].set((eye[i] - _product(root[i], inverse)) / root[i, i])

    return root, jax.lax.fori_loop(0, matrix.shape[0], row, jnp.zeros_like(matrix)), jitter


def _cholesky(matrix: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Column by column; what has no factor becomes NaN."""
    places = jnp.arange(matrix.shape[0])

    def column(j, rest):
        below = jnp.where(places >= j, rest[:, j] / jnp.sqrt(rest[j, j]), 0.0)
        later = places > j
        update = jnp.where(later[:, None] & later[None, :], below[:, None] * below[None, :], 0.0)
        return (rest - update).at[:, j].set(below)

    return jnp.tril(jax.lax.fori_loop(0, matrix.shape[0], column, matrix))


def _factors_forward(matrix):
    made = factors(matrix)
    return made, made


def _factors_backward(made: Factors, cotangent: Factors):
    L, W = made.root, made.inverse
    G = jnp.tril(cotangent.root - _product(W.T, _product(cotangent.inverse, W.T)))
    P = jnp.tril(_product(L.T, G))
    P = P - 0.5 * jnp.diag(jnp.diagonal(P))
    return (0.5 * _product(W.T, _product(P + P.T, W)),)


factors.defvjp(_factors_forward, _factors_backward)


def solve_lower(factor: Float[Array, "m m"], rhs: Float[Array, "m n"]) -> Float[Array, "m n"]:
    """`factor^-1 rhs` for a lower-triangular factor.

    A small one is written out row by row, for the same reason as `_by_rows`: no library call that waits for threads.
    """
    size = factor.shape[0]
    if size > _SMALL:
        return solve_triangular(factor, rhs, lower=True)
    rows: list[Float[Array, " n"]] = []
    for i in range(size):
        rows.append((rhs[i] - sum((factor[i, k] * rows[k] for k in range(i)), jnp.zeros_like(rhs[i]))) / factor[i, i])
    return jnp.stack(rows)


def whitened_kl(mean: Float[Array, " m"], factor: Float[Array, "m m"]) -> Scalar:
    """KL(N(m, S) || N(0, I)) = (tr S + mᵀm - M - log |S|) / 2 with S = factor factorᵀ."""
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return 0.5 * (jnp.sum(factor**2) + mean @ mean - mean.shape[0] - log_det)


def gaussian_kl(
    mean_q: Float[Array, " m"],
    factor_q: Float[Array, "m m"],
    mean_p: Float[Array, " m"],
    factor_p: Float[Array, "m m"],
) -> Scalar:
    """KL(N(m_q, S_q) || N(m_p, S_p)), covariances given by lower factors.

    It is invariant under whitening with p's factor, which leaves the divergence from N(0, I).
    """
    mean = solve_lower(factor_p, (mean_q - mean_p)[:, None])[:, 0]
    return whitened_kl(mean, solve_lower(factor_p, factor_q))
