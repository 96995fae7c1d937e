"""Boosted regression trees of what drives a system: m(u) = b + Σ_k t_k(u), t_k a tree, for every output.

All nodes of all trees are in one list. A node with feature j >= 0 sends rows with u_j <= value to the node `child`, all
others to `child` + 1; both come later in the list, so that every walk ends. A node with feature -1 is a leaf, its value
that of the tree. Rows are compared in single precision, as scikit-learn does, which grows the trees.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.blend.process import known_rows
from mrgpssm.errors import need

LEAF = -1
_WALKS = 100_000  # rows times trees that are walked at once
_ROWS, _DRAWN = 60_000, 4_000  # that trees are grown from, and that each of them sees
_RATE, _LEAVES, _LEAF_ROWS = 0.06, 31, (5, 50)


@dataclass(frozen=True)
class Forest:
    """`features`, `children` (0 at a leaf) and `values` (N,) are the nodes; `roots` (D_y, K) name the first node of
    every tree; `baselines` b (D_y,) have one number per output.
    """

    features: np.ndarray
    children: np.ndarray
    values: np.ndarray
    roots: np.ndarray
    baselines: np.ndarray

    def __call__(self, drive: np.ndarray) -> np.ndarray:
        """m at every row of a drive (T, D_u), (T, D_y)."""
        count = max(1, _WALKS // self.roots.size)
        chunks = [drive[i : i + count] for i in range(0, len(drive), count)]
        return self.baselines + np.concatenate([self._at(chunk) for chunk in chunks])

    def _at(self, u: np.ndarray) -> np.ndarray:
        """Σ_k t_k, (T, D_y): all walks go down one level at a time, and those at a leaf stay behind."""
        at = np.tile(self.roots.ravel(), len(u))
        first = np.repeat(np.arange(len(u)) * u.shape[1], self.roots.size)  # where a walk's row starts, flat
        flat = u.astype(np.float32).ravel()
        moving = np.flatnonzero(self.features[at] != LEAF)
        while len(moving):
            node = at[moving]
            node = self.children[node] + (flat[first[moving] + self.features[node]] > self.values[node])
            at[moving] = node
            moving = moving[self.features[node] != LEAF]
        return self.values[at].reshape(len(u), *self.roots.shape).sum(axis=2)

    def find_fault(self, drives: int) -> str | None:
        """Why these cannot be trees of so many drives, where they cannot, given right shapes and finite numbers."""
        leaf, own = self.features == LEAF, np.arange(len(self.features))
        if not ((self.features >= LEAF) & (self.features < drives)).all():
            return f"the trees must ask for features from 0 to {drives - 1}"
        later = (self.children > own) & (self.children < len(own) - 1)
        if not np.where(leaf, self.children == 0, later).all():
            return "the children of a tree's node must come after it"
        if not ((self.roots >= 0) & (self.roots < len(own))).all():
            return "the roots of the trees must be among their nodes"
        return None


def fit_forest(drive: np.ndarray, outputs: np.ndarray, rounds: int, seed: int) -> Forest:
    """The trees of every output (T, D_y), NaN where missing, given the drive (T, D_u), both scaled."""
    need_sklearn()
    with ThreadPoolExecutor() as pool:
        boosters = list(pool.map(lambda y: boost(drive, y, rounds, seed), outputs.T))
    trees = [_nodes(tree.tree_) for booster in boosters for tree in booster.estimators_.ravel()]
    starts = np.cumsum([0, *(len(tree[0]) for tree in trees)])[:-1]
    children = [np.where(f == LEAF, 0, c + start) for (f, c, _), start in zip(trees, starts, strict=True)]
    return Forest(
        features=np.concatenate([tree[0] for tree in trees]).astype(np.int32),
        children=np.concatenate(children).astype(np.int32),
        values=np.concatenate([tree[2] for tree in trees]),
        roots=starts.reshape(len(boosters), -1).astype(np.int32),
        baselines=np.array([booster.init_.predict(drive[:1])[0] for booster in boosters], float),
    )


def boost(drive: np.ndarray, y: np.ndarray, rounds: int, seed: int) -> Any:
    """scikit-learn's own trees from the rows where y is known; where it never is, they are 0 everywhere."""
    rows = known_rows(y, _ROWS)
    x, y = (drive[rows], y[rows]) if len(rows) else (drive[:1], np.zeros(1))
    trees = need_sklearn().GradientBoostingRegressor(
        learning_rate=_RATE,
        n_estimators=rounds,
        max_depth=None,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=int(np.clip(len(y) // 40, *_LEAF_ROWS)),
        subsample=min(1.0, _DRAWN / len(y)),
        random_state=seed,
    )
    return trees.fit(x, y)


def need_sklearn() -> Any:
    """scikit-learn's ensembles; loaded before threads are, since importing it in several at once can fail."""
    return need("sklearn.ensemble", "Boosted trees need scikit-learn", "baselines")


def _nodes(tree: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, children and values of one tree.

    Nodes are renumbered so that the two children of a node are neighbours: those of the j-th node with children, in
    scikit-learn's order (parents first), are 1 + 2j and 2 + 2j.
    """
    inner = np.flatnonzero(tree.children_left >= 0)
    lefts = 1 + 2 * np.arange(len(inner))
    place = np.zeros(tree.node_count, int)
    place[tree.children_left[inner]], place[tree.children_right[inner]] = lefts, lefts + 1
    features, children, values = np.full(len(place), LEAF), np.zeros(len(place), int), np.empty(len(place))
    values[place] = _RATE * tree.value[:, 0, 0]
    features[place[inner]], children[place[inner]] = tree.feature[inner], lefts
    values[place[inner]] = tree.threshold[inner]
    return features, children, values
