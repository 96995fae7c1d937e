"""How errors grow with the time since a free run began."""

from collections.abc import Sequence

import numpy as np


def horizon_edges(longest: float, dt: float, per_decade: int = 8) -> np.ndarray:
    """Edges of horizons, even on a logarithmic axis from one step to the end of the longest run."""
    count = max(int(np.ceil(per_decade * np.log10(max(longest / dt, 2.0)))), 1)
    return np.geomspace(dt, longest * (1 + 1e-9), count + 1)


def rms_by_horizon(
    elapsed: Sequence[np.ndarray], values: Sequence[np.ndarray], edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square of `values` whose time since the start of their run lies in [edge_k, edge_{k+1}).

    Returned for horizons that hold any known value: their geometric centres, and the root mean square.
    """
    t, v = np.concatenate(list(elapsed)), np.concatenate(list(values))
    known = ~np.isnan(v) & (t >= edges[0] * (1 - 1e-9))
    band = np.clip(np.searchsorted(edges, t[known] * (1 + 1e-9), side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(band, minlength=len(edges) - 1)
    square = np.bincount(band, v[known] ** 2, minlength=len(edges) - 1)
    used = count > 0
    return np.sqrt(edges[:-1] * edges[1:])[used], np.sqrt(square[used] / count[used])
