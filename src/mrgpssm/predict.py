"""A fitted model put to use: free runs as forecasts, and their scores, in the data's own units."""

import itertools
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from mrgpssm import metrics
from mrgpssm._types import Key
from mrgpssm.data import Sequence
from mrgpssm.errors import DataError
from mrgpssm.forecast import LEVELS, Forecast
from mrgpssm.members import head_rows
from mrgpssm.modelfile import FittedModel
from mrgpssm.precision import floating_point
from mrgpssm.simulate import Particles, assimilate, free_run, start_particles

_CHUNK = 1_000_000  # samples of one component at a time, over models, sequences and rows


class Piece(NamedTuple):
    """What one model says about some rows of one sequence, scaled, with and without observation noise."""

    sequence: int
    columns: np.ndarray
    noise_sd: np.ndarray
    rows: np.ndarray
    parts: list[np.ndarray]
    outputs: np.ndarray
    noisy: np.ndarray


def forecast(
    model: FittedModel,
    sequence: Sequence,
    warmup: Sequence | None,
    *,
    samples: int,
    seed: int,
    stride: int,
    quantiles: SequenceOf[float],
    keep_samples: bool,
) -> Forecast:
    """Run freely over the sequence's inputs and stream what a `Forecast` holds."""
    rows = np.arange(0, len(sequence), stride)
    shape, dtype = (len(rows), len(model.output_names)), model.options.precision
    mean, std = np.empty(shape, dtype), np.empty(shape, dtype)
    levels = {float(q): np.empty(shape, dtype) for q in quantiles}
    parts = {name: np.empty(shape, dtype) for name in component_names(model)}
    paths = np.empty((samples, *shape), dtype) if keep_samples else None
    for piece in _pieces(model, [sequence], warmup, samples, seed, stride):
        at = np.ix_(piece.rows // stride, piece.columns)
        sd, offset = model.scaling.output_sd[piece.columns], model.scaling.output_mean[piece.columns]
        mean[at] = offset + sd * piece.outputs.mean(0)
        std[at] = sd * np.sqrt(piece.outputs.var(0) + piece.noise_sd**2)
        for level, values in zip(levels, np.quantile(piece.noisy, list(levels), axis=0), strict=True):
            levels[level][at] = offset + sd * values
        for name, part in zip(parts, piece.parts, strict=True):
            parts[name][at] = sd * part.mean(0)
        if paths is not None:
            paths[(slice(None), *at)] = offset + sd * piece.outputs
    return Forecast(
        time=sequence.clock()[rows] * sequence.dt + (0.0 if sequence.time is None else sequence.time[0]),
        mean=mean,
        std=std,
        quantiles=levels,
        components=parts,
        offset=model.scaling.output_mean,
        output_names=model.output_names,
        units=model.units,
        samples=paths,
    )


def scores(model: FittedModel, sequences: list[Sequence], samples: int, seed: int) -> pd.DataFrame:
    """Free run over every sequence from its first row; one row per output, errors in the data's units."""
    tables = _score_terms(model, sequences, samples, seed)
    terms = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    measured, mean = terms["measured"], terms["mean"]
    for column, name in enumerate(model.output_names):
        if np.isnan(measured[:, column]).all():
            raise DataError(f"Output {name!r} has no measured value to be scored against; give data that has it.")
    return pd.DataFrame(
        {
            "rmse": metrics.rmse(measured, mean),
            "nrmse": metrics.nrmse(measured, mean),
            "fit_percent": metrics.fit_percent(measured, mean),
            "nll": np.nanmean(terms["nll"], axis=0),
            "nll_gaussian": metrics.gaussian_nll(measured, mean, terms["std"]),
            "crps": np.nanmean(terms["crps"], axis=0),
            "coverage_50": metrics.coverage(measured, terms["q0.25"], terms["q0.75"]),
            "coverage_90": metrics.coverage(measured, terms["q0.05"], terms["q0.95"]),
            "coverage_95": metrics.coverage(measured, terms["q0.025"], terms["q0.975"]),
        },
        index=pd.Index(model.output_names, name="output"),
    )


def component_names(model: FittedModel) -> list[str]:
    """What forecasts call the components."""
    return [f"component_{i + 1}_R{r}" for i, r in enumerate(model.options.resolutions)]


def _score_terms(model: FittedModel, sequences: list[Sequence], samples: int, seed: int) -> list[dict[str, np.ndarray]]:
    """What the metrics need per row of every sequence, in the data's units."""
    names = ["mean", "std", "nll", "crps", *(f"q{q:g}" for q in LEVELS)]
    shapes = [(len(sequence), len(model.output_names)) for sequence in sequences]
    tables = [{name: np.empty(shape) for name in names} for shape in shapes]
    for piece in _pieces(model, sequences, None, samples, seed, 1):
        sequence, terms = sequences[piece.sequence], tables[piece.sequence]
        at = np.ix_(piece.rows, piece.columns)
        sd, offset = model.scaling.output_sd[piece.columns], model.scaling.output_mean[piece.columns]
        measured = (sequence.outputs[at] - offset) / sd
        outputs = piece.outputs.astype(float)
        terms["mean"][at] = offset + sd * outputs.mean(0)
        terms["std"][at] = sd * np.sqrt(outputs.var(0) + piece.noise_sd**2)
        terms["nll"][at] = metrics.mixture_nll_terms(measured, outputs, piece.noise_sd) + np.log(sd)
        terms["crps"][at] = sd * metrics.crps_terms(measured, piece.noisy)
        for level, values in zip(LEVELS, np.quantile(piece.noisy, LEVELS, axis=0), strict=True):
            terms[f"q{level:g}"][at] = offset + sd * values
    return [t | {"measured": np.asarray(s.outputs)} for t, s in zip(tables, sequences, strict=True)]


def _pieces(
    model: FittedModel, sequences: list[Sequence], warmup: Sequence | None, samples: int, seed: int, stride: int
) -> Iterator[Piece]:
    """Free runs of all models over all sequences at once, handed out by sequence and model."""
    inputs = [model.scaling.inputs(sequence.inputs) for sequence in sequences]
    clocks = [sequence.clock() for sequence in sequences]
    count, groups = len(sequences), len(model.groups)
    rngs = [[np.random.default_rng([seed, number]) for _ in sequences] for number in range(groups)]
    with floating_point(model.options.precision):
        keys = jnp.stack([jax.random.fold_in(jax.random.key(seed), number) for number in range(groups)])
        starts = [[_start(model, g, u, warmup, samples, keys[g]) for u in inputs] for g in range(groups)]
        ssm, particles = _stack(model.models), _stack([_stack(row) for row in starts])
        noise_sds = [np.sqrt(np.asarray(one.observation_variance(), float)) for one in model.models]
        chunk = max(100, _CHUNK // (groups * count * samples))
        for draws in free_run(ssm, particles, inputs, clocks, stride=stride, chunk=chunk, keys=keys):
            for g, k in itertools.product(range(groups), range(count)):
                rows = draws.rows[draws.rows < len(sequences[k])]
                if len(rows):
                    parts = [part[g, k, :, : len(rows)] for part in draws.parts]
                    outputs = np.sum(parts, axis=0)
                    noise = noise_sds[g] * rngs[g][k].standard_normal(outputs.shape)
                    yield Piece(k, np.array(model.groups[g]), noise_sds[g], rows, parts, outputs, outputs + noise)


def _stack(trees: SequenceOf):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _start(
    model: FittedModel, group: int, inputs: np.ndarray, warmup: Sequence | None, samples: int, key: Key
) -> tuple[Particles, ...]:
    """Samples of the first state: from q(x_0), or from where the warm-up leaves them."""
    ssm, columns = model.models[group], np.array(model.groups[group])
    dtype, head = jnp.dtype(model.options.precision), head_rows(model.options)
    if warmup is None:
        seen = np.resize(inputs[:head], (head, inputs.shape[1]))
        blank = np.full((head, len(columns)), np.nan)
        return start_particles(ssm, samples, jnp.asarray(np.hstack([seen, blank]), dtype), key=key)
    if len(warmup) < head:
        raise DataError(f"warmup needs at least {head} rows for the recognition network; got {len(warmup)}.")
    past_inputs = jnp.asarray(model.scaling.inputs(warmup.inputs), dtype)
    past_outputs = jnp.asarray(model.scaling.outputs(warmup.outputs)[:, columns], dtype)
    seen = jnp.concatenate([past_inputs, past_outputs], axis=1)[:head]
    particles = start_particles(ssm, samples, seen, key=key)
    return assimilate(ssm, particles, past_inputs, past_outputs, jnp.ones(len(warmup), dtype), key=key)
