"""Tall tables compressed to the triangle of their QR factorisation, which is enough for least squares."""

import numpy as np


def compress(table: np.ndarray) -> np.ndarray:
    """The triangle R with R^T R = table^T table; it has no more rows than columns."""
    return np.asarray(np.linalg.qr(table, mode="r"))


def take_out(table: np.ndarray, count: int) -> np.ndarray:
    """The other columns as a triangle, after the first `count` are projected out of them."""
    return compress(table)[count:, count:]


def solve(table: np.ndarray) -> np.ndarray:
    """Least squares of the last column on the others, whatever their scales and rank."""
    x, y = table[:, :-1], table[:, -1]
    scale = np.linalg.norm(x, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return np.linalg.lstsq(x / scale, y, rcond=1e-13)[0] / scale
