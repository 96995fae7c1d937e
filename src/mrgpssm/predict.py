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
from mrgpssm.model import SSM, Component
from mrgpssm.modelfile import FittedModel
from mrgpssm.noise.fit import Runs, fit_noise, student_nll_terms
from mrgpssm.noise.law import StudentNoise
from mrgpssm.precision import floating_point
from mrgpssm.simulate import Particles, assimilate, free_run, start_particles

_CHUNK = 200_000  # samples of one component at a time, over models, sequences and rows
_CALIBRATION_ROWS, _NOISE_ROWS, _CALIBRATION_SAMPLES = 5_000, 20_000, 100
_GROUPS = 4

Pair = tuple[FittedModel, list[Sequence]]  # a model, and sequences it has not seen


class Piece(NamedTuple):
    """Samples (S, C, D_y) of some outputs on some rows of one sequence, scaled, of all models of the ensemble.

    `outputs` are without observation noise, whose deviation is `noise_sd`, (S, 1, D_y); `noisy` are with it, and `std`,
    (C, D_y), is the deviation of a measurement. `student` are scale and degrees of freedom where noise was learned so.
    """

    sequence: int
    columns: np.ndarray
    noise_sd: np.ndarray
    rows: np.ndarray
    parts: list[np.ndarray]
    outputs: np.ndarray
    noisy: np.ndarray
    std: np.ndarray
    student: tuple[np.ndarray, np.ndarray] | None

    def nll(self, measured: np.ndarray) -> np.ndarray:
        """-log density of scaled measurements, (C, D_y): of Student's t, or of the mixture over samples."""
        outputs = self.outputs.astype(float)
        if self.student is None:
            return metrics.mixture_nll_terms(measured, outputs, self.noise_sd)
        return student_nll_terms(measured - outputs.mean(0), *self.student)


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
        std[at] = sd * piece.std
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
    return scores_of([(model, sequences)], samples, seed)


def scores_of(pairs: SequenceOf[Pair], samples: int, seed: int) -> pd.DataFrame:
    """The same over several models of the same outputs, each with sequences of its own."""
    tables = [t for model, sequences in pairs for t in _score_terms(model, sequences, samples, seed)]
    model = pairs[0][0]
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
    return [*(f"component_{i + 1}_R{r}" for i, r in enumerate(model.options.resolutions)), *model.blend.parts]


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
        terms["std"][at] = sd * piece.std
        terms["nll"][at] = piece.nll(measured) + np.log(sd)
        terms["crps"][at] = sd * metrics.crps_terms(measured, piece.noisy)
        for level, values in zip(LEVELS, np.quantile(piece.noisy, LEVELS, axis=0), strict=True):
            terms[f"q{level:g}"][at] = offset + sd * values
    return [t | {"measured": np.asarray(s.outputs)} for t, s in zip(tables, sequences, strict=True)]


def free_means(model: FittedModel, sequences: list[Sequence]) -> list[np.ndarray]:
    """The mean of a free run over every sequence, (T, D_y), scaled."""
    means = [np.empty((len(s), len(model.output_names))) for s in sequences]
    for piece in _pieces(model, sequences, None, _CALIBRATION_SAMPLES, 0, 1):
        means[piece.sequence][np.ix_(piece.rows, piece.columns)] = piece.outputs.mean(0)
    return means


