"""A fitted model put to use: free runs as forecasts, and their scores, in the data's own units."""

from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from mrgpssm import metrics
from mrgpssm.data import Sequence
from mrgpssm.errors import DataError
from mrgpssm.forecast import LEVELS, Forecast
from mrgpssm.members import head_rows
from mrgpssm.model import SSM, Component
from mrgpssm.modelfile import FittedModel
from mrgpssm.precision import floating_point
from mrgpssm.simulate import Draws, Particles, assimilate, free_run, start_particles

_CHUNK = 1000


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
    for columns, noise_sd, draws, noisy in _draws(model, sequence, warmup, samples, seed, stride):
        at = np.ix_(draws.rows // stride, columns)
        sd, offset = model.scaling.output_sd[columns], model.scaling.output_mean[columns]
        outputs = draws.outputs
        mean[at] = offset + sd * outputs.mean(0)
        std[at] = sd * np.sqrt(outputs.var(0) + noise_sd**2)
        for level, values in zip(levels, np.quantile(noisy, list(levels), axis=0), strict=True):
            levels[level][at] = offset + sd * values
        for name, part in zip(parts, draws.parts, strict=True):
            parts[name][at] = sd * part.mean(0)
        if paths is not None:
            paths[(slice(None), *at)] = offset + sd * outputs
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
    tables = [_score_terms(model, sequence, samples, seed) for sequence in sequences]
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


def _score_terms(model: FittedModel, sequence: Sequence, samples: int, seed: int) -> dict[str, np.ndarray]:
    """What the metrics of one sequence need per row, in the data's units."""
    shape = (len(sequence), len(model.output_names))
    names = ["mean", "std", "nll", "crps", *(f"q{q:g}" for q in LEVELS)]
    terms = {name: np.empty(shape) for name in names} | {"measured": np.asarray(sequence.outputs)}
    for columns, noise_sd, draws, noisy in _draws(model, sequence, None, samples, seed, 1):
        at = np.ix_(draws.rows, columns)
        sd, offset = model.scaling.output_sd[columns], model.scaling.output_mean[columns]
        measured = (sequence.outputs[at] - offset) / sd
        outputs = draws.outputs.astype(float)
        terms["mean"][at] = offset + sd * outputs.mean(0)
        terms["std"][at] = sd * np.sqrt(outputs.var(0) + noise_sd**2)
        terms["nll"][at] = metrics.mixture_nll_terms(measured, outputs, noise_sd) + np.log(sd)
        terms["crps"][at] = sd * metrics.crps_terms(measured, noisy)
        for level, values in zip(LEVELS, np.quantile(noisy, LEVELS, axis=0), strict=True):
            terms[f"q{level:g}"][at] = offset + sd * values
    return terms


def _draws(
    model: FittedModel, sequence: Sequence, warmup: Sequence | None, samples: int, seed: int, stride: int
) -> Iterator[tuple[np.ndarray, np.ndarray, Draws, np.ndarray]]:
    """Per model and chunk: its output columns, noise deviation, draws, and draws with observation noise added."""
    inputs, clock = model.scaling.inputs(sequence.inputs), sequence.clock()
    for number, (group, ssm) in enumerate(zip(model.groups, model.models, strict=True)):
        columns = np.array(group)
        with floating_point(model.options.precision):
            key = jax.random.fold_in(jax.random.key(seed), number)
            noise_sd = np.sqrt(np.asarray(ssm.observation_variance(), float))
            particles = _start(model, ssm, columns, inputs, warmup, samples, key)
            chunks = free_run(ssm, particles, inputs, clock, stride=stride, chunk=_CHUNK, key=key)
            rng = np.random.default_rng([seed, number])
            for draws in chunks:
                noise = rng.standard_normal((samples, len(draws.rows), len(columns)))
                yield columns, noise_sd, draws, draws.outputs + noise_sd * noise


def _start(
    model: FittedModel,
    ssm: SSM[Component],
    columns: np.ndarray,
    inputs: np.ndarray,
    warmup: Sequence | None,
    samples: int,
    key,
) -> tuple[Particles, ...]:
    """Samples of the first state: from q(x_0), or from where the warm-up leaves them."""
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
