"""Learning the law of measurements from free runs over data that training has not seen, by penalised likelihood."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from mrgpssm.noise.law import StudentNoise, features

_PENALTY = 0.2
_INNER = (0.001, 0.999)  # quantiles of log s that become its edges
_FAR = 20.0
_DOF_EDGES = (np.log(0.05), np.log(50.0))  # of log(ν - 2)


def fit_noise(measured: np.ndarray, mean: np.ndarray, deviation: np.ndarray, drive: np.ndarray) -> StudentNoise:
    """All outputs from (T, D_y) measurements, NaN where missing, and the runs' (T, D_y) means and deviations."""
    found = [
        _fit_one(measured[:, c] - mean[:, c], features(mean[:, c], deviation[:, c], drive))
        for c in range(measured.shape[1])
    ]
    weights, dof, edges = zip(*found, strict=True)
    return StudentNoise(np.stack(weights), np.array(dof), np.stack(edges))


def student_nll_terms(residual: np.ndarray, scale: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """-log density of residuals r = s T:

    log Γ(ν/2) - log Γ((ν+1)/2) + log(πν)/2 + log s + (ν+1)/2 log(1 + r²/(ν s²)).
    """
    constant = gammaln(dof / 2) - gammaln((dof + 1) / 2) + 0.5 * np.log(np.pi * dof)
    return constant + np.log(scale) + (dof + 1) / 2 * np.log1p((residual / scale) ** 2 / dof)


def objective(parameters: np.ndarray, residual: np.ndarray, phi: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean -log density + penalty |w_1:|², and its gradient in [w, log(ν - 2)]."""
    w, excess = parameters[:-1], np.exp(parameters[-1])
    dof, scale = 2 + excess, np.exp(np.clip(phi @ w, -_FAR, _FAR))
    value = float(np.mean(student_nll_terms(residual, scale, np.asarray(dof)))) + _PENALTY * float(w[1:] @ w[1:])
    q = (residual / scale) ** 2 / dof
    by_scale = phi.T @ (1 - (dof + 1) * q / (1 + q)) / len(residual)
    by_scale[1:] += 2 * _PENALTY * w[1:]
    by_dof = digamma(dof / 2) - digamma((dof + 1) / 2) + 1 / dof
    by_dof = 0.5 * (by_dof + np.mean(np.log1p(q) - (dof + 1) / dof * q / (1 + q)))
    return value, np.append(by_scale, by_dof * excess)


def _fit_one(residual: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights, ν and edges of one output; a broad law where nothing was measured."""
    seen = ~np.isnan(residual)
    residual, phi = residual[seen], phi[seen]
    start = np.zeros(phi.shape[1] + 1)
    start[0] = np.log(max(float(np.median(np.abs(residual))), 1e-3)) if len(residual) else 0.0
    if not len(residual):
        return start[:-1], 3.0, np.zeros(2)
    bounds = [(None, None)] * phi.shape[1] + [_DOF_EDGES]
    found = minimize(objective, start, (residual, phi), jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:-1], float(2 + np.exp(found.x[-1])), np.quantile(phi @ found.x[:-1], _INNER)
