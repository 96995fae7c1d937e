"""Small recordings that several tests share; the golden model files were trained on them, so they never change."""

from typing import Any

import numpy as np
from scipy.signal import butter, cheby1, lfilter

from mrgpssm import Sequence


def recording(seed: int, rows: int = 160) -> Sequence:
    """Two inputs, two outputs that lag behind them."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(-1, 1, (rows // 8, 2)), 8, axis=0)
    x = np.zeros((rows, 2))
    for t in range(1, rows):
        x[t] = x[t - 1] + 0.2 * (np.tanh(2 * u[t - 1]) - x[t - 1])
    return Sequence(10 * u, 5 + 2 * x, 0.1, None, ("speed", "load"), ("NOx", "Temp"), {"Temp": "K"}, f"seed {seed}")


def wiener_hammerstein(seed: int, rows: int) -> Sequence:
    """Two filters of order three with a saturation between them."""
    rng = np.random.default_rng(seed)
    u = 1.6 * _filter(butter(4, 0.4), rng.standard_normal(rows + 100))[100:]
    y = _filter(cheby1(3, 1, 0.15), np.tanh(1.2 * _filter(cheby1(3, 0.5, 0.2), u) + 0.2))
    return Sequence(u[:, None], 7 + 3 * y[:, None] + 0.01 * rng.standard_normal((rows, 1)), name=f"seed {seed}")


def _filter(design: Any, signal: np.ndarray) -> np.ndarray:
    numerator, denominator = design
    return np.asarray(lfilter(numerator, denominator, signal))
