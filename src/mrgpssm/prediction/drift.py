"""What a fitted model learned: lengthscales, input gains, and the drift over level and input. JAX in, NumPy out."""

import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.model import SSM, Component, IdentityEmission
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.learned import DriftMap, Learned, LearnedComponent
from mrgpssm.prediction.mean import mean_drift, mean_paths

_ROWS = 20_000  # of the test inputs, to see where the state goes
_GRID = 41
_SHOWN = 1500


def extract_learned(model: FittedModel, inputs: np.ndarray) -> Learned:
    """What each component of a model learned; `inputs` (T, D_u) are what it is driven by, in the data's units."""
    resolutions = model.structure.resolutions
    with floating_point(model.structure.precision):
        parts = tuple(tuple(_component(ssm, part) for part in range(len(resolutions))) for ssm in model.models)
        drive = model.scaling.inputs(inputs[:_ROWS])
        drifts = [
            _drift_map(model, component, resolution, position, output, visited)
            for columns, ssm in zip(model.groups, model.models, strict=True)
            for visits in [_visit(ssm, drive)]
            for position, output in enumerate(columns)
            for component, resolution, visited in zip(ssm.components, resolutions, visits, strict=True)
        ]
    found = tuple(d for d in drifts if d is not None)
    bounds, states = np.asarray(model.bounds, float), _state_names(model.models[0])
    return Learned(model.groups, parts, found, bounds, states, len(model.ensemble))


def _drivers(ssm: SSM[Component]) -> list[int]:
    """The components whose states drive others."""
    return sorted({j for part in range(len(ssm.components)) for j in ssm.slower(part)})


def _state_names(ssm: SSM[Component]) -> tuple[str, ...]:
    sizes = [c.inducing_shape[0] for c in ssm.components]
    return tuple(f"state {i + 1} of component {j + 1}" for j in _drivers(ssm) for i in range(sizes[j]))


def _visit(ssm: SSM[Component], drive: np.ndarray) -> list[np.ndarray]:
    """Where a noiseless run from zero takes every component: its states and what drives it."""
    starts = [np.zeros(c.inducing_shape[0]) for c in ssm.components]
    paths = mean_paths(ssm, starts, drive, np.ones(len(drive)))
    return [np.hstack([path, drive, *(paths[j] for j in ssm.slower(part))]) for part, path in enumerate(paths)]


def _component(ssm: SSM[Component], part: int) -> LearnedComponent:
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
    return LearnedComponent(np.concatenate(scales), np.concatenate(gains, axis=1))


def _drift_map(
    model: FittedModel, component: Component, resolution: int, position: int, output: int, visited: np.ndarray
) -> DriftMap | None:
    """The drift of latent dimension `position`, which C = [I, 0] makes the contribution to column `output`.

    `visited` is where it goes; None where the component, or one that drives it, runs away, and for other emissions.
    """
    d = component.inducing_shape[0]
    if not np.isfinite(visited).all() or not isinstance(component.emission, IdentityEmission):
        return None
    last, transition = d + len(model.drive_names), component.transition
    lengthscales, gain = transition.gp.kernel.lengthscales[d:last], transition.mean.matrices()[1][position, : last - d]
    chosen = d + most_relevant(np.asarray(lengthscales, float), np.asarray(gain, float))
    inducing = np.asarray(transition.gp.inducing, float)[position][:, [position, chosen]]
    level, force = _axis(visited[:, position]), _axis(visited[:, chosen])
    points = np.broadcast_to(np.median(visited, axis=0), (_GRID, _GRID, visited.shape[1])).copy()
    points[:, :, position], points[:, :, chosen] = level[None, :], force[:, None]
    drift = mean_drift(component, points.reshape(-1, visited.shape[1]))[:, position].reshape(_GRID, _GRID)
    k, scaling, sd = chosen - d, model.scaling, model.scaling.output_sd[output]
    shift, stretch = np.array([0.0, scaling.input_mean[k]]), np.array([sd, scaling.input_sd[k]])
    thin = visited[:: -(-len(visited) // _SHOWN)][:, [position, chosen]]
    return DriftMap(
        output=output,
        resolution=resolution,
        input=k,
        level=sd * level,
        drive=shift[1] + stretch[1] * force,
        drift=drift * sd / (resolution * model.dt),
        inducing=shift + stretch * inducing,
        visited=shift + stretch * thin,
    )


def most_relevant(lengthscales: np.ndarray, gain: np.ndarray) -> int:
    """The input that moves the drift most: short lengthscale of the GP, large gain of the linear part."""
    relevance, size = 1 / lengthscales, np.abs(gain)
    return int(np.argmax(relevance / relevance.max() + size / max(float(size.max()), 1e-12)))


def _axis(values: np.ndarray) -> np.ndarray:
    """An even grid over the range of the values, slightly extended on both sides."""
    low, high = np.quantile(values, [0.002, 0.998])
    margin = 0.15 * max(high - low, 1e-6)
    return np.linspace(low - margin, high + margin, _GRID)
