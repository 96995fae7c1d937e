"""The law of a measurement given S samples x_s of an output and the deviations σ_s of its noise:

    F(q) = (1/S) Σ_s Φ((q - x_s) / σ_s).

A quantile of F is too close to the middle, because F is known from S samples only. Let the truth be one more draw of
the sampler, plus noise. Write g_s = Φ((q - x_s) / σ_s), and V(q) for the variance of g_s over the sampler. Expanding
around the true quantile, the chance of a truth below the q that solves F(q) = p* is, to order 1/S,

    p* + (1/2S) V'(q) / F'(q),        V' / 2F' = E_w[g] - E[g],        w_s ∝ φ((q - x_s) / σ_s) / σ_s.

So that this chance is p, the quantile of level p solves F(q) = p* with

    p* = p + (p - E_w[g]) / S,

where both means, p = E[g] and E_w[g], are taken over the samples at a first guess of q. No form of the sampler's law is
assumed. Without noise E_w[g] = 1/2, and p* puts the quantile at the order statistic number p (S + 1), which is exact;
where noise is all there is, g is the same for all samples and p* = p.

S samples say nothing of levels below 1/(S + 1) or above S/(S + 1). There the quantile goes on from the outermost level
as Student's t, with the deviation sd of a measurement that was not among the samples, and with the degrees of freedom
by Welch and Satterthwaite: sd² = v + σ², v = (S + 1)/(S - 1) Var(x), ν = (S - 1) (sd² / v)².

So that F has a density where there is next to no noise, σ_s is at least S^(-1/5)/5 of the samples' deviation.
"""

import numpy as np

from mrgpssm.runtime.distributions.normal import normal_cdf, normal_quantile
from mrgpssm.runtime.distributions.student import student_quantile

_BLOCK = 50_000  # values of Φ at a time
_NARROWEST = 0.2
_CLOSE = 3e-4  # of the narrowest noise: after a step as short as this, Newton's error is about its square
_STEPS = 100


def mixture_nll(measured: np.ndarray, samples: np.ndarray, noise_sd: np.ndarray) -> np.ndarray:
    """-log F'(y) for measurements (T, D) and samples (S, T, D); the noise broadcasts against the samples."""
    z = (measured[None] - samples) / noise_sd
    log_density = -0.5 * z**2 - np.log(noise_sd) - 0.5 * np.log(2 * np.pi)
    top = log_density.max(axis=0)
    return np.log(len(samples)) - top - np.log(np.exp(log_density - top).sum(axis=0))


