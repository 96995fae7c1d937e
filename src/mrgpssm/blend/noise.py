"""Learning the law of measurements from free runs over data that training has not seen, by penalised likelihood."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma

from mrgpssm.blend.boost import Growth, boost, mean_of
from mrgpssm.runtime.distributions.student import student_nll
from mrgpssm.runtime.noise import StudentNoise, features, places

_PENALTY = 0.2
_INNER = (0.001, 0.999)  # quantiles of log s that become its edges
_FAR = 20.0
_DOF_EDGES = (np.log(0.05), np.log(50.0))  # of log(ν - 2)
_GROWTH = Growth(rounds=60, leaves=15, leaf_rows=100)
_LEVEL, _FACTORS = 0.9, (0.5, 2.0)
_SMALL = 0.02  # of the errors' deviation: smaller errors count as this large


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


def fit_noise(runs: Runs, boosted: bool) -> StudentNoise:
    """The law of every output, widened until bands hold what they say on groups that had no part in it."""
    law, factors = fit_law(runs, boosted), conformal_factors(runs, boosted)
    weights = law.weights.copy()
    weights[:, 0] += np.log(factors)
    return replace(law, weights=weights, edges=law.edges + np.log(factors)[:, None])


def conformal_factors(runs: Runs, boosted: bool) -> np.ndarray:
    """What s must be multiplied by, (D_y,), so that 90 % bands hold 90 % of the rows of groups that were left out.

    One law is learned without each group; over all left-out rows, the factor is the 90 % quantile of |r| over half the
    width of the band, kept from 1/2 to 2. It is 1 where there is a single group.
    """
    ratios: list[np.ndarray] = []
    several = len(np.unique(runs.groups)) > 1
    for group in np.unique(runs.groups) if several else ():
        own = runs.where(runs.groups == group)
        law = fit_law(runs.where(runs.groups != group), boosted)
        half = law.scale(own.mean, own.deviation, own.drive) * law.quantile(0.5 + _LEVEL / 2)
        ratios.append(np.abs(own.measured - own.mean) / half)
    seen = [r[~np.isnan(r)] for r in np.concatenate(ratios).T] if ratios else [np.empty(0)] * runs.measured.shape[1]
    return np.array([np.clip(np.quantile(r, _LEVEL), *_FACTORS) if len(r) else 1.0 for r in seen])


def fit_law(runs: Runs, boosted: bool) -> StudentNoise:
    """The most likely law, given the penalties.

    With boosted trees, their share is learned where every group is told by trees that have not seen it; in use, the
    mean over all of these trees counts.
    """
    outputs = range(runs.measured.shape[1])
    residual = runs.measured - runs.mean
    phi = [features(runs.mean[:, c], runs.deviation[:, c], runs.drive) for c in outputs]
    if not boosted:
        weights, dof, edges = zip(*(_fit_one(residual[:, c], phi[c], 0) for c in outputs), strict=True)
        return StudentNoise(np.stack(weights), np.array(dof), np.stack(edges))
    z = [places(runs.mean[:, c], runs.deviation[:, c], runs.drive) for c in outputs]
    told = [_hints(z[c], residual[:, c], _at_least_two(runs.groups)) for c in outputs]
    found = [_fit_one(residual[:, c], np.column_stack([phi[c], told[c][0]]), 1) for c in outputs]
    weights, dof, edges = zip(*found, strict=True)
    trees = mean_of([boosters for _, boosters in told])
    trees = replace(trees, baselines=np.zeros(len(outputs)), shares=np.array([w[-1] for w in weights]))
    return StudentNoise(np.stack([w[:-1] for w in weights]), np.array(dof), np.stack(edges), trees)


def _at_least_two(groups: np.ndarray) -> np.ndarray:
    """The groups, or two halves where there is one."""
    return groups if len(np.unique(groups)) > 1 else np.arange(len(groups)) * 2 // len(groups)


def _hints(z: np.ndarray, residual: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """What trees that have not seen a row's group say of its log|r|, less their mean, and the trees of every group."""
    seen = residual[~np.isnan(residual)]
    sizes = np.log(np.abs(residual) + _SMALL * max(float(np.std(seen)) if len(seen) else 1.0, 1e-6))
    hints, boosters = np.zeros(len(z)), []
    for group in np.unique(groups):
        own = groups == group
        boosters.append(boost(z[~own], sizes[~own], _GROWTH, seed=0))
        hints[own] = boosters[-1].predict(z[own]) - np.ravel(boosters[-1]._baseline_prediction)[0]
    return hints, boosters


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


def _fit_one(residual: np.ndarray, phi: np.ndarray, shares: int) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights, ν and edges of one output; a broad law where nothing was measured. The last weights, `shares` of them,
    stay from 0 to 1.
    """
    seen = ~np.isnan(residual)
    residual, phi = residual[seen], phi[seen]
    start = np.zeros(phi.shape[1] + 1)
    start[0] = np.log(max(float(np.median(np.abs(residual))), 1e-3)) if len(residual) else 0.0
    if not len(residual):
        return start[:-1], 3.0, np.zeros(2)
    bounds = [(None, None)] * (phi.shape[1] - shares) + [(0.0, 1.0)] * shares + [_DOF_EDGES]
    found = minimize(objective, start, (residual, phi), jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:-1], float(2 + np.exp(found.x[-1])), np.quantile(phi @ found.x[:-1], _INNER)
