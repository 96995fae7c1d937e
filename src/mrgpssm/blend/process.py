"""A Gaussian process of what drives a system: kernel by marginal likelihood on some rows, posterior mean from all.

The kernel is k(u, u') = σ² exp(-r) + Σ_i v_i u_i u'_i, a rough function on top of a line: emissions of an engine jump.
Lengthscales have the prior log ℓ ~ N(log 4, 2²). The mean is that of the projected process on inducing rows Z
(deterministic training conditional), k(u)ᵀ w with w = (K_ZZ + K_ZX K_XZ / n²)⁻¹ K_ZX y / n².
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

KERNEL_ROWS, _ALL_ROWS = 1_200, 30_000  # that the kernel, that the mean is learned from
_CHUNK = 5_000  # rows at a time
_ITERATIONS = 30
_LEAST_NOISE = 0.05
_JITTER = 1e-6
_START_SCALE, _PRIOR_SD = 4.0, 2.0


@dataclass(frozen=True)
class Process:
    """m(u) = slopeᵀu + Σ_j w_j exp(-r(u, Z_j)),   r² = Σ_i (u_i - Z_ji)² / ℓ_i², in scaled units.

    `inducing` Z (M, D_u) is common; `weights` (D_y, M), `lengthscales` and `slopes` (D_y, D_u) have a row per output.
    """

    inducing: np.ndarray
    weights: np.ndarray
    lengthscales: np.ndarray
    slopes: np.ndarray

    def __call__(self, drive: np.ndarray) -> np.ndarray:
        """m at every row of a drive (T, D_u), (T, D_y)."""
        chunks = [drive[i : i + _CHUNK] for i in range(0, len(drive), _CHUNK)]
        return np.concatenate([self._at(chunk) for chunk in chunks])

    def _at(self, u: np.ndarray) -> np.ndarray:
        found = [
            u @ slope + np.exp(-distances(u, self.inducing, scales)) @ weights
            for weights, scales, slope in zip(self.weights, self.lengthscales, self.slopes, strict=True)
        ]
        return np.stack(found, axis=1)


def distances(a: np.ndarray, b: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
    """r between all rows of (N, D) and (M, D)."""
    a, b = a / lengthscales, b / lengthscales
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True)
class Kernel:
    """Its parameters: lengthscales ℓ (D,), amplitude σ, noise n, and the slopes' prior variances v (D,)."""

    lengthscales: np.ndarray
    amplitude: float
    noise: float
    variances: np.ndarray

    @classmethod
    def unpack(cls, theta: np.ndarray) -> "Kernel":
        """From [log ℓ, log v, log σ, log n]."""
        d = (len(theta) - 2) // 2
        return cls(np.exp(theta[:d]), float(np.exp(theta[-2])), float(np.exp(theta[-1])), np.exp(theta[d : 2 * d]))

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.amplitude**2 * np.exp(-distances(a, b, self.lengthscales)) + (a * self.variances) @ b.T


def fit_process(drive: np.ndarray, outputs: np.ndarray, inducing: int, seed: int) -> Process:
    """The process of every output (T, D_y), NaN where missing, given the drive (T, D_u), both scaled."""
    kernels = [_learn_kernel(drive, y, np.random.default_rng([seed, c])) for c, y in enumerate(outputs.T)]
    chosen = np.random.default_rng(seed).permutation(len(drive))[:inducing]
    Z = drive[np.sort(chosen)]
    w = [_project(kernel, drive, y, Z) for kernel, y in zip(kernels, outputs.T, strict=True)]
    return Process(
        inducing=Z,
        weights=np.stack([k.amplitude**2 * v for k, v in zip(kernels, w, strict=True)]),
        lengthscales=np.stack([k.lengthscales for k in kernels]),
        slopes=np.stack([k.variances * (Z.T @ v) for k, v in zip(kernels, w, strict=True)]),
    )


def known_rows(y: np.ndarray, most: int) -> np.ndarray:
    """Rows where y is known, evenly thinned to at most so many; none where a fold has none."""
    seen = np.flatnonzero(~np.isnan(y))
    return seen[:: max(1, -(-len(seen) // most))]


def objective(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """-log p(y, ℓ) up to a constant, and its gradient in [log ℓ, log v, log σ, log n]:

    yᵀK⁻¹y / 2 + log|K| / 2 + Σ (log ℓ - log 4)² / (2 · 2²),   ∂ = tr(G ∂K),   G = (K⁻¹ - K⁻¹y yᵀK⁻¹) / 2.
    """
    k = Kernel.unpack(theta)
    r = distances(x, x, k.lengthscales)
    np.fill_diagonal(r, 0.0)
    rough = k.amplitude**2 * np.exp(-r)
    K = rough + (x * k.variances) @ x.T
    K[np.diag_indices_from(K)] += k.noise**2 + _JITTER
    L = cholesky(K, lower=True)
    alpha = cho_solve((L, True), y)
    excess = theta[: x.shape[1]] - np.log(_START_SCALE)
    value = 0.5 * y @ alpha + np.log(np.diag(L)).sum() + 0.5 * excess @ excess / _PRIOR_SD**2
    G = 0.5 * (cho_solve((L, True), np.eye(len(x))) - np.outer(alpha, alpha))
    H = np.divide(G * rough, r, out=np.zeros_like(r), where=r > 0)
    by_scale = 2 * (H.sum(1) @ x**2 - np.einsum("nd,nd->d", x, H @ x)) / k.lengthscales**2 + excess / _PRIOR_SD**2
    by_slope = k.variances * np.einsum("nd,nd->d", x, G @ x)
    by_size = [2 * np.sum(G * rough), 2 * k.noise**2 * np.trace(G)]
    return float(value), np.concatenate([by_scale, by_slope, by_size])


def _learn_kernel(drive: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Kernel:
    some = np.sort(rng.permutation(np.flatnonzero(~np.isnan(y)))[:KERNEL_ROWS])
    x, y = drive[some], y[some]
    d = x.shape[1]
    start = np.concatenate([np.full(d, np.log(_START_SCALE)), np.full(d, np.log(0.01)), [0.0, np.log(0.3)]])
    bounds = [(-2.0, 6.0)] * d + [(-12.0, 4.0)] * d + [(-4.0, 3.0), (np.log(_LEAST_NOISE), 1.0)]
    found = minimize(
        objective, start, (x, y), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS}
    )
    return Kernel.unpack(found.x)


def _project(kernel: Kernel, x: np.ndarray, y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """w from the rows where y is known, by the whitened system: V = L⁻¹ K_ZX, w = L⁻ᵀ (I + V Vᵀ / n²)⁻¹ V y / n²."""
    rows = known_rows(y, _ALL_ROWS)
    K = kernel(Z, Z)
    K[np.diag_indices_from(K)] += _JITTER * (1 + kernel.amplitude**2)
    L = cholesky(K, lower=True)
    A, b = np.eye(len(Z)), np.zeros(len(Z))
    for some in (rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)):
        V = solve_triangular(L, kernel(Z, x[some]), lower=True) / kernel.noise
        A += V @ V.T
        b += V @ y[some] / kernel.noise
    return solve_triangular(L, cho_solve((cholesky(A, lower=True), True), b), lower=True, trans=1)
