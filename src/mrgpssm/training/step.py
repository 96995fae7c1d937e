"""One gradient step of one component (paper, Alg. 3), or of some together, as pure `init` and `step`."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from mrgpssm.arrays.types import Array, Bool, Float, Int, Key, Scalar
from mrgpssm.elbo import ElboTerms, Windows, elbo_terms
from mrgpssm.model import SSM, Component
from mrgpssm.rollout import AbstractScheme, Noise, draw_noise, draw_starts, find_scheme, rollout
from mrgpssm.training.natural import natural_step
from mrgpssm.training.series import Series
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import Cache, FitInfo, Health, Learner, Task
from mrgpssm.training.windows import draw_windows

_RECOVERY = 1.05


class Phase(NamedTuple):
    """What stays fixed while some components train; `pace` is the factor on the learning rate.

    `resolution` is the stride of the windows: that of a component that trains alone. `slower` are the cached states of
    those that drive it in a cascade. Windows that start where the state is not `known` score nothing.
    """

    resolution: Int[Array, ""]
    others: Float[Array, "rows y"]
    caches: tuple[Cache, ...]
    from_cache: Bool[Array, ""]
    pace: Float[Array, ""]
    slower: tuple[Float[Array, "rows _"], ...] = ()
    known: Bool[Array, " rows"] | None = None


def optimiser(settings: TrainingSettings) -> optax.GradientTransformation:
    """Adam on a clipped gradient; the learning rate is applied by `step`, which knows the schedule."""
    return optax.chain(optax.clip_by_global_norm(settings.clip), optax.scale_by_adam())


def trainable(ssm: SSM[Component]) -> SSM[Component]:
    """The mask of what trains: everything but the priors p(x_0)."""
    mask = jax.tree.map(eqx.is_inexact_array, ssm)
    return eqx.tree_at(
        lambda s: [p for c in s.components for p in (c.initial.prior_mean, c.initial.prior_raw_factor)],
        mask,
        [False, False] * len(ssm.components),
    )


def init_optimiser(settings: TrainingSettings, ssm: SSM[Component]) -> optax.OptState:
    """Fresh moments for some components and the observation noise."""
    return optimiser(settings).init(eqx.filter(ssm, trainable(ssm)))


def learning_rate(settings: TrainingSettings, k: Int[Array, ""], dtype: jnp.dtype) -> Scalar:
    """The paper's schedule: times 0.99 every 10 steps, k counted from the last reset."""
    exponent = (k // settings.decay_every).astype(dtype)
    return settings.learning_rate * jnp.asarray(settings.decay, dtype) ** exponent


def step(
    settings: TrainingSettings, series: Series, task: Task, phase: Phase, learner: Learner, k: Int[Array, ""], key: Key
) -> tuple[Learner, FitInfo]:
    """Draw windows, take one step on the negative bound per time point; skip it where anything is not finite."""
    key_windows, key_noise = jax.random.split(key)
    batch = _gather(settings, series, task, phase, key_windows)
    from_cache = ~batch.at_start & phase.from_cache
    parameters, still = eqx.partition(learner.ssm, trainable(learner.ssm))

    def loss(parameters):
        model = eqx.combine(parameters, still)
        noise = draw_noise(model, settings.windows, settings.samples, settings.window_steps, key=key_noise)
        terms, rmse = _bound(find_scheme(settings.scheme), model, batch, from_cache, phase.caches, noise)
        return -terms.bound / batch.total, (terms, rmse)

    (value, (terms, rmse)), gradient = jax.value_and_grad(loss, has_aux=True)(parameters)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
    taken = jnp.isfinite(value) & jnp.isfinite(norm)
    safe = jax.tree.map(lambda g: jnp.where(taken, g, 0.0), gradient)
    with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers and raises floats to them
        direction, optimiser_state = optimiser(settings).update(safe, learner.optimiser)
    rate = phase.pace * learning_rate(settings, k, value.dtype) * learner.health.backoff
    moved = jax.tree.map(lambda p, d: p - rate * d, parameters, direction)
    if settings.optimiser == "natural":
        moved = natural_step(moved, parameters, safe, rate * batch.total)
    moved, optimiser_state = jax.tree.map(
        lambda new, old: jnp.where(taken, new, old), (moved, optimiser_state), (parameters, learner.optimiser)
    )
    health = _update_health(learner.health, taken)
    info = FitInfo(terms.bound, terms.likelihood, terms.kl_initial + terms.kl_inducing, rmse, norm, taken)
    return Learner(eqx.combine(moved, still), optimiser_state, health), info


def member_series(series: Series, task: Task) -> Series:
    """The series as one member sees it: sequences it does not train on have no rows to start from."""
    return eqx.tree_at(lambda s: s.lengths, series, jnp.where(task.training, series.lengths, 0))


def member_inputs(series: Series, task: Task, rows: Int[Array, "*b"]) -> Float[Array, "*b u"]:
    """Inputs of some rows in the member's own units."""
    return series.inputs[task.scaling, rows]


def member_outputs(series: Series, task: Task, rows: Int[Array, "*b"]) -> Float[Array, "*b y"]:
    """The member's output columns of some rows in its own units."""
    return jnp.take(series.outputs[task.scaling, rows], task.columns, axis=-1)


class Batch(NamedTuple):
    """Windows with the mean partial residual as target, the rows that they begin at, and which are true starts.

    `weights` make their likelihood an estimate of that of `total` time points of so many `sequences`.
    """

    windows: Windows
    first: Int[Array, " n"]
    at_start: Bool[Array, " n"]
    weights: Float[Array, "n t"]
    total: Scalar
    sequences: Scalar


def _gather(settings: TrainingSettings, series: Series, task: Task, phase: Phase, key: Key) -> Batch:
    """Dilated windows of the member's own sequences."""
    own = member_series(series, task)
    rows, at_start, weights = draw_windows(
        own, phase.resolution, settings.windows, settings.window, settings.buffer, key=key
    )
    if phase.known is not None:
        weights = jnp.where((at_start | phase.known[rows[:, 0]])[:, None], weights, 0.0)
    inputs, target = member_inputs(series, task, rows), member_outputs(series, task, rows) - phase.others[rows]
    driven = jnp.concatenate([inputs, *(states[rows] for states in phase.slower)], axis=-1)
    unit, gaps = phase.resolution.astype(series.clock.dtype), series.clock.between(rows[:, :-1], rows[:, 1:])
    strides = jnp.where(gaps > 0, gaps / unit, 1.0)  # past the end of a sequence anything will do
    total = jnp.sum(jnp.maximum(own.lengths - 1, 0)).astype(unit.dtype) / unit
    sequences = jnp.sum(own.lengths > 1).astype(unit.dtype)
    return Batch(Windows(driven[:, :-1], target[:, 1:], strides), rows[:, 0], at_start, weights, total, sequences)


def _bound(
    scheme: AbstractScheme,
    model: SSM,
    batch: Batch,
    from_cache: Bool[Array, " n"],
    caches: tuple[Cache, ...],
    noise: tuple[Noise, ...],
) -> tuple[ElboTerms, Scalar]:
    """L_Δ of the components on their residual (paper, Eq. 16), and the RMSE of their mean on the scored points."""
    windows, dynamics = batch.windows, model.dynamics()
    starts = tuple(
        jnp.where(
            from_cache[:, None, None],
            c.states[batch.first][:, None] + c.spreads[batch.first][:, None] * e.initial,
            drawn,
        )
        for c, e, drawn in zip(caches, noise, draw_starts(model, noise), strict=True)
    )
    paths = rollout(scheme, model, dynamics, starts, windows.inputs, windows.strides, noise)
    terms = elbo_terms(model, dynamics, windows, paths, weights=batch.weights, sequences=batch.sequences)
    error = jax.lax.stop_gradient(windows.outputs - jnp.mean(paths.outputs, axis=1))
    rmse = jnp.sqrt(jnp.nanmean(jnp.where(batch.weights[:, :, None] > 0, error, jnp.nan) ** 2))
    return terms, rmse


def _update_health(health: Health, taken: Bool[Array, ""]) -> Health:
    """A skipped step halves the learning rate; each good one brings it back by 5 %."""
    backoff = jnp.where(taken, jnp.minimum(_RECOVERY * health.backoff, 1.0), 0.5 * health.backoff)
    streak = jnp.where(taken, 0, health.streak + 1)
    return Health(health.skipped + (~taken).astype(jnp.int32), streak.astype(jnp.int32), backoff)