def mixture_quantiles(samples: np.ndarray, noise_sd: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(L, T, D) quantiles from samples (S, T, D) and noise deviations (S, D); NaN where a sample is not finite."""
    count, rows, outputs = samples.shape
    found = np.empty((len(levels), rows, outputs))
    size = max(1, _BLOCK // (count * outputs * len(levels)))
    sigma = np.ascontiguousarray(noise_sd.T)
    for first in range(0, rows, size):
        block = np.ascontiguousarray(samples[:, first : first + size].transpose(1, 2, 0), float)
        x, own = block.reshape(-1, count), np.tile(sigma, (len(block), 1))
        found[:, first : first + size] = _quantiles(x, own, levels).T.reshape(len(levels), -1, outputs)
    return found


def _quantiles(x: np.ndarray, sigma: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(N, L) from samples and noise deviations (N, S)."""
    count = x.shape[1]
    known = np.clip(levels, 1 / (count + 1), count / (count + 1))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        variance = x.var(axis=1, keepdims=True)
        mixture = _Mixture(x, np.maximum(sigma, _NARROWEST * count**-0.2 * np.sqrt(variance)))
        guess = mixture.guess(known)
        share, density, shown = (v.reshape(guess.shape) for v in mixture.at(guess.ravel(), mixture.rows(len(known))))
        level = known + (share - shown) / count
        found = mixture.solve(level, guess + _newton(normal_quantile(2 * level - 1), share, density))
        for i in np.flatnonzero(levels != known):
            found[:, i] += _beyond(variance, sigma, count, levels[i], known[i])
    return found


def _beyond(variance: np.ndarray, sigma: np.ndarray, count: int, level: float, known: float) -> np.ndarray:
    """(N,) from the quantile of the outermost level that the samples know to one beyond it."""
    spread = (count + 1) / (count - 1) * variance[:, 0]
    total = spread + np.mean(sigma**2, axis=1)
    dof = (count - 1) * (total / np.maximum(spread, 1e-9 * total)) ** 2
    finite = np.isfinite(dof)
    further = np.full(len(dof), np.nan)
    further[finite] = student_quantile(level, dof[finite]) - student_quantile(known, dof[finite])
    return further * np.sqrt(total)


def _newton(z: np.ndarray, share: np.ndarray, density: np.ndarray) -> np.ndarray:
    """The step towards Φ⁻¹(F(q)) = z from where F is `share` and F' is `density`."""
    reached = normal_quantile(2 * np.clip(share, 1e-15, 1 - 1e-15) - 1)
    return (z - reached) * normal_cdf(reached)[1] / density


class _Mixture:
    """N mixtures of S normal distributions, means `x` and deviations `s` (N, S)."""

    def __init__(self, x: np.ndarray, s: np.ndarray):
        self.x, self.s = x, s
        self.mean, noise = x.mean(axis=1, keepdims=True), np.mean(s**2, axis=1, keepdims=True)
        self.sd = np.sqrt(x.var(axis=1, keepdims=True) + noise)

    def rows(self, levels: int) -> np.ndarray:
        """The mixture that each of N x L numbers belongs to."""
        return np.repeat(np.arange(len(self.x)), levels)

    def guess(self, levels: np.ndarray) -> np.ndarray:
        """(N, L) m + √f (x_(p) - m) + (1 - f) sd z_p, from the samples' own quantiles and f, their share of sd².

        It is right where the samples are normal, and where there is no noise.
        """
        own = np.quantile(self.x, levels, axis=1, method="hazen").T - self.mean
        share = self.x.var(axis=1, keepdims=True) / self.sd**2
        return self.mean + np.sqrt(share) * own + (1 - share) * self.sd * normal_quantile(2 * levels - 1)

    def solve(self, level: np.ndarray, start: np.ndarray) -> np.ndarray:
        """q with F(q) = level, (N, L): Newton's method on Φ⁻¹(F(q)) = Φ⁻¹(level).

        By Cantelli's inequality q is between mean - sd √((1 - p)/p) and mean + sd √(p/(1 - p)). Where a step leaves
        what remains of that, or is not half as long as the last one, q goes to the middle instead. Every number stops
        on its own, so that none depends on its company.
        """
        shape, z = level.shape, normal_quantile(2 * level.ravel() - 1)
        low = (self.mean - self.sd * np.sqrt((1 - level) / level)).ravel()
        high = (self.mean + self.sd * np.sqrt(level / (1 - level))).ravel()
        q, level, rows = np.clip(start.ravel(), low, high), level.ravel(), self.rows(shape[1])
        enough, last = _CLOSE * self.s.min(axis=1), np.full(q.shape, np.inf)
        active = np.flatnonzero(np.isfinite(q))
        for _ in range(_STEPS):
            if not len(active):
                break
            here, row = q[active], rows[active]
            share, density, _ = self.at(here, row)
            below = share < level[active]
            low[active], high[active] = np.where(below, here, low[active]), np.where(below, high[active], here)
            step = _newton(z[active], share, density)
            there = here + step
            good = (there >= low[active]) & (there <= high[active]) & (np.abs(step) < 0.5 * last[active])
            q[active] = np.where(good, there, 0.5 * (low[active] + high[active]))
            last[active] = np.abs(q[active] - here)
            active = active[last[active] > enough[row]]
        return np.where(np.isfinite(q), q, np.nan).reshape(shape)

    def at(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F, F' and E_w[g] at numbers q, each of the mixture of its row."""
        s = self.s[rows]
        below, density = normal_cdf((q[:, None] - self.x[rows]) / s)
        density /= s
        total = density.sum(axis=1)
        weighted = np.einsum("ns,ns->n", density, below)
        shown = np.divide(weighted, total, out=np.full(len(q), 0.5), where=total > 0)
        return below.mean(axis=1), total / below.shape[1], shown
