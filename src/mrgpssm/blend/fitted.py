"""A fitted blend: its parts, their shares, and the law of measurements around their weighted mean."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.blend.simulator import Simulator, call, takes
from mrgpssm.blend.weigh import find_shares
from mrgpssm.data import Scaling, Seen, Sequence
from mrgpssm.errors import DataWarning, FitError
from mrgpssm.estimator.noise import Runs, fit_noise, group_rows
from mrgpssm.estimator.paths import Scored, fit_paths
from mrgpssm.prediction.scores import Table, score_terms
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import Measurements
from mrgpssm.runtime.paths import PathLaw, PathNoise

_NOISE_ROWS = 20_000
_DRAWS = 100  # of measurements, for scores


@dataclass(frozen=True)
class LeftOut:
    """Free runs of K parts over one recording, scaled: `means` and `deviations` (K, T, D_y), `drive` (T, D_u) the
    inputs of every row, and `measured` (T, D_y), NaN where missing.
    """

    means: np.ndarray
    deviations: np.ndarray
    drive: np.ndarray
    measured: np.ndarray

    def blend(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation (T, D_y) with shares (K, D_y); parts without a deviation add none."""
        mean = np.einsum("kd,ktd->td", weights, self.means)
        return mean, np.einsum("kd,ktd->td", weights, np.nan_to_num(self.deviations))


@dataclass(frozen=True)
class FittedBlend:
    """What a blend has learned: parts by name, shares (K, D_y), the noise law, and the way to the data's units.

    `paths` is the law of trajectories, where it was learned.
    """

    parts: dict[str, Simulator]
    shares: np.ndarray
    noise: StudentNoise
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    dt: float
    scaling: Scaling
    units: dict[str, str]
    seen: Seen | None
    paths: PathLaw | None = None

    def measure(self, run: LeftOut, samples: int = 1) -> Measurements:
        """Measurements at every row of a run, scaled."""
        mean, deviation = run.blend(self.shares)
        scale = self.noise.scale(mean, deviation, run.drive)
        copies = np.repeat(mean[None], samples, axis=0)
        return Measurements(copies, np.zeros((samples, mean.shape[1])), self.noise.deviation(scale), self.noise, scale)

    def follow(self, run: LeftOut, clock: np.ndarray, samples: int, seed: int) -> np.ndarray:
        """(S, T, D_y) trajectories of measurements over a run, in the data's units; `clock` is in samples."""
        law = PathLaw.white(len(self.output_names)) if self.paths is None else self.paths
        e = PathNoise(law, samples, seed).follow(np.arange(len(clock)), clock)
        return self.scaling.output_mean + self.scaling.output_sd * self.measure(run, samples).follow(e, law.own)

    def score_terms(self, run: LeftOut, seed: int) -> Table:
        """What the metrics need of every row."""
        found, rows = self.measure(run, _DRAWS), np.arange(len(run.measured))
        return score_terms(found, run.measured, rows, seed, self.scaling)


def run_parts(
    parts: Mapping[str, Simulator], sequence: Sequence, scaling: Scaling, stride: int = 1, **asked: Any
) -> LeftOut:
    """Free runs of all parts over a sequence, at every `stride`-th row; `asked` is handed to parts that take it."""
    means, deviations, rows = [], [], slice(None, None, stride)
    for name, part in parts.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the blend says them itself
            run = call(part.simulate, sequence, stride=stride, quantiles=(), **asked)
        own = slice(None) if takes(part.simulate, "stride") else rows
        mean = scaling.outputs(np.asarray(run.mean, float)[own])
        if mean.shape != sequence.outputs[rows].shape or not np.isfinite(mean).all():
            raise FitError(
                f"Part {name!r} gave no finite mean of shape {sequence.outputs[rows].shape} over {sequence.name}; "
                "leave it out of the blend."
            )
        means.append(mean)
        deviations.append(np.asarray(run.std, float)[own] / scaling.output_sd)
    return LeftOut(
        np.stack(means),
        np.stack(deviations),
        scaling.inputs(sequence.inputs[rows]),
        scaling.outputs(sequence.outputs[rows]),
    )


def learn_shares(runs: list[LeftOut]) -> np.ndarray:
    """(K, D_y) that make the errors of the blended means least; the first part has what the others leave."""
    errors = [run.means - run.measured for run in runs]
    columns = range(errors[0].shape[2])
    others = np.stack([find_shares((e[0, :, c], e[1:, :, c]) for e in errors) for c in columns], axis=1)
    return np.concatenate([1 - others.sum(axis=0, keepdims=True), others])


def learn_noise(runs: list[LeftOut], weights: np.ndarray) -> StudentNoise:
    """The law of measurements around the blended runs, from at most 20,000 rows."""
    thin = -(-sum(len(run.measured) for run in runs) // _NOISE_ROWS)
    columns = [(run.measured, *run.blend(weights), run.drive) for run in runs]
    tables = [np.concatenate([part[::thin] for part in some]) for some in zip(*columns, strict=True)]
    return fit_noise(Runs(*tables, groups=group_rows([len(run.measured[::thin]) for run in runs])))


def learn_paths(model: FittedBlend, runs: list[LeftOut]) -> PathLaw:
    """How the errors of the blended runs last; there are no samples that they could follow."""
    tables = []
    for run in runs:
        none = np.zeros_like(run.measured)
        tables.append(Scored(model.measure(run).scores(run.measured), none[:, None], none))
    return fit_paths(tables, learned=True)
