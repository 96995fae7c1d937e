"""A free run of a model whose parameters are set by hand: what the mathematics does before training exists."""

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from mrgpssm.model import STABLE, init_ssm, noiseless_radius
from mrgpssm.rollout import FullMC, draw_noise, draw_starts, rollout

_SAMPLES, _LENGTH, _RESOLUTIONS = 100, 1200, (30, 1)


def print_demo() -> None:
    """Run the model for two minutes at 10 Hz under a square wave and print mean and standard deviation."""
    key = jax.random.key(0)
    ssm = init_ssm(
        STABLE, _RESOLUTIONS, latent_dim=2, input_dim=1, output_dim=1, inducing=20, key=key, dtype=jnp.dtype("float32")
    )
    inputs = jnp.sign(jnp.sin(2 * jnp.pi * jnp.arange(_LENGTH) / 300))[None, :, None]
    noise = draw_noise(ssm, 1, _SAMPLES, _LENGTH, key=key)
    starts = draw_starts(ssm, jnp.zeros((1, 0, 2)), noise)
    drawn = rollout(FullMC(), ssm, ssm.dynamics(), starts, inputs, jnp.ones((1, _LENGTH)), noise)
    outputs = np.asarray(drawn.outputs[0, :, :, 0])
    table = Table(title="Free run of a hand-set model (nothing is learned yet)")
    for column in ("time / s", "input", "mean", "std"):
        table.add_column(column, justify="right")
    for t in range(149, _LENGTH, 150):
        row = ((t + 1) / 10, float(inputs[0, t, 0]), outputs[:, t].mean(), outputs[:, t].std())
        table.add_row(*(f"{value:.3f}" for value in row))
    Console().print(table)
    for resolution, dynamics in zip(_RESOLUTIONS, ssm.dynamics(), strict=True):
        radius = noiseless_radius(dynamics, dynamics.gp.mean, jnp.ones(()), jnp.zeros(()))
        print(f"component R={resolution}: a noiseless run never leaves a ball of radius {float(radius):.3f}")
