"""Boosted regression trees of what drives the model: m(u) = b + Σ_k t_k(u), t_k a tree, for every output.

All nodes of all trees are in one list. A node with feature j >= 0 sends rows with u_j <= value to the node `child`, all
others to `child` + 1; both come later in the list, so that every walk ends. A node with feature -1 is a leaf, its value
that of the tree.
"""

from dataclasses import dataclass, replace

import numpy as np

from mrgpssm.runtime.part import Part

LEAF = -1
_WALKS = 100_000  # rows times trees that are walked at once


@dataclass(frozen=True)
class TreesPart(Part):
    """`features`, `children` (0 at a leaf) and `values` (N,) are the nodes; `roots` (D_y, K) name the first node of
    every tree; `baselines` b and the `shares` s (D_y,) have one number per output.
    """

    features: np.ndarray
    children: np.ndarray
    values: np.ndarray
    roots: np.ndarray
    baselines: np.ndarray
    shares: np.ndarray

    def __call__(self, drive: np.ndarray) -> np.ndarray:
        count = max(1, _WALKS // self.roots.size)
        chunks = [drive[i : i + count] for i in range(0, len(drive), count)]
        return self.baselines + np.concatenate([self._at(chunk) for chunk in chunks])

    def only(self, output: int) -> "TreesPart":
        """The trees of one output."""
        one = slice(output, output + 1)
        return replace(self, roots=self.roots[one], baselines=self.baselines[one], shares=self.shares[one])

    def _at(self, u: np.ndarray) -> np.ndarray:
        """Σ_k t_k, (T, D_y): all walks go down one level at a time, and those at a leaf stay behind."""
        at = np.tile(self.roots.ravel(), len(u))
        first = np.repeat(np.arange(len(u)) * u.shape[1], self.roots.size)  # where a walk's row starts, flat
        flat = np.ascontiguousarray(u).ravel()
        moving = np.flatnonzero(self.features[at] != LEAF)
        while len(moving):
            node = at[moving]
            node = self.children[node] + (flat[first[moving] + self.features[node]] > self.values[node])
            at[moving] = node
            moving = moving[self.features[node] != LEAF]
        return self.values[at].reshape(len(u), *self.roots.shape).sum(axis=2)

    def fault(self, drives: int) -> str | None:
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
