"""Time scales that lead from the inputs to an output, by cross-validated regression.

The output is regressed on first-order lags of simple functions of the inputs,

    y(t) ≈ c + Σ_k w_k · L_k φ(u)(t),    L_k: x(t) = a x(t-1) + (1 - a) φ(u(t)),    a = exp(-1 / τ_k),

with φ the polynomials of the standardised inputs (degree 3 where there are few inputs) and one decay exp(-t / τ_k) for
the start. All τ of a log-spaced grid share one matrix of inner products per fold, so that the cross-validated explained
variance of any set of τ is a small linear solve. A scale is kept where it explains enough of what the others leave and
is clearly apart from them. A pure delay shows as a lag of about its length.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from mrgpssm.data import Sequence

APART = 4.0  # least factor between two scales of one output
GAIN, RELATIVE_GAIN = 0.005, 0.05  # what a further scale must explain: of the output's variance, of what was left
WEAK = 0.05  # explained variance below which no scale is reported
LONGEST = 10.0  # the slowest time constant looked for is the longest recording divided by this
_FOLDS, _BLOCKS, _FEATURES, _ROWS, _RIDGE, _CLIP = 5, 20, 36, 30_000, 1e-3, 4.0


def _polynomials(sequences: list[Sequence], rows: int) -> list[np.ndarray]:
    """φ(u): all products up to the highest degree (at most 3) that keeps them few, standardised and clipped."""
    us = _standardise([s.inputs for s in sequences])
    terms = [list(c) for d in (1, 2, 3) for c in itertools.combinations_with_replacement(range(us[0].shape[1]), d)]
    few = min(_FEATURES, rows // 30)
    degree = max((d for d in (2, 3) if sum(len(c) <= d for c in terms) <= few), default=1)
    return _standardise([np.stack([u[:, c].prod(1) for c in terms if len(c) <= degree], 1) for u in us])


def _standardise(tables: list[np.ndarray]) -> list[np.ndarray]:
    stacked = np.concatenate(tables)
    mean, deviation = np.nanmean(stacked, 0), np.nanstd(stacked, 0)
    return [np.clip((x - mean) / np.where(deviation > 0, deviation, 1.0), -_CLIP, _CLIP) for x in tables]


def searches(sequences: list[Sequence]) -> "Iterator[tuple[Search, int]]":
    """Pairs of a search and its output's column; outputs that miss the same rows share the inner products."""
    ys = _standardise([s.outputs for s in sequences])
    known = np.isfinite(np.concatenate(ys))
    phis = _polynomials(sequences, int(known.sum(0).min()))
    top = max(map(len, sequences)) / LONGEST
    grid = np.geomspace(0.5, top, round(2 * np.log2(top / 0.5)) + 1)
    for mask in np.unique(known, axis=1).T:
        columns = np.flatnonzero((known == mask[:, None]).all(0))
        shared = Explained(grid, *_inner_products(phis, [y[:, columns] for y in ys], grid))
        yield from ((Search(grid, shared, place), int(column)) for place, column in enumerate(columns))


