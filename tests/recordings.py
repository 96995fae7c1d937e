"""Small recordings that several tests share; the golden model files were trained on them, so they never change."""

import numpy as np

from mrgpssm import Sequence


def recording(seed: int, rows: int = 160) -> Sequence:
    """Two inputs, two outputs that lag behind them."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(-1, 1, (rows // 8, 2)), 8, axis=0)
    x = np.zeros((rows, 2))
    for t in range(1, rows):
        x[t] = x[t - 1] + 0.2 * (np.tanh(2 * u[t - 1]) - x[t - 1])
    return Sequence(10 * u, 5 + 2 * x, 0.1, None, ("speed", "load"), ("NOx", "Temp"), {"Temp": "K"}, f"seed {seed}")
