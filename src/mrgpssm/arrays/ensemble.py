"""The ensemble Kalman update, once for NumPy and JAX: warm-ups and steppers move their states towards measurements.

Samples x_s predict outputs p_s of measurements y with noise of variance R. With covariances over the samples,

    x_s += K i_s,   K = Cov(x, p) (Cov(p, p) + R)⁻¹.

Given noise, i_s = y + e_s - p_s with e_s ~ N(0, R) (perturbed observations: Evensen, 1994). Without it there must be
one output, and i_s = y - p̄ - β (p_s - p̄) with β = 1 / (1 + √(R / (P + R))) and P the variance of p_s (square root:
Whitaker and Hamill, 2002): mean and covariance of the samples become exactly those of the Kalman update.
"""

from typing import Any


def correct(xp: Any, states: Any, predicted: Any, measured: Any, variance: Any, noise: Any = None) -> Any:
    """Corrected states (..., S, d), given predictions (..., S, y), measurements (..., y) and R (..., y).

    `xp` is the array module, `numpy` or `jax.numpy`. A measurement that is NaN corrects nothing. `noise` (..., S, y) is
    standard normal.
    """
    known, count = ~xp.isnan(measured)[..., None, :], states.shape[-2] - 1
    centre = predicted.mean(axis=-2, keepdims=True)
    apart = (predicted - centre) * known.astype(predicted.dtype)
    cross = (states - states.mean(axis=-2, keepdims=True)).swapaxes(-1, -2) @ apart / count
    total = apart.swapaxes(-1, -2) @ apart / count + variance[..., None] * xp.eye(
        variance.shape[-1], dtype=states.dtype
    )
    gain = xp.linalg.solve(total, cross.swapaxes(-1, -2))
    if noise is None:
        beta = 1 / (1 + xp.sqrt(variance[..., None] / total))
        innovation = measured[..., None, :] - centre - beta * apart
    else:
        innovation = measured[..., None, :] + xp.sqrt(variance)[..., None, :] * noise - predicted
    return states + xp.where(known, innovation, 0.0) @ gain