def learned_noise(pairs: SequenceOf[Pair], boosted: bool) -> StudentNoise:
    """The law of measurements around free runs, from models and sequences they have not seen; trees may help."""
    thin = -(-sum(len(s) for _, sequences in pairs for s in sequences) // _NOISE_ROWS)
    kept: list[list[np.ndarray]] = [[], [], [], []]
    for model, sequences in pairs:
        shapes = [(len(range(0, len(s), thin)), len(model.output_names)) for s in sequences]
        mean, std = ([np.empty(shape) for shape in shapes] for _ in range(2))
        for piece in _pieces(model, sequences, None, _CALIBRATION_SAMPLES, 0, 1):
            chosen = piece.rows % thin == 0
            at = np.ix_(piece.rows[chosen] // thin, piece.columns)
            mean[piece.sequence][at] = piece.outputs.mean(0)[chosen]
            std[piece.sequence][at] = piece.std[chosen]
        for into, values in zip(kept, (
            [model.scaling.outputs(s.outputs)[::thin] for s in sequences], mean, std,
            [model.drive(s)[::thin] for s in sequences],
        ), strict=True):  # fmt: skip
            into.extend(values)
    runs = Runs(*(np.concatenate(values) for values in kept), groups=_groups(kept[0]))
    return fit_noise(runs, boosted)


def _groups(pieces: list[np.ndarray]) -> np.ndarray:
    """Four groups of whole sequences, or of stretches where there are fewer, a number for every row."""
    lengths = [len(piece) for piece in pieces]
    if len(pieces) >= _GROUPS:
        return np.repeat(np.arange(len(pieces)) % _GROUPS, lengths)
    return np.concatenate([np.arange(n) * _GROUPS // n for n in lengths])


def calibration(pairs: SequenceOf[Pair]) -> np.ndarray:
    """One factor per output on the width of the bands, from free runs over held-out sequences (temperature scaling)."""
    thin = -(-sum(len(s) for _, sequences in pairs for s in sequences) // _CALIBRATION_ROWS)
    found = [_thinned(model, sequences, thin) for model, sequences in pairs]
    measured, draws = (np.concatenate([f[i] for f in found], axis=i) for i in (0, 1))
    return pairs[0][0].calibration * metrics.best_temperature(measured, draws)


def _thinned(model: FittedModel, sequences: list[Sequence], thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Every `thin`-th row of measurements (T, D_y) and draws (S, T, D_y), scaled."""
    measured = [model.scaling.outputs(s.outputs)[::thin] for s in sequences]
    draws = [np.empty((_CALIBRATION_SAMPLES, *y.shape)) for y in measured]
    for piece in _pieces(model, sequences, None, _CALIBRATION_SAMPLES, 0, 1):
        kept = piece.rows % thin == 0
        at = np.ix_(np.arange(_CALIBRATION_SAMPLES), piece.rows[kept] // thin, piece.columns)
        draws[piece.sequence][at] = piece.noisy[:, kept]
    return np.concatenate(measured), np.concatenate(draws, axis=1)


def _pieces(
    model: FittedModel, sequences: list[Sequence], warmup: Sequence | None, samples: int, seed: int, stride: int
) -> Iterator[Piece]:
    """Free runs of all models over all sequences at once, handed out by sequence and group of outputs."""
    inputs = [model.drive(sequence, warmup) for sequence in sequences]
    before = None if warmup is None else model.drive(warmup)[-1]
    still = [model.blend.courses(u, before) for u in inputs]
    clocks = [sequence.clock() for sequence in sequences]
    count, groups, rounds = len(sequences), len(model.groups), len(model.ensemble)
    each = -(-samples // rounds)
    rngs = [[np.random.default_rng([seed, number]) for _ in sequences] for number in range(groups)]
    with floating_point(model.options.precision):
        keys = [[_key(seed, number, g) for g in range(groups)] for number in range(rounds)]
        runs = [(model.ensemble[number][g], g, keys[number][g]) for number in range(rounds) for g in range(groups)]
        starts = [[_start(model, ssm, g, warmup, each, key)] * count for ssm, g, key in runs]
        ssm, particles = _stack([run[0] for run in runs]), _stack([_stack(row) for row in starts])
        noise = np.stack([np.sqrt(np.asarray(one.observation_variance(), float)) for one, _, _ in runs])
        noise_sds = np.repeat(noise.reshape(rounds, groups, -1), each, axis=0)[:samples]
        chunk = max(100, _CHUNK // (groups * count * samples))
        stacked = jnp.stack([run[2] for run in runs])
        for draws in free_run(ssm, particles, inputs, clocks, stride=stride, chunk=chunk, keys=stacked):
            for g, k in itertools.product(range(groups), range(count)):
                rows = draws.rows[draws.rows < len(sequences[k])]
                if len(rows):
                    parts = [np.concatenate(part[g::groups, k, :, : len(rows)])[:samples] for part in draws.parts]
                    parts = _mixed(model, g, parts, still[k], rows)
                    yield _piece(model, k, g, rows, parts, noise_sds[:, None, g], inputs[k][rows], rngs[g][k])


def _mixed(
    model: FittedModel, group: int, parts: list[np.ndarray], still: list[np.ndarray], rows: np.ndarray
) -> list[np.ndarray]:
    """All that adds up to the outputs: what is left to every component, and what the instantaneous parts add."""
    columns, dtype = np.array(model.groups[group]), parts[0].dtype
    rest, at = model.blend.rest[columns].astype(dtype), np.ix_(rows, columns)
    added = [np.broadcast_to(course[at].astype(dtype), parts[0].shape) for course in still]
    return [*(rest * part for part in parts), *added]


def _piece(
    model: FittedModel,
    sequence: int,
    group: int,
    rows: np.ndarray,
    parts: list[np.ndarray],
    noise_sd: np.ndarray,
    drive: np.ndarray,
    rng: np.random.Generator,
) -> Piece:
    """Samples of the sum of all components, calibrated: deviations from their mean are multiplied by τ.

    Where the law of measurements was learned, draws around the mean follow it instead.
    """
    columns = np.array(model.groups[group])
    outputs, temperature = np.sum(parts, axis=0), model.calibration[columns]
    if np.any(temperature != 1):
        mean = outputs.mean(axis=0)
        outputs, noise_sd = mean + (temperature * (outputs - mean)).astype(outputs.dtype), temperature * noise_sd
    std, student = np.sqrt(outputs.var(0) + np.mean(noise_sd**2, axis=0)), None
    if model.noise is None:
        noisy = outputs + noise_sd * rng.standard_normal(outputs.shape)
    else:
        mean = outputs.mean(axis=0)
        scale = model.noise.scale(mean, std, drive, columns)
        std, student = model.noise.deviation(scale, columns), (scale, model.noise.dof[columns])
        noisy = mean + model.noise.draws(scale, columns, len(outputs), rng)
    return Piece(sequence, columns, noise_sd, rows, parts, outputs, noisy, std, student)


def _key(seed: int, number: int, group: int) -> Key:
    """The key of one model of the ensemble."""
    key = jax.random.fold_in(jax.random.key(seed), group)
    return key if number == 0 else jax.random.fold_in(key, 1000 + number)


def _stack(trees: SequenceOf):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _start(
    model: FittedModel,
    ssm: SSM[Component],
    group: int,
    warmup: Sequence | None,
    samples: int,
    key: Key,
) -> tuple[Particles, ...]:
    """Samples of the first state: from q(x_0), or from where the warm-up leaves them."""
    columns = np.array(model.groups[group])
    dtype = jnp.dtype(model.options.precision)
    particles = start_particles(ssm, samples, key=key)
    if warmup is None:
        return particles
    past_inputs = jnp.asarray(model.drive(warmup), dtype)
    past_outputs = jnp.asarray(model.scaling.outputs(warmup.outputs)[:, columns], dtype)
    return assimilate(ssm, particles, past_inputs, past_outputs, jnp.ones(len(warmup), dtype), key=key)
