"""From the tensors of a model file to the arrays that a simulation needs.

The leading axes are N models (rounds of the ensemble x groups of outputs) and L components; a stored parameter is raw,
as in `mrgpssm.arrays.params`: softplus makes it positive, G L⁻ᵀ with L Lᵀ = I + GᵀG makes it a contraction.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.spec import Structure

_FLOOR, _RAW_LIMIT, _MAX_JITTER = 1e-6, 100.0, 1e-1
JITTER = {"float32": 1e-5, "float64": 1e-8}


def _matern32(squared_distance: np.ndarray) -> np.ndarray:
    s = np.sqrt(3.0 * squared_distance)
    return (1 + s) * np.exp(-s)


def _matern52(squared_distance: np.ndarray) -> np.ndarray:
    s = np.sqrt(5.0 * squared_distance)
    return (1 + s + s**2 / 3) * np.exp(-s)


CORRELATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rbf": lambda squared_distance: np.exp(-0.5 * squared_distance),
    "matern32": _matern32,
    "matern52": _matern52,
}


@dataclass(frozen=True)
class Arrays:
    """Parameters in their own units, float64, with leading axes (N, L); `whitener`, `variance` as in `Conditional`.

    A step of size h is x' = x + h (A x + B u + b + a(z)ᵀ v) + e, e ~ N(0, h² (k̃ - aᵀa) + h Q), where a(z) = whitener ·
    ρ(r²) with the correlation ρ of the `kernel`, and q(v) = N(mean, factor factorᵀ). `noise_sd` is (N, D_y), and
    `emission` has the matrices of a learned emission. In a cascade, u is followed by the states of
    the components in the rows of `drivers`, (L, K), K = 0 where there is no cascade; places that a component does not
    need have no effect on it, because their relevance and their columns of B are 0.
    """

    A: np.ndarray
    B: np.ndarray
    b: np.ndarray
    Q: np.ndarray
    inducing: np.ndarray
    relevance: np.ndarray
    whitener: np.ndarray
    variance: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    noise_sd: np.ndarray
    drivers: np.ndarray
    kernel: str = "rbf"
    emission: dict[str, np.ndarray] = field(default_factory=dict)

    def correlation(self, squared_distance: np.ndarray) -> np.ndarray:
        """ρ(r²), as in `mrgpssm.gp.kernels`."""
        return CORRELATIONS[self.kernel](squared_distance)

    def emit(self, states: np.ndarray, outputs: int) -> np.ndarray:
        """(N, D_g, S): what states (N, L, d, S) show in so many outputs, Σ_l g_l(x^(l))."""
        if not self.emission:
            return states[:, :, :outputs].sum(axis=1)
        shown = self.emission["C"] @ states
        if "V" in self.emission:
            hidden = np.tanh(self.emission["W"] @ states + self.emission["w"][..., None])
            shown = shown + self.emission["V"] @ hidden
        return shown.sum(axis=1)


def positive(raw: np.ndarray) -> np.ndarray:
    """softplus(raw) + 1e-6."""
    return np.logaddexp(0.0, raw) + _FLOOR


def lower_triangular(raw: np.ndarray) -> np.ndarray:
    """A lower-triangular factor with positive diagonal."""
    diagonal = positive(np.diagonal(raw, axis1=-2, axis2=-1))
    return np.tril(raw, -1) + diagonal[..., None] * np.eye(raw.shape[-1])


def make_arrays(components: list[list[dict[str, np.ndarray]]], noise: np.ndarray, structure: Structure) -> Arrays:
    """Every component of every model, converted and stacked; tensors are named as in the file."""
    slower = [structure.slower(part) for part in range(len(structure.resolutions))]
    most = max(map(len, slower))
    drivers = np.array([[*some, *[part] * (most - len(some))] for part, some in enumerate(slower)], int)
    room = [most - len(some) for some in slower]
    rows = [[_widen(_component(c, structure, p), room[p]) for p, c in enumerate(row)] for row in components]
    emission = _stack([[_emission(c) for c in row] for row in components])
    return Arrays(**_stack(rows), noise_sd=positive(noise), drivers=drivers, kernel=structure.kernel, emission=emission)


def _stack(rows: list[list[dict[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    return {name: np.stack([[c[name] for c in row] for row in rows]) for name in rows[0][0]}


def _emission(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix("emission."): t for name, t in tensors.items() if name.startswith("emission.")}


def _widen(arrays: dict[str, np.ndarray], places: int) -> dict[str, np.ndarray]:
    """With room for the states of so many further components, which have no effect."""
    room = places * arrays["A"].shape[0]
    some = {name: arrays[name] for name in ("B", "inducing", "relevance")}
    return arrays | {name: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, room)]) for name, a in some.items()}


def _component(tensors: dict[str, np.ndarray], structure: Structure, part: int) -> dict[str, np.ndarray]:
    gp = {name.removeprefix("transition.gp."): value for name, value in tensors.items()}
    amplitude, relevance = positive(gp["kernel.raw_amplitude"]), 1 / positive(gp["kernel.raw_lengthscales"]) ** 2
    factors = [_factors(Z, relevance, structure) for Z in gp["inducing"]]
    inverse, jitter = np.stack([f[0] for f in factors]), np.array([f[1] for f in factors])
    stable = structure.preset == "stable"  # with q(v), not q(f_M), and a mean
    mean, factor = gp["posterior.mean"], lower_triangular(gp["posterior.raw_factor"])
    if not stable:
        mean, factor = np.einsum("dij,dj->di", inverse / amplitude, mean), inverse / amplitude @ factor
    d, inputs = mean.shape[0], relevance.shape[0] - mean.shape[0]
    A, B, b = np.zeros((d, d)), np.zeros((d, inputs)), np.zeros(d)
    if stable:
        raw, k = tensors["transition.mean.raw_contraction"], structure.integrating(part)
        A[k:, k:] = (1 - 1 / structure.memory) * _contraction(raw[k:, k:]) - np.eye(d - k)
        A[:k, k:] = raw[:k, k:]
        B, b = tensors["transition.mean.B"], tensors["transition.mean.b"]
    return {
        "A": A,
        "B": B,
        "b": b,
        "Q": positive(tensors["transition.raw_process_noise"]) ** 2,
        "inducing": gp["inducing"],
        "relevance": relevance,
        "whitener": amplitude * inverse,
        "variance": amplitude**2 * (1 + jitter),
        "mean": mean,
        "factor": factor,
    }


def _factors(inducing: np.ndarray, relevance: np.ndarray, structure: Structure) -> tuple[np.ndarray, float]:
    """L⁻¹ with L Lᵀ = K / σ² + ε I, and ε: the smallest of ε₀, 10 ε₀, ... for which the precision finds a factor."""
    difference, precision = inducing[:, None] - inducing[None], structure.precision
    K = CORRELATIONS[structure.kernel](np.sum(relevance * difference**2, axis=-1))
    eye = np.eye(len(inducing))
    jitter = JITTER[precision]
    while not _has_factor((K + jitter * eye).astype(precision)):
        jitter *= 10
        if jitter > 2 * _MAX_JITTER:
            raise ModelFileError("A covariance matrix of the model has no factor; the file is damaged, restore a copy.")
    return np.tril(np.linalg.inv(np.linalg.cholesky(K + jitter * eye))), jitter


def _has_factor(matrix: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


def _contraction(raw: np.ndarray) -> np.ndarray:
    """W = G L⁻ᵀ, L Lᵀ = I + GᵀG, whose spectral norm is below 1."""
    G = np.clip(raw, -_RAW_LIMIT, _RAW_LIMIT)
    L = np.linalg.cholesky(np.eye(len(G)) + G.T @ G)
    return np.linalg.solve(L, G.T).T