def _inner_products(phis: list[np.ndarray], ys: list[np.ndarray], grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """XᵀX (fold, p, p) and [XᵀY; diag YᵀY] (fold, p + 1, D_y) of the known rows; a fold is several blocks of rows."""
    stride = -(-sum(int(np.isfinite(y[:, 0]).sum()) for y in ys) // _ROWS)
    width, outputs = len(grid) * (phis[0].shape[1] + 1) + 1, ys[0].shape[1]
    xx, xy = np.zeros((_FOLDS, width, width)), np.zeros((_FOLDS, width + 1, outputs))
    fold = itertools.cycle(range(_FOLDS))
    for phi, y in zip(phis, ys, strict=True):
        rows = np.flatnonzero(np.isfinite(y[:, 0]))[::stride]
        x = _make_lags(phi, grid, rows)
        for block in np.array_split(np.arange(len(rows)), -(-_BLOCKS // len(ys))):
            f, a, b = next(fold), x[block], y[rows[block]]
            xx[f] += a.T @ a
            xy[f] += np.concatenate([a.T @ b, (b**2).sum(0)[None]])
    return xx, xy


def _make_lags(phi: np.ndarray, grid: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(rows, n (P + 1) + 1): for each τ the lagged φ and the decay from the start; last a column of ones."""
    columns = []
    for tau in grid:
        a = np.exp(-1 / tau)
        columns += [lfilter([1 - a], [1, -a], phi, axis=0)[rows], np.exp(-rows / tau)[:, None]]
    return np.concatenate([*columns, np.ones((len(rows), 1))], axis=1).astype(np.float32)


class Explained:
    """Cross-validated explained variance (D_y,) of sets of time constants, for outputs known in the same rows."""

    def __init__(self, grid: np.ndarray, xx: np.ndarray, xy: np.ndarray):
        self.width, self.xx, self.xy, self.yy = len(xx[0]) // len(grid), xx, xy[:, :-1], xy[:, -1]
        self.xx_all, self.xy_all, self.rows = xx.sum(0), self.xy.sum(0), xx[:, -1, -1]
        self.scatter = self.yy.sum(0) - self.xy_all[-1] ** 2 / self.rows.sum()
        self.memory: dict[tuple[int, ...], np.ndarray] = {(): np.zeros(xy.shape[2])}

    def __call__(self, chosen: tuple[int, ...]) -> np.ndarray:
        """1 - (squared error of ridge regression on the folds left out) / (scatter of the output)."""
        if chosen not in self.memory:
            places = [np.arange(k * self.width, (k + 1) * self.width) for k in chosen]
            at = np.concatenate([*places, [len(self.xx_all) - 1]])
            block, error = np.ix_(at, at), 0.0
            xx_all, xy_all = self.xx_all[block], self.xy_all[at]
            for xx, xy, yy, rows in zip(self.xx, self.xy[:, at], self.yy, self.rows.sum() - self.rows, strict=True):
                inside = xx[block]
                w = np.linalg.solve(xx_all - inside + _RIDGE * rows * np.eye(len(at)), xy_all - xy)
                error = error + yy - 2 * (w * xy).sum(0) + (w * (inside @ w)).sum(0)
            self.memory[chosen] = 1 - error / self.scatter
        return self.memory[chosen]


@dataclass(frozen=True)
class Search:
    """The search for one output's scales, written as places in the grid."""

    grid: np.ndarray
    shared: Explained
    place: int

    def explain(self, chosen: tuple[int, ...]) -> float:
        return float(self.shared(tuple(sorted(chosen)))[self.place])

    def best(self) -> tuple[int, ...]:
        """Add scales while each explains enough of what the others leave and would not rather join another scale."""
        every = range(len(self.grid))
        chosen = max(((k,) for k in every), key=self.explain)
        for size in (2, 3):
            sets = itertools.combinations(every, 2) if size == 2 else [(*chosen, k) for k in every if k not in chosen]
            more = max(filter(self._apart, sets), key=self.explain, default=chosen)
            gain = self.explain(more) - self.explain(chosen)
            if gain < max(GAIN, RELATIVE_GAIN * (1 - self.explain(chosen))) or not self._separate(more):
                break
            chosen = more
        return tuple(sorted(chosen)) if self.explain(chosen) >= WEAK else ()

    def _apart(self, chosen: Iterable[int]) -> bool:
        return all(self.grid[b] / self.grid[a] > 0.99 * APART for a, b in itertools.pairwise(sorted(chosen)))

    def _separate(self, chosen: tuple[int, ...]) -> bool:
        """Each scale, free to move, stays apart: otherwise one broad scale was split, not a second one found."""
        tops = [int(np.nanargmax(self.profile(chosen, i))) for i in range(len(chosen))]
        return all(self._apart((*chosen[:i], top, *chosen[i + 1 :])) for i, top in enumerate(tops))

    def profile(self, chosen: tuple[int, ...], i: int) -> np.ndarray:
        """(n,) explained variance while scale i moves over the grid; NaN where it would meet another scale."""
        moved = [(*chosen[:i], k, *chosen[i + 1 :]) for k in range(len(self.grid))]
        return np.array([self.explain(m) if len(set(m)) == len(m) else np.nan for m in moved])

    def find_top(self, k: int, profile: np.ndarray) -> float:
        """τ at the top of the parabola in log τ through three neighbouring points of the profile."""
        low, mid, high = profile[k - 1 : k + 2] if 0 < k < len(self.grid) - 1 else (0.0, 0.0, 0.0)
        bend = low - 2 * mid + high
        shift = np.clip(0.5 * (low - high) / bend, -0.5, 0.5) if bend < 0 else 0.0
        return float(self.grid[k] * (self.grid[1] / self.grid[0]) ** shift)
