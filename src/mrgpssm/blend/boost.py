"""Learning boosted trees: squared error, histograms of 255 bins (scikit-learn), as many rounds as are asked for."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mrgpssm.blend.static import known_rows
from mrgpssm.runtime.trees import LEAF, TreesPart

_ROWS = 60_000
_RATE, _LEAST_ROWS = 0.06, 5


@dataclass(frozen=True)
class Growth:
    """How trees grow: rounds of boosting, most leaves, and most rows that a leaf must have (a fortieth of fewer)."""

    rounds: int
    leaves: int = 31
    leaf_rows: int = 50


def fit_trees(drive: np.ndarray, outputs: np.ndarray, rounds: int, seed: int) -> TreesPart:
    """Trees of every output (T, D_y), NaN where missing, given the drive (T, D_u), both scaled; shares are 0 until
    weighed.
    """
    import sklearn.ensemble  # noqa: F401  # here, since importing it in several threads at once can fail

    with ThreadPoolExecutor() as pool:
        return mean_of([[one] for one in pool.map(lambda y: boost(drive, y, Growth(rounds), seed), outputs.T)])


def mean_of(boosted: list[list[Any]]) -> TreesPart:
    """Every output's mean over boosters of scikit-learn, as many for each; shares are 0."""
    count = len(boosted[0])
    nodes = [[_nodes(tree[0].nodes, count) for one in some for tree in one._predictors] for some in boosted]
    flat = [tree for trees in nodes for tree in trees]
    starts = np.cumsum([0, *(len(tree[0]) for tree in flat)])[:-1]
    children = [np.where(f == LEAF, 0, c + start) for (f, c, _), start in zip(flat, starts, strict=True)]
    return TreesPart(
        features=np.concatenate([tree[0] for tree in flat]).astype(np.int32),
        children=np.concatenate(children).astype(np.int32),
        values=np.concatenate([tree[2] for tree in flat]),
        roots=starts.reshape(len(nodes), -1).astype(np.int32),
        baselines=np.array([np.mean([np.ravel(one._baseline_prediction)[0] for one in some]) for some in boosted]),
        shares=np.zeros(len(boosted)),
    )


def boost(drive: np.ndarray, y: np.ndarray, growth: Growth, seed: int) -> Any:
    """scikit-learn's own trees from the rows where y is known; one thread, since several add in an order of chance.

    Where y is never known, they are 0 everywhere.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = known_rows(y, _ROWS)
    x, y = (drive[rows], y[rows]) if len(rows) else (drive[:1], np.zeros(1))
    trees = HistGradientBoostingRegressor(
        learning_rate=_RATE,
        max_iter=growth.rounds,
        max_leaf_nodes=growth.leaves,
        min_samples_leaf=int(np.clip(len(y) // 40, _LEAST_ROWS, growth.leaf_rows)),
        early_stopping=False,  # pyright: ignore[reportArgumentType]
        random_state=seed,
    )
    with threadpool_limits(1, user_api="openmp"):
        return trees.fit(x, y)


def _nodes(tree: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, children and values of one tree, its leaves divided by `count`.

    Nodes are renumbered so that the two children of a node are neighbours: those of the j-th node with children, in
    scikit-learn's order (parents first), are 1 + 2j and 2 + 2j.
    """
    inner = np.flatnonzero(tree["is_leaf"] == 0)
    lefts = 1 + 2 * np.arange(len(inner))
    place = np.zeros(len(tree), int)
    place[tree["left"][inner]], place[tree["right"][inner]] = lefts, lefts + 1
    features, children, values = np.full(len(tree), LEAF), np.zeros(len(tree), int), np.empty(len(tree))
    values[place] = tree["value"] / count
    features[place[inner]], children[place[inner]] = tree["feature_idx"][inner], lefts
    values[place[inner]] = tree["num_threshold"][inner]
    return features, children, values
