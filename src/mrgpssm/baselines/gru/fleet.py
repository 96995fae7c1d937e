"""Many networks as one program: members differ in data, output, what is left out, settings and seed."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from mrgpssm.arrays.types import Array, Float, Int, Key
from mrgpssm.baselines.gru.network import Weights, init_weights, loss, run

_PATIENCE = 0.3  # stop when no member of the fleet has improved for this share of all steps


class Rows(eqx.Module):
    """All recordings end to end: features, outputs (missing ones zero) and which outputs are measured."""

    features: Float[Array, "rows f"]
    outputs: Float[Array, "rows y"]
    measured: Float[Array, "rows y"]


class GruMember(eqx.Module):
    """One network's task; in a fleet every field has a leading axis.

    Windows start at `starts[p] + 0 ... counts[p] - 1`. The left-out stretch begins at row `held`, is `held_rows` long,
    and the `known` rows before it warm up the state.
    """

    column: Int[Array, "*m"]
    starts: Int[Array, "*m p"]
    counts: Int[Array, "*m p"]
    held: Int[Array, "*m"]
    held_rows: Int[Array, "*m"]
    known: Int[Array, "*m"]
    inputs: Float[Array, "*m f"]  # mask over features
    units: Float[Array, "*m h"]  # mask over hidden units
    rate: Float[Array, "*m"]
    key: Key


class Program(eqx.Module):
    """Sizes that are the same for all members."""

    burn: int
    window: int
    batch: int
    steps: int
    chunk: int
    longest: int


class BestWeights(eqx.Module):
    """The best weights so far, their left-out loss, and the step they were found at."""

    loss: Float[Array, "*m"]
    step: Int[Array, "*m"]
    weights: Weights


def assemble(
    features: Float[Array, "... f"], y: Float[Array, "..."], known: Float[Array, "..."], mask: Float[Array, " f"]
) -> Float[Array, "... f_plus_2"]:
    """The network's input x: masked features, and the output where it is known."""
    wide = mask.reshape((1,) * (features.ndim - 1) + mask.shape)
    return jnp.concatenate([features * wide, (known * y)[..., None], known[..., None]], axis=-1)


def train(rows: Rows, members: GruMember, program: Program, report: Callable[[str], None]) -> BestWeights:
    """Adam with a cosine schedule. Every member keeps the weights with the lowest left-out loss."""
    features, width = rows.features.shape[1] + 2, members.units.shape[-1]
    weights = jax.vmap(lambda key: init_weights(features, width, key=key))(members.key)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())
    state = jax.vmap(optimiser.init)(weights)  # pyright: ignore[reportArgumentType]
    count = members.column.shape[0]
    best = BestWeights(jnp.full((count,), jnp.inf, jnp.float32), jnp.zeros((count,), jnp.int32), weights)
    for begun in range(0, program.steps, program.chunk):
        weights, state = _advance(rows, members, weights, state, jnp.int32(begun), program, optimiser.update)
        best = _keep_best(rows, members, weights, best, jnp.int32(begun + program.chunk), program)
        report(f"step {begun + program.chunk} of {program.steps}, left-out loss {np.nanmean(best.loss):.4f}")
        if begun + program.chunk - int(np.max(best.step)) >= _PATIENCE * program.steps:
            break
    return best


@eqx.filter_jit
def _advance(rows: Rows, members: GruMember, weights: Weights, state, begun, program: Program, update):
    """`chunk` gradient steps of every member."""

    def one(member: GruMember, weights: Weights, state):
        def step(carry, number):
            weights, state = carry
            gradient = jax.grad(_window_loss)(weights, rows, member, program, jax.random.fold_in(member.key, number))
            with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers and raises floats to them
                direction, state = update(gradient, state)
            progress = number.astype(jnp.float32) / program.steps
            rate = member.rate * (0.03 + 0.97 * 0.5 * (1 + jnp.cos(jnp.pi * progress)))
            return (jax.tree.map(lambda w, d: w - rate * d, weights, direction), state), None

        numbers = begun + jnp.arange(program.chunk, dtype=jnp.int32)
        return jax.lax.scan(step, (weights, state), numbers)[0]

    return jax.vmap(one)(members, weights, state)


def _window_loss(weights: Weights, rows: Rows, member: GruMember, program: Program, key: Key) -> Float[Array, ""]:
    """The loss over random windows after their burn-in; in half of them the burn-in sees the measured outputs."""
    place_key, known_key = jax.random.split(key)
    ends = jnp.cumsum(member.counts, dtype=jnp.int32)
    place = jax.random.randint(place_key, (program.batch,), 0, ends[-1], jnp.int32)
    piece = jnp.searchsorted(ends, place, side="right")
    first = member.starts[piece] + place - jnp.where(piece > 0, ends[piece - 1], 0)
    at = first[None, :] + jnp.arange(program.burn + program.window, dtype=jnp.int32)[:, None]
    y, measured = rows.outputs[at, member.column], rows.measured[at, member.column]
    early = (jnp.arange(len(at)) < program.burn).astype(y.dtype)[:, None]
    shown = jax.random.bernoulli(known_key, 0.5, (1, program.batch)).astype(y.dtype)
    x = assemble(rows.features[at], y, early * shown * measured, member.inputs)
    return loss(*run(weights, member.units, x), y, (1 - early) * measured)


def _run_held(rows: Rows, member: GruMember, weights: Weights, burn: int, longest: int):
    """Mean (T,), quantiles (T, L), outputs (T,) and weights (T,) along the left-out stretch of one member."""
    offset = jnp.arange(-burn, longest, dtype=jnp.int32)
    at = member.held + jnp.clip(offset, -member.known, member.held_rows - 1)
    y, measured = rows.outputs[at, member.column], rows.measured[at, member.column]
    known = ((offset >= -member.known) & (offset < 0)).astype(y.dtype) * measured
    x = assemble(rows.features[at], y, known, member.inputs)
    mean, quantiles = run(weights, member.units, x[:, None])
    counted = ((offset >= 0) & (offset < member.held_rows)).astype(y.dtype) * measured
    return mean[burn:, 0], quantiles[burn:, 0], y[burn:], counted[burn:]


@eqx.filter_jit
def run_held(rows: Rows, members: GruMember, weights: Weights, burn: int, longest: int):
    """`_run_held` of every member."""
    return jax.vmap(lambda member, w: _run_held(rows, member, w, burn, longest))(members, weights)


@eqx.filter_jit
def _keep_best(
    rows: Rows, members: GruMember, weights: Weights, best: BestWeights, step, program: Program
) -> BestWeights:
    def judge(member, weights):
        mean, quantiles, y, counted = _run_held(rows, member, weights, program.burn, program.longest)
        return loss(mean[:, None], quantiles[:, None], y[:, None], counted[:, None])

    now = jax.vmap(judge)(members, weights)
    better = now < best.loss  # false for NaN

    def pick(new, old):
        return jnp.where(better.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    kept = jax.tree.map(pick, weights, best.weights)
    return BestWeights(jnp.where(better, now, best.loss), jnp.where(better, step, best.step), kept)
