"""Free runs of a whole fleet over everybody's own test sequences, judged on the device chunk by chunk.

All numbers are in units of a member's training deviation. With samples x_s of the output, observation noise σ and the
mixture p(y) = 1/S Σ_s N(y | x_s, σ²), a row counts

    nLL = -log p(y),   Gaussian nLL = -log N(y | mean, var + σ²),   CRPS from draws x_s + σ ε_s,
    inside the central band of level q where |F(y) - 1/2| <= q/2,  F(y) = 1/S Σ_s Φ((y - x_s) / σ).

The bands are those of the mixture itself: quantiles of S draws would be too narrow for small S.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr

from mrgpssm.arrays.compile import quick_jit
from mrgpssm.arrays.types import Array, Float, Int, Key
from mrgpssm.model import SSM, Component
from mrgpssm.paper.config import Evaluation
from mrgpssm.paper.fleet import ProblemFleet
from mrgpssm.paper.problems import Problem
from mrgpssm.rollout import Particles, draw_particles
from mrgpssm.training import Task
from mrgpssm.training.series import Series
from mrgpssm.training.step import member_outputs
from mrgpssm.training.sweep import rows_of, walk_all

LEVELS = (0.5, 0.9, 0.95)
METRICS = ("rmse", "nll", "nll_gaussian", "crps", *(f"coverage_{round(100 * q)}" for q in LEVELS))
_SUMS = ("count", "squared", "nll", "gaussian", "crps", *LEVELS)
_EVALUATE, _NOISE = 30, 31


class RunLayout(eqx.Module):
    """Where a member's k runs start in the flat series, their rows, and how many of these score nothing."""

    starts: Int[Array, "*f k"]
    lengths: Int[Array, "*f k"]
    leads: Int[Array, "*f k"]


@dataclass(frozen=True)
class Outcome:
    """Metrics per member, RMSE per member and test sequence, and the free runs of the members that were asked for."""

    metrics: dict[str, np.ndarray]
    sequence_rmse: np.ndarray
    mean: dict[int, list[np.ndarray]]
    std: dict[int, list[np.ndarray]]


def lay_out_runs(fleet: ProblemFleet, problem: Problem, through: bool = False) -> RunLayout:
    """Every member's test sequences from their first row; with `through`, from the first row of the one before."""
    lengths = np.array([len(s) for s in problem.sequences])
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    width = max(len(f.test) for f in problem.folds)
    table = np.zeros((3, len(problem.folds), width), np.int32)
    for index, fold in enumerate(problem.folds):
        test, before = list(fold.test), list(fold.before)
        lead = lengths[before] if through else np.zeros(len(test), int)
        columns = offsets[before if through else test], lengths[test] + lead, lead
        for row, values in zip(table, columns, strict=True):
            row[index, : len(test)] = values
    return RunLayout(*(jnp.asarray(row[fleet.fold]) for row in table))


def evaluate(
    ssm: SSM[Component],
    fleet: ProblemFleet,
    layout: RunLayout,
    evaluation: Evaluation,
    *,
    seed: int,
    keep: SequenceOf[int] = (),
) -> Outcome:
    """Judge all members; `keep` names those whose mean and deviation (noise included) are returned row by row."""
    plan = fleet.plan
    units = tuple(jnp.asarray(r, plan.series.clock.dtype) for r in plan.resolutions)
    longest, fold_in = int(jnp.max(layout.lengths)), jax.vmap(jax.random.fold_in, in_axes=(0, None))
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), _EVALUATE), fleet.size)
    shape, count = (layout.starts.shape[1], evaluation.samples), min(evaluation.chunk, longest)
    here = tuple(_begin(c, shape, fold_in(keys, i)) for i, c in enumerate(ssm.components))
    sums, means, deviations = np.zeros((len(_SUMS), *layout.starts.shape)), [], []
    for first in range(0, longest, count):
        start = jnp.asarray(first, jnp.int32)
        here, tally, mean, std = _chunk(ssm, units, plan.series, plan.tasks, layout, here, start, count, keys)
        sums += np.asarray(tally, float).transpose(1, 0, 2)
        if len(keep):
            means.append(np.asarray(mean[np.asarray(keep)]))
            deviations.append(np.asarray(std[np.asarray(keep)]))
    lengths = np.asarray(layout.lengths)
    return Outcome(
        metrics=_metrics(sums.sum(axis=2)),
        sequence_rmse=_metrics(sums)["rmse"],
        mean=_rows(keep, means, lengths),
        std=_rows(keep, deviations, lengths),
    )


