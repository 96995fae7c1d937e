"""What a fitted model learned, as numbers to draw: lengthscales, input gains, drift over level and input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.arrays.types import Array
from mrgpssm.model import SSM, Dynamics
from mrgpssm.model import Component as ModelComponent
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.report.evidence import Component, DriftMap, Learned

_ROWS = 20_000  # of the test inputs, to see where the state goes
_GRID = 41
_SHOWN = 1500


def learned(model: FittedModel, inputs: np.ndarray) -> Learned:
    """Everything the report shows of a model; `inputs` (T, D_u) are what it is driven by, in the data's units."""
    with floating_point(model.structure.precision):
        parts = tuple(
            tuple(_component(ssm, part, model.structure.resolutions[part]) for part in range(len(ssm.components)))
            for ssm in model.models
        )
        drive = model.scaling.inputs(inputs[:_ROWS])
        drifts = [
            _drift_map(model, component, resolution, position, output, driven)
            for g, columns in enumerate(model.groups)
            for position, output in enumerate(columns)
            for component, resolution, driven in zip(
                model.models[g].components,
                model.structure.resolutions,
                _driven(model.models[g], drive),
                strict=True,
            )
        ]
    found = tuple(d for d in drifts if d is not None)
    bounds, states = np.asarray(model.bounds, float), _state_names(model.models[0])
    return Learned(model.groups, parts, found, bounds, states, len(model.ensemble))


def mean_path(dynamics: Dynamics, start: np.ndarray, inputs: np.ndarray, h: float) -> np.ndarray:
    """(T, D) states of a noiseless run with v at its mean: x' = x + h (A x + B u + b + a(z)ᵀ m)."""
    given = (jnp.asarray(values, dynamics.b.dtype) for values in (start, inputs, h))
    return np.asarray(_walk(dynamics, *given), float)


def mean_drift(dynamics: Dynamics, points: np.ndarray) -> np.ndarray:
    """(n, D) drift A x + B u + b + a(z)ᵀ m at points z = [x, u]."""
    return np.asarray(_drifts(dynamics, jnp.asarray(points, dynamics.b.dtype)), float)


@eqx.filter_jit
def _walk(dynamics: Dynamics, start: Array, inputs: Array, h: Array) -> Array:
    def step(x, u):
        after, _ = dynamics.transition(x, dynamics.forcing(u), h, dynamics.gp.mean)
        return after, x

    return jax.lax.scan(step, start, inputs)[1]


@eqx.filter_jit
def _drifts(dynamics: Dynamics, points: Array) -> Array:
    d = dynamics.b.shape[0]

    def at(z):
        local = dynamics.at(z[:d], dynamics.forcing(z[d:]))
        return local.drift + jnp.sum(local.weights * dynamics.gp.mean, axis=-1)

    return jax.vmap(at)(points)


_factored = eqx.filter_jit(lambda component: component.dynamics())


def _drivers(ssm: SSM[ModelComponent]) -> list[int]:
    """The components whose states drive others."""
    return sorted({j for part in range(len(ssm.components)) for j in ssm.slower(part)})


def _state_names(ssm: SSM[ModelComponent]) -> tuple[str, ...]:
    sizes = [c.inducing_shape[0] for c in ssm.components]
    return tuple(f"state {i + 1} of component {j + 1}" for j in _drivers(ssm) for i in range(sizes[j]))


def _driven(ssm: SSM[ModelComponent], drive: np.ndarray) -> list[np.ndarray]:
    """What drives every component: the inputs, followed by the noiseless runs of slower components."""
    paths, driven = {}, {}
    for part in ssm.walk_order():
        driven[part] = np.concatenate([drive, *(paths[j] for j in ssm.slower(part))], axis=1)
        if part in _drivers(ssm):
            dynamics = _factored(ssm.components[part])
            start = np.zeros(dynamics.b.shape[0])
            paths[part] = mean_path(dynamics, start, driven[part], 1 / ssm.time_units[part])
    return [driven[part] for part in range(len(ssm.components))]


def _component(ssm: SSM[ModelComponent], part: int, resolution: int) -> Component:
    component = ssm.components[part]
    _, B, _ = component.transition.mean.matrices()
    lengthscales, gain = np.asarray(component.transition.gp.kernel.lengthscales, float), np.asarray(B, float)
    d, own = len(gain), ssm.slower(part)
    inputs = gain.shape[1] - d * len(own)
    scales, gains = [lengthscales[: d + inputs]], [gain[:, :inputs]]
    for j in _drivers(ssm):
        at = inputs + d * own.index(j) if j in own else None
        scales.append(np.full(d, np.inf) if at is None else lengthscales[d + at : 2 * d + at])
        gains.append(np.zeros((d, d)) if at is None else gain[:, at : at + d])
    return Component(resolution, np.concatenate(scales), np.concatenate(gains, axis=1))


def _drift_map(
    model: FittedModel, component: ModelComponent, resolution: int, position: int, output: int, drive: np.ndarray
) -> DriftMap | None:
    """The drift of latent dimension `position`, which C = [I, 0] makes the contribution to column `output`.

    `drive` is followed by the states that drive it; None where the component, or one of those, runs away.
    """
    dynamics = _factored(component)
    d = int(dynamics.b.shape[0])
    path = mean_path(dynamics, np.zeros(d), drive, 1 / resolution)
    if not np.isfinite(path).all():
        return None
    visited = np.concatenate([path, drive], axis=1)
    last = d + len(model.drive_names)
    chosen = d + most_relevant(np.asarray(component.transition.gp.kernel.lengthscales, float)[d:last],
                               np.asarray(dynamics.B, float)[position, : last - d])  # fmt: skip
    inducing = np.asarray(component.transition.gp.inducing, float)[position][:, [position, chosen]]
    level, force = _axis(visited[:, position]), _axis(visited[:, chosen])
    points = np.broadcast_to(np.median(visited, axis=0), (_GRID, _GRID, visited.shape[1])).copy()
    points[:, :, position], points[:, :, chosen] = level[None, :], force[:, None]
    drift = mean_drift(dynamics, points.reshape(-1, visited.shape[1]))[:, position].reshape(_GRID, _GRID)
    sd, scale = model.scaling.output_sd[output], model.scaling
    k = chosen - d
    shift, stretch = np.array([0.0, scale.input_mean[k]]), np.array([sd, scale.input_sd[k]])
    thin = visited[:: -(-len(visited) // _SHOWN)][:, [position, chosen]]
    return DriftMap(
        output, resolution, k, sd * level, shift[1] + stretch[1] * force, drift * sd / (resolution * model.dt),
        shift + stretch * inducing, shift + stretch * thin,
    )  # fmt: skip


def most_relevant(lengthscales: np.ndarray, gain: np.ndarray) -> int:
    """The input that moves the drift most: short lengthscale of the GP, large gain of the linear part."""
    relevance, size = 1 / lengthscales, np.abs(gain)
    return int(np.argmax(relevance / relevance.max() + size / max(float(size.max()), 1e-12)))


def _axis(values: np.ndarray) -> np.ndarray:
    """An even grid over where the values lie, a little beyond on both sides."""
    low, high = np.quantile(values, [0.002, 0.998])
    margin = 0.15 * max(high - low, 1e-6)
    return np.linspace(low - margin, high + margin, _GRID)
