"""Compare the test inputs with the training inputs."""

import numpy as np


def shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Shares of the values in every bin [edge_k, edge_{k+1}); the last bin holds its upper edge, too."""
    return np.histogram(values, edges)[0] / max(len(values), 1)


def common_edges(training: np.ndarray, test: np.ndarray, bins: int = 30) -> np.ndarray:
    """Edges of even bins that hold both."""
    low, high = min(training.min(), test.min()), max(training.max(), test.max())
    return np.linspace(low, high if high > low else low + 1.0, bins + 1)


def mean_by_bin(position: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Mean of `values` whose `position` lies in each bin; NaN for empty bins."""
    bins = len(edges) - 1
    band = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, bins - 1)
    count, total = np.bincount(band, minlength=bins), np.bincount(band, values, minlength=bins)
    return np.divide(total, count, out=np.full(bins, np.nan), where=count > 0)


def outside(training: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, float]:
    """Shares of test rows (T, D_u) outside the training range: for each input, and for any input."""
    beyond = (test < training.min(axis=0)) | (test > training.max(axis=0))
    return beyond.mean(axis=0), float(beyond.any(axis=1).mean())
