"""Promise 8, first half: a free run of a million steps stays finite, inside its radius, and in constant memory."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from account import Config, Outcome, keep
from many_fits import resident, slope

from mrgpssm import MRGPSSM, Sequence
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data.synthetic import two_scales
from mrgpssm.model import Component, noiseless_radius
from mrgpssm.prediction.predict import _pieces
from mrgpssm.spec import arrange

OPTIONS: dict[str, Any] = {"inducing": 20, "samples": 10, "windows": 10, "window": 40, "cycles": 6, "steps": 50}


def inputs_of(steps: int) -> np.ndarray:
    """Inputs that never repeat, within the range that training saw."""
    t = np.arange(steps)
    return np.stack([np.sin(0.0137 * t) + 0.4 * np.sin(0.51 * t), np.cos(0.0031 * t) * np.sin(0.073 * t)], axis=1)


def furthest(component: Component, unit: float, inputs: np.ndarray) -> tuple[float, float]:
    """The largest norm on a noiseless path with v at its mean, and the radius that the model states for it."""
    dynamics = component.dynamics()
    v, start = dynamics.gp.mean, jnp.zeros(dynamics.A.shape[0], dynamics.A.dtype)
    u = jnp.asarray(inputs, dynamics.A.dtype)
    largest = jnp.max(jnp.linalg.norm(u, axis=1))
    radius = noiseless_radius(dynamics, v, largest, jnp.linalg.norm(start))
    h = jnp.asarray(1 / unit, dynamics.A.dtype)

    def step(x, u):
        x, _ = dynamics.transition(x, dynamics.forcing(u), h, v)
        return x, jnp.linalg.norm(x)

    return float(jnp.max(jax.jit(lambda u: jax.lax.scan(step, start, u)[1])(u))), float(radius)


def walk(model: MRGPSSM, inputs: np.ndarray, samples: int) -> tuple[bool, list[int]]:
    """Whether all samples are finite, and the memory held after every chunk."""
    fitted, held, finite = model.fitted_, [], True
    sequence = Sequence(
        inputs, np.full((len(inputs), 1), np.nan), fitted.dt, None, fitted.input_names, fitted.output_names
    )
    for piece in _pieces(fitted, [sequence], (), samples, 0, 1):
        finite &= bool(np.isfinite(piece.outputs).all())
        held.append(resident())
    return finite, held


def measure(config: Config) -> Outcome:
    """Fit, walk with noise, then each component without."""
    train = two_scales("M1", seed=0, length=3000).sequence
    model = MRGPSSM((30, 1), **arrange(**OPTIONS)).fit(train, progress=False)
    inputs = inputs_of(config["steps"])
    finite, held = walk(model, inputs, config["samples"])
    settled = len(held) // 10
    later = np.array(held[settled:], float)
    grown = slope(np.arange(len(later)), later) * len(later) / 1e6
    scaled = model.fitted_.scaling.inputs(inputs)
    with floating_point("float32"):
        ssm = model.models_[0][1]
        pairs = [furthest(c, unit, scaled) for c, unit in zip(ssm.components, ssm.time_units, strict=True)]
    inside = all(norm <= radius for norm, radius in pairs)
    text = ", ".join(f"{norm:.2f} of {radius:.1f}" for norm, radius in pairs)
    figure = (
        f"{config['steps']:,} steps x {config['samples']} samples finite; noiseless norm {text}; memory {grown:+.1f} MB"
    )
    met = finite and inside and grown < 10
    numbers = {"norms_and_radii": pairs, "megabytes_grown": grown, "held": held}
    return Outcome(figure, met, "" if met else "not finite, outside the radius, or growing", numbers)


if __name__ == "__main__":
    keep(measure, {"steps": 1_000_000, "samples": 20, "options": OPTIONS}, {"steps": 50_000})
