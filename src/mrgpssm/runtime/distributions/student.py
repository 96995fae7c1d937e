"""Student's t: density, quantiles, and draws."""

import functools
import math

import numpy as np

from mrgpssm.runtime.distributions.normal import normal_cdf, normal_quantile

_MANY = 1_000.0  # degrees of freedom from which on the expansion around the normal is exact to 1e-12
_TERMS, _STEPS = 400, 60
_FURTHEST, _POINTS = 6.0, 2001  # of the table from normal to Student's numbers


def student_nll(residual: np.ndarray, scale: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """-log density of residuals r = s T:

    log Γ(ν/2) - log Γ((ν+1)/2) + log(πν)/2 + log s + (ν+1)/2 log(1 + r²/(ν s²)).
    """
    constant = _log_gamma(dof / 2) - _log_gamma((dof + 1) / 2) + 0.5 * np.log(np.pi * dof)
    return constant + np.log(scale) + (dof + 1) / 2 * np.log1p((residual / scale) ** 2 / dof)


def student_quantile(level: float, dof: np.ndarray) -> np.ndarray:
    """t with P(T <= t) = level, for every number of degrees of freedom.

    Newton's method on log P(T > t), from the normal quantile; for many degrees of freedom the expansion around that one
    (Abramowitz and Stegun, 26.7.5).
    """
    dof, tail = np.asarray(dof, float), min(level, 1 - level)
    z = -normal_quantile(np.array([2 * tail - 1]))[0]
    found = _expansion(z, np.maximum(dof, _MANY))
    few = dof < _MANY
    if few.any():
        found[few] = _solve(tail, z, dof[few])
    return found if level > 0.5 else -found


def student_cdf(t: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """P(T <= t); NaN stays NaN."""
    t, dof = np.broadcast_arrays(np.asarray(t, float), dof)
    away = np.where(np.isnan(t), 0.0, np.abs(t))
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(away > 0, student_tail(away, dof), 0.5)
    return np.where(np.isnan(t), np.nan, np.where(t > 0, 1 - above, above))


def student_of_normal(g: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """F⁻¹(Φ(g)) for numbers g (..., D) and dof (D,), to 1e-4: between points of a table, up to |g| = 6."""
    found = [np.copysign(np.interp(np.abs(g[..., c]), *_table(float(v))), g[..., c]) for c, v in enumerate(dof)]
    return np.stack(found, axis=-1)


@functools.lru_cache(maxsize=64)
def _table(dof: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers g >= 0 and F⁻¹(Φ(g))."""
    g = np.linspace(0.0, _FURTHEST, _POINTS)
    found = np.zeros_like(g)
    found[1:] = _solve(normal_cdf(-g[1:])[0], g[1:], np.full(_POINTS - 1, dof))
    return g, found


def student_draws(uniform: tuple[np.ndarray, np.ndarray], dof: np.ndarray) -> np.ndarray:
    """√(ν (U^(-2/ν) - 1)) cos(2π V) from two uniform numbers on (0, 1): exactly Student's t (Bailey, 1994)."""
    return np.sqrt(dof * np.expm1(-2 / dof * np.log(uniform[0]))) * np.cos(2 * np.pi * uniform[1])


def _solve(tail: float | np.ndarray, start: float | np.ndarray, dof: np.ndarray) -> np.ndarray:
    """t >= 0 with P(T > t) = tail."""
    t = np.full(dof.shape, start)
    for _ in range(_STEPS):
        above = student_tail(t, dof)
        step = above * np.log(above / tail) * np.exp(student_nll(t, np.ones(1), dof))
        t = t + step
        if (np.abs(step) <= 1e-14 * t).all():
            break
    return t


def student_tail(t: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """P(T > t) for t >= 0: half the regularised incomplete beta function I_x(ν/2, 1/2) at x = ν / (ν + t²)."""
    x = dof / (dof + t * t)
    half = np.full_like(x, 0.5)
    near = x > (dof + 2) / (dof + 5)  # where the fraction of the complement converges faster
    a, b, y = np.where(near, half, dof / 2), np.where(near, dof / 2, half), np.where(near, t * t / (dof + t * t), x)
    with np.errstate(divide="ignore"):
        front = a * np.log(y) + b * np.log1p(-y) - np.log(a) - _log_beta(a, b)
    beta = np.exp(front) * _fraction(a, b, y)
    return np.where(near, 1 - beta, beta) / 2


def _fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by Lentz's method."""
    c, d = np.ones_like(x), 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c, d = 1 + term / c, 1 / (1 + term * d)
            value = value * c * d
        if (np.abs(c * d - 1) < 1e-15).all():
            break
    return value


def _expansion(z: float, dof: np.ndarray) -> np.ndarray:
    """z + g_1(z) / ν + ... + g_4(z) / ν⁴."""
    powers = z ** np.arange(1, 10, 2)
    terms = (
        powers[:2] @ [1, 1] / 4,
        powers[:3] @ [3, 16, 5] / 96,
        powers[:4] @ [-15, 17, 19, 3] / 384,
        powers @ [-945, -1920, 1482, 776, 79] / 92160,
    )
    return z + np.sum([term / dof ** (i + 1) for i, term in enumerate(terms)], axis=0)


def _log_beta(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def _log_gamma(values: np.ndarray) -> np.ndarray:
    """log Γ, number by number: there are few."""
    values = np.asarray(values, float)
    return np.array([math.lgamma(v) for v in values.ravel()]).reshape(values.shape)