def _metrics(sums: np.ndarray) -> dict[str, np.ndarray]:
    count, squared, *others = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        values = [np.sqrt(squared / count), *(other / count for other in others)]
    return dict(zip(METRICS, values, strict=True))


def _rows(keep: SequenceOf[int], chunks: list[np.ndarray], lengths: np.ndarray) -> dict[int, list[np.ndarray]]:
    """The kept members' rows, sequence by sequence."""
    if not chunks:
        return {}
    joined = np.concatenate(chunks, axis=2)
    return {m: [run[:n] for run, n in zip(joined[i], lengths[m], strict=True)] for i, m in enumerate(keep)}


_begin = quick_jit(eqx.filter_vmap(draw_particles, in_axes=(eqx.if_array(0), None, 0)))


@quick_jit
@eqx.filter_vmap(in_axes=(eqx.if_array(0), None, None, eqx.if_array(0), 0, 0, None, None, 0))
def _chunk(
    ssm: SSM[Component],
    units: tuple[Float[Array, ""], ...],
    series: Series,
    task: Task,
    layout: RunLayout,
    here: tuple[Particles, ...],
    first: Int[Array, ""],
    count: int,
    key: Key,
):
    """Take all runs `count` rows further and add up what their rows score; sums have shape (sums, k)."""
    own = eqx.tree_at(lambda s: (s.offsets, s.lengths), series, (layout.starts, layout.lengths))
    moved, outputs = walk_all(ssm, units, own, task, here, first, count, key)
    samples, variance = outputs[..., 0], ssm.observation_variance()[0]
    rows = jnp.minimum(rows_of(own, first, count), series.clock.shape[0] - 1)
    measured = member_outputs(series, task, rows)[..., 0]
    local = first + jnp.arange(count, dtype=first.dtype)[None, :]
    scored = (local < layout.lengths[:, None]) & (local >= layout.leads[:, None]) & ~jnp.isnan(measured)
    noise = jax.random.normal(jax.random.fold_in(jax.random.fold_in(key, _NOISE), first), samples.shape, samples.dtype)
    mean, std = jnp.mean(samples, axis=1), jnp.sqrt(jnp.var(samples, axis=1) + variance)
    terms = row_scores(jnp.where(scored, measured, 0.0), samples, jnp.sqrt(variance), noise)
    tally = jnp.sum(jnp.where(scored[None], terms, 0.0), axis=2)
    return moved, tally, mean, std


def row_scores(
    measured: Float[Array, "k c"], samples: Float[Array, "k s c"], sd: Float[Array, ""], noise: Float[Array, "k s c"]
) -> Float[Array, "sums k c"]:
    """What every row counts: one, squared error of the mean, nLL, Gaussian nLL, CRPS, and inside each band or not."""
    s = samples.shape[1]
    mean, variance = jnp.mean(samples, axis=1), jnp.var(samples, axis=1) + sd**2
    squared = (measured - mean) ** 2
    z = (measured[:, None] - samples) / sd
    half_log_2pi = 0.5 * np.log(2 * np.pi)
    nll = jnp.log(sd * s) + half_log_2pi - logsumexp(-0.5 * z**2, axis=1)
    gaussian = 0.5 * (squared / variance + jnp.log(variance)) + half_log_2pi
    draws = jnp.sort(samples + sd * noise, axis=1)
    weights = jnp.asarray(2 * np.arange(1, s + 1) - s - 1, draws.dtype)[None, :, None]
    spread = jnp.sum(weights * draws, axis=1) / (s * (s - 1))
    crps = jnp.mean(jnp.abs(draws - measured[:, None]), axis=1) - spread
    distance = jnp.abs(jnp.mean(ndtr(z), axis=1) - 0.5)
    inside = [(distance <= q / 2).astype(mean.dtype) for q in LEVELS]
    return jnp.stack([jnp.ones_like(mean), squared, nll, gaussian, crps, *inside])
