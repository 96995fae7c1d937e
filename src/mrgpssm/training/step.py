"""One gradient step of one component (paper, Alg. 3), or of some together, as pure `init` and `step`."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from mrgpssm._types import Array, Bool, Float, Int, Key, Scalar
from mrgpssm.data import Series, draw_windows, window_counts
from mrgpssm.elbo import ElboTerms, Windows, elbo_terms
from mrgpssm.model import SSM, Component
from mrgpssm.rollout import Noise, draw_noise, draw_starts, fastest, rollout
from mrgpssm.training.natural import natural_step
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import Cache, FitInfo, Health, Learner, Task

_RECOVERY = 1.05


class Phase(NamedTuple):
    """What stays fixed while some components train; `pace` is the factor on the learning rate.

    `resolution` is the stride of the windows: that of a component that trains alone. `slower` are the cached states of
    those that drive it in a cascade.
    """

    resolution: Int[Array, ""]
    others: Float[Array, "rows y"]
    caches: tuple[Cache, ...]
    from_cache: Bool[Array, ""]
    pace: Float[Array, ""]
    slower: tuple[Float[Array, "rows _"], ...] = ()


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
    windows, rows, at_start, total = _gather(settings, series, task, phase, key_windows)
    parameters, still = eqx.partition(learner.ssm, trainable(learner.ssm))

    def loss(parameters):
        model = eqx.combine(parameters, still)
        noise = draw_noise(model, settings.windows, settings.samples, settings.window_steps, key=key_noise)
        terms, rmse = _bound(settings, model, windows, rows, ~at_start & phase.from_cache, phase.caches, noise, total)
        return -terms.bound / total, (terms, rmse)

    (value, (terms, rmse)), gradient = jax.value_and_grad(loss, has_aux=True)(parameters)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
    taken = jnp.isfinite(value) & jnp.isfinite(norm)
    safe = jax.tree.map(lambda g: jnp.where(taken, g, 0.0), gradient)
    with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers and raises floats to them
        direction, optimiser_state = optimiser(settings).update(safe, learner.optimiser)
    rate = phase.pace * learning_rate(settings, k, value.dtype) * learner.health.backoff
    moved = jax.tree.map(lambda p, d: p - rate * d, parameters, direction)
    if settings.optimiser == "natural":
        moved = natural_step(moved, parameters, safe, rate * total)
    moved, optimiser_state = jax.tree.map(
        lambda new, old: jnp.where(taken, new, old), (moved, optimiser_state), (parameters, learner.optimiser)
    )
    health = _update_health(learner.health, taken)
    info = FitInfo(terms.bound, terms.likelihood, terms.kl_initial + terms.kl_inducing, rmse, norm, taken)
    return Learner(eqx.combine(moved, still), optimiser_state, health), info


def member_series(series: Series, task: Task) -> Series:
    """The series as one member sees it: sequences it does not train on have no rows to start from."""
    return eqx.tree_at(lambda s: s.lengths, series, jnp.where(task.training, series.lengths, 0))


def member_inputs(task: Task, inputs: Float[Array, "*b u"]) -> Float[Array, "*b u"]:
    """Inputs in the member's own units."""
    return (inputs - _wide(task.input_shift, inputs)) / _wide(task.input_scale, inputs)


def member_outputs(task: Task, outputs: Float[Array, "*b all"]) -> Float[Array, "*b y"]:
    """The member's output columns in its own units."""
    chosen = jnp.take(outputs, task.columns, axis=-1)
    return (chosen - _wide(task.output_shift, chosen)) / _wide(task.output_scale, chosen)


def _wide(vector: Float[Array, " c"], like: Float[Array, "*b c"]) -> Float[Array, "*b c"]:
    return jnp.broadcast_to(vector, like.shape)


def _gather(settings: TrainingSettings, series: Series, task: Task, phase: Phase, key: Key):
    """Dilated windows with the mean partial residual as target, where they begin, and the number of time points J.

    Where windows start from caches, a tenth of them is placed at the start of a sequence, where q(x_0) is the truth.
    """
    own = member_series(series, task)
    heads = -(-settings.windows // 10) if settings.window_start == "cache" else 0
    rows, at_start = draw_windows(own, phase.resolution, settings.windows, settings.window_steps, heads, key=key)
    inputs = member_inputs(task, series.inputs[rows])
    driven = jnp.concatenate([inputs, *(states[rows] for states in phase.slower)], axis=-1)
    measured = member_outputs(task, series.outputs[rows])
    target = measured - phase.others[rows]
    clock = series.clock
    unit = phase.resolution.astype(clock.dtype)
    strides = clock.between(rows[:, :-1], rows[:, 1:]) / unit
    seen = jnp.concatenate([inputs, target], axis=-1)[:, : settings.head]
    places = jnp.sum(jnp.where(window_counts(own.lengths, phase.resolution, settings.window_steps) > 0, own.lengths, 0))
    total = places.astype(clock.dtype) / unit
    return Windows(driven[:, :-1], target[:, 1:], strides, seen), rows[:, 0], at_start, total


def _bound(
    settings: TrainingSettings,
    model: SSM,
    windows: Windows,
    rows: Int[Array, " n"],
    from_cache: Bool[Array, " n"],
    caches: tuple[Cache, ...],
    noise: tuple[Noise, ...],
    total: Scalar,
) -> tuple[ElboTerms, Scalar]:
    """L_Δ of the components on their residual (paper, Eq. 16), and the RMSE of their mean on the scored points."""
    dynamics = model.dynamics()
    starts = tuple(
        jnp.where(from_cache[:, None, None], c.states[rows][:, None] + c.spreads[rows][:, None] * e.initial, drawn)
        for c, e, drawn in zip(caches, noise, draw_starts(model, windows.heads, noise), strict=True)
    )
    paths = rollout(fastest(), model, dynamics, starts, windows.inputs, windows.strides, noise)
    terms = elbo_terms(model, dynamics, windows, paths, buffer=settings.buffer, total=total)
    error = windows.outputs[:, settings.buffer :] - jnp.mean(paths.outputs[:, :, settings.buffer :], axis=1)
    rmse = jnp.sqrt(jnp.nanmean(jax.lax.stop_gradient(error) ** 2))
    return terms, rmse


def _update_health(health: Health, taken: Bool[Array, ""]) -> Health:
    """A skipped step halves the learning rate; each good one brings it back by 5 %."""
    backoff = jnp.where(taken, jnp.minimum(_RECOVERY * health.backoff, 1.0), 0.5 * health.backoff)
    streak = jnp.where(taken, 0, health.streak + 1)
    return Health(health.skipped + (~taken).astype(jnp.int32), streak.astype(jnp.int32), backoff)
