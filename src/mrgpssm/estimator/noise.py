"""Learning the law of measurements from free runs over data that training has not seen, by penalised likelihood."""

from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma

from mrgpssm.runtime.distributions.student import student_nll
from mrgpssm.runtime.noise import StudentNoise, features

_PENALTY = 0.2
_INNER = (0.001, 0.999)  # quantiles of log s that become its edges
_FAR = 20.0
_DOF_EDGES = (np.log(0.05), np.log(50.0))  # of log(ν - 2)
_LEVEL, _FACTORS = 0.9, (0.5, 2.0)
_GROUPS = 4


@dataclass(frozen=True)
class Runs:
    """Free runs over data that training has not seen, scaled: what was measured (T, D_y), NaN where missing, the runs'
    means and deviations, what drove them (T, D_u), and `groups` (T,), numbers that say which rows belong together.
    """

    measured: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    drive: np.ndarray
    groups: np.ndarray

    def where(self, rows: np.ndarray) -> "Runs":
        """Some of the rows."""
        return Runs(*(getattr(self, field.name)[rows] for field in fields(self)))


def fit_noise(runs: Runs) -> StudentNoise:
    """The law of every output, widened until bands hold what they say on groups that had no part in it."""
    law, factors = fit_law(runs), conformal_factors(runs)
    weights = law.weights.copy()
    weights[:, 0] += np.log(factors)
    return replace(law, weights=weights, edges=law.edges + np.log(factors)[:, None])


def conformal_factors(runs: Runs) -> np.ndarray:
    """What s must be multiplied by, (D_y,), so that 90 % bands hold 90 % of the rows of groups that were left out.

    One law is learned without each group; over all left-out rows, the factor is the 90 % quantile of |r| over half the
    width of the band, kept from 1/2 to 2. It is 1 where there is a single group.
    """
    ratios: list[np.ndarray] = []
    several = len(np.unique(runs.groups)) > 1
    for group in np.unique(runs.groups) if several else ():
        own = runs.where(runs.groups == group)
        law = fit_law(runs.where(runs.groups != group))
        half = law.scale(own.mean, own.deviation, own.drive) * law.quantile(0.5 + _LEVEL / 2)
        ratios.append(np.abs(own.measured - own.mean) / half)
    seen = [r[~np.isnan(r)] for r in np.concatenate(ratios).T] if ratios else [np.empty(0)] * runs.measured.shape[1]
    return np.array([np.clip(np.quantile(r, _LEVEL), *_FACTORS) if len(r) else 1.0 for r in seen])


def fit_law(runs: Runs) -> StudentNoise:
    """The most likely law, given the penalties."""
    found = []
    for c in range(runs.measured.shape[1]):
        phi = features(runs.mean[:, c], runs.deviation[:, c], runs.drive)
        found.append(_fit_one(runs.measured[:, c] - runs.mean[:, c], phi))
    weights, dof, edges = zip(*found, strict=True)
    return StudentNoise(np.stack(weights), np.array(dof), np.stack(edges))


def group_rows(lengths: list[int]) -> np.ndarray:
    """Four groups of whole sequences, or of stretches where there are fewer, a number for every row."""
    if len(lengths) >= _GROUPS:
        return np.repeat(np.arange(len(lengths)) % _GROUPS, lengths)
    return np.concatenate([np.arange(n) * _GROUPS // n for n in lengths])


def objective(parameters: np.ndarray, residual: np.ndarray, phi: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean -log density + penalty |w_1:|², and its gradient in [w, log(ν - 2)]."""
    w, excess = parameters[:-1], np.exp(parameters[-1])
    dof, scale = 2 + excess, np.exp(np.clip(phi @ w, -_FAR, _FAR))
    value = float(np.mean(student_nll(residual, scale, np.asarray(dof)))) + _PENALTY * float(w[1:] @ w[1:])
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
