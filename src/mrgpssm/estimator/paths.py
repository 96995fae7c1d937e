"""Learning how errors last, and what outputs have in common, from free runs over data that training has not seen.

With g the normal scores of what was measured under the calibrated law, and z those of the samples' ranks, a trajectory
of `mrgpssm.runtime.paths` has the correlations, over k rows,

    E[g_t g_{t+k}] = a E[z_t z_{t+k}] + (1 - a) b φ^k.

Shares and memory are those of least squares over lags that grow geometrically, so that short and long ones count alike.
Where noise is Gaussian, the law itself says what the share a of the samples is.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from mrgpssm.prediction.predict import FreeRuns, Piece
from mrgpssm.prediction.scores import Table
from mrgpssm.runtime.output import Measurements
from mrgpssm.runtime.paths import PathLaw, rank_scores

_ROWS = 20_000  # that are looked at, from the first of every sequence on
_EVERY = 5  # of the samples, whose correlations are taken
_LAGS, _LONGEST = 24, 2_000  # how many, and the longest, at most a third of a sequence
_MEMORIES = 60  # that are tried, from half a row to four times the longest lag
_STRONGEST = 0.95  # correlation of two outputs


@dataclass(frozen=True)
class Scored:
    """One sequence: scores g (T, D_y), NaN where nothing was measured, z (T, S, D_y), and the samples' `share` of the
    variance (T, D_y).
    """

    g: np.ndarray
    z: np.ndarray
    share: np.ndarray


def learn_paths(runs: list[FreeRuns]) -> PathLaw:
    """The law of trajectories, given runs with the calibrated law of measurements."""

    def tell(_: Piece, found: Measurements, measured: np.ndarray) -> Table:
        share = np.minimum(found.samples.var(axis=0) * (found.stretch / found.std) ** 2, 1.0)
        z = rank_scores(found.samples)[::_EVERY].transpose(1, 0, 2)
        return {"g": found.scores(measured), "z": z, "share": share}

    sequences = [s for some in runs for s in some.sequences]
    first = slice(None, -(-_ROWS // len(sequences)))
    tables = [Scored(**table) for some in runs for table in some.gather(tell, first)]
    spans = [s.clock()[-1] / max(len(s) - 1, 1) for s in sequences]
    return fit_paths(tables, runs[0].law.noise is not None, max(float(np.median(spans)), 1e-9))


def fit_paths(tables: list[Scored], learned: bool, gap: float = 1.0) -> PathLaw:
    """The law of trajectories from scores of rows that are `gap` samples apart.

    The share of the samples is `learned` where noise is not Gaussian.
    """
    lags = _list_lags([len(t.g) for t in tables])
    own, lasting, memory = [], [], []
    for c in range(tables[0].g.shape[1]):
        measured = correlate([t.g[:, c] for t in tables], lags)
        sampled = correlate([t.z[:, :, c] for t in tables], lags)
        known = None if learned else float(np.mean(np.concatenate([t.share[:, c] for t in tables])))
        a, b, rows = _fit_one(lags, measured, sampled, known)
        own, lasting, memory = [*own, a], [*lasting, b], [*memory, rows * gap]
    return PathLaw(np.array(own), np.array(lasting), np.array(memory), _find_ties(tables, np.array(own)))


def correlate(series: list[np.ndarray], lags: np.ndarray) -> np.ndarray:
    """E[x_t x_{t+k}] / E[x²] at every lag over all series (T, ...), whose mean is 0; 0 where no pair is known."""
    square = np.nanmean(np.concatenate([x.ravel() ** 2 for x in series])) if _any_known(series) else 1.0
    found = []
    for k in lags:
        pairs = np.concatenate([(x[:-k] * x[k:]).ravel() for x in series])
        pairs = pairs[~np.isnan(pairs)]
        found.append(pairs.mean() / max(square, 1e-12) if len(pairs) else 0.0)
    return np.array(found)


def _any_known(series: list[np.ndarray]) -> bool:
    return any((~np.isnan(x)).any() for x in series)


def _list_lags(lengths: list[int]) -> np.ndarray:
    longest = int(np.clip(max(lengths) // 3, 1, _LONGEST))
    return np.unique(np.geomspace(1, longest, _LAGS).round().astype(int))


def _fit_one(
    lags: np.ndarray, measured: np.ndarray, sampled: np.ndarray, known: float | None
) -> tuple[float, float, float]:
    """a, b and memory of one output; a share of the samples that is known is kept."""

    def fit(rows: float) -> tuple[float, float, float, float]:
        fading = np.exp(-lags / rows)
        if known is None:
            shares = nnls(np.column_stack([sampled, fading]), measured)[0]
            first, second = shares / max(1.0, shares.sum())
        else:
            first = known
            second = np.clip(fading @ (measured - known * sampled) / (fading @ fading), 0.0, 1 - known)
        error = np.sum((measured - first * sampled - second * fading) ** 2)
        return float(error), float(first), float(second), rows

    _, a, c, rows = min(map(fit, np.geomspace(0.5, 4 * lags[-1], _MEMORIES).tolist()))
    return a, float(np.clip(c / max(1 - a, 1e-9), 0.0, 1.0)), rows


def _find_ties(tables: list[Scored], own: np.ndarray) -> np.ndarray:
    """(D_y, D_y) correlations of what the samples do not explain, where both outputs were measured."""
    g, z = np.concatenate([t.g for t in tables]), np.concatenate([t.z for t in tables])
    sampled, count = np.einsum("tsi,tsj->ij", z, z) / z[..., 0].size, g.shape[1]
    ties = np.eye(count)
    for i in range(count):
        for j in range(i):
            pairs = g[:, i] * g[:, j]
            seen = pairs[~np.isnan(pairs)]
            rest = np.sqrt((1 - own[i]) * (1 - own[j]))
            if len(seen) and rest > 1e-3:
                tie = (seen.mean() - np.sqrt(own[i] * own[j]) * sampled[i, j]) / rest
                ties[i, j] = ties[j, i] = np.clip(tie, -_STRONGEST, _STRONGEST)
    return _make_definite(ties)


def _make_definite(ties: np.ndarray) -> np.ndarray:
    """The same matrix if it is one of correlations, else as much nearer to the identity as it takes."""
    lowest = float(np.linalg.eigvalsh(ties)[0])
    least = 1 - _STRONGEST
    share = 1.0 if lowest >= least else (1 - least) / (1 - lowest)
    return share * ties + (1 - share) * np.eye(len(ties))
