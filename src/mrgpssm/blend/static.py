"""Simulators without a state: outputs as a function of the inputs, their averages and their delayed copies.

Like every output here, that of row t is from before input t acts, unless there is feed-through: it is a function of
what drove the row before.
"""

import abc
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from mrgpssm.advice.automatic import choose_drive
from mrgpssm.arrays.drive import Drive
from mrgpssm.blend.forest import Forest, fit_forest
from mrgpssm.blend.process import Process, fit_process
from mrgpssm.data import (
    Data,
    Inputs,
    Scaling,
    Sequence,
    Warmup,
    apply_drive,
    as_inputs,
    as_list,
    as_warmup,
    check_alike,
    fill,
    follow_drive,
    samples_between,
)
from mrgpssm.estimator.params import get_params, set_params
from mrgpssm.prediction.forecast import LEVELS, Forecast, check_simulation, make_forecast, report_times
from mrgpssm.prediction.scores import score_terms, tabulate_scores
from mrgpssm.runtime.output import Measurements
from mrgpssm.spec import MOST_SEED, Structure, Whole

_SAMPLES, _COPIES = 100, 2  # of the mean: a mixture of measurements has at least two
_LEAST_NOISE = 1e-3


@dataclass(frozen=True)
class FittedStatic:
    """What a static simulator has learned: a `function` of the scaled drive (T, D_u), and the way to the data's units.

    `noise_sd` (D_y,) are the deviations of the training data from it, scaled.
    """

    function: Process | Forest
    drive: Drive
    scaling: Scaling
    noise_sd: np.ndarray
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float

    def measure(
        self, sequence: Sequence, warmup: Sequence | None = None, samples: int = _COPIES, stride: int = 1
    ) -> Measurements:
        """Measurements at every `stride`-th row, scaled."""
        before = drive_before(self.drive, self.scaling, sequence, warmup)[::stride]
        mean = np.repeat(self.function(before)[None], samples, axis=0)
        noise = np.repeat(self.noise_sd[None], samples, axis=0)
        return Measurements(mean, noise, np.broadcast_to(self.noise_sd, mean.shape[1:]))


class AbstractStatic(abc.ABC):
    """A simulator that learns a function of what drove the row before, with noise of one width."""

    filters: SequenceOf[float] | None
    delays: SequenceOf[int] | None
    feedthrough: bool | None

    @abc.abstractmethod
    def learn(self, drive: np.ndarray, outputs: np.ndarray) -> Process | Forest:
        """The function of every output (T, D_y), NaN where missing, given the drive (T, D_u), both scaled."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as given."""
        return get_params(self, deep)

    def set_params(self, **params: Any) -> Self:
        """Change arguments by name."""
        set_params(self, params)
        return self

    def choose(self, training: list[Sequence]) -> Drive:
        """What it sees of the inputs: what is None is chosen from the data, as `MRGPSSM()` chooses it."""
        names = [field.name for field in fields(Drive)]
        given = Structure(**{name: getattr(self, name) for name in names})
        known = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
        return given.drive if len(known) == len(names) else replace(choose_drive(training), **known)

    def settle(self, training: list[Sequence]) -> None:
        """Choose what is None, and keep to it."""
        drive = self.choose(training)
        self.filters, self.delays, self.feedthrough = drive.filters, drive.delays, drive.feedthrough

    def fit(
        self, sequences: Data, *, inputs: SequenceOf[str] = (), outputs: SequenceOf[str] = (), dt: float | None = None
    ) -> Self:
        """Learn from one or many recordings.

        Args:
            sequences: Recordings with the same columns and the same dt: sequences, or tables with `inputs` and
                `outputs`.
            inputs: Names of the input columns of tables.
            outputs: Names of the output columns of tables.
            dt: Seconds between the rows of tables.

        Returns:
            The simulator itself.

        Raises:
            ConfigError: An argument makes no sense, or a package is missing.
            DataError: The sequences cannot be used as given.
        """
        training = as_list(sequences, inputs, outputs, dt)
        check_alike(training)
        drive, first = self.choose(training), training[0]
        scaling = Scaling.fit(apply_drive(drive, s) for s in training)
        before = np.concatenate([drive_before(drive, scaling, s) for s in training])
        measured = np.concatenate([scaling.outputs(s.outputs) for s in training])
        function = self.learn(before, measured)
        noise_sd = np.maximum(np.nanstd(measured - function(before), axis=0), _LEAST_NOISE)
        names = (first.input_names, first.output_names, dict(first.units), first.dt)
        self.fitted_ = FittedStatic(function, drive, scaling, noise_sd, *names)
        return self

    def simulate(
        self,
        inputs: Inputs,
        warmup: Warmup | None = None,
        stride: int = 1,
        quantiles: SequenceOf[float] = LEVELS,
    ) -> Forecast:
        """Outputs at every `stride`-th row of the inputs (T, D_u), as `MRGPSSM.simulate` gives them.

        Of `warmup`, the stretch just before, the inputs count alone. The bands are those of the training data, so that
        they are too narrow for data that differ.
        """
        model = self._check_fitted(stride, quantiles)
        names = (model.input_names, model.output_names, model.dt)
        sequence = as_inputs(inputs, *names)
        found = model.measure(sequence, None if warmup is None else as_warmup(warmup, *names), stride=stride)
        own, time = {type(self).__name__.lower(): found.mean}, report_times(sequence)[::stride]
        return make_forecast(time, found, own, model.scaling, (model.output_names, model.units), quantiles)

    def score(self, sequences: Data, seed: int = 0) -> pd.DataFrame:
        """Run over every sequence from its first row; one row per output, with the columns of `MRGPSSM.score`."""
        model = self._check_fitted(1, LEVELS)
        matched = as_list(sequences, model.input_names, model.output_names, model.dt)
        tables = []
        for s in matched:
            found, measured = model.measure(s, samples=_SAMPLES), model.scaling.outputs(s.outputs)
            tables.append(score_terms(found, measured, np.arange(len(s)), seed, model.scaling))
        return tabulate_scores(tables, model.output_names)

    def _check_fitted(self, stride: int, quantiles: SequenceOf[float]) -> FittedStatic:
        check_simulation(hasattr(self, "fitted_"), _SAMPLES, stride, quantiles)
        return self.fitted_


@dataclass(eq=False)
class StaticGP(AbstractStatic):
    """A Gaussian process of the inputs, their averages and delayed copies: a rough function on top of a line.

    Args:
        filters: Time constants, in steps of dt, of the averages; None is chosen as `MRGPSSM()` chooses it.
        delays: Lengths, in steps of dt, of the delays; None is chosen likewise.
        feedthrough: Inputs act on the outputs of their own row, too; None is chosen likewise.
        inducing: Rows that the mean is projected on, at most.
        seed: Seed of which rows these are.
    """

    filters: SequenceOf[float] | None = None
    delays: SequenceOf[int] | None = None
    feedthrough: bool | None = None
    inducing: int = 2000
    seed: int = 0

    def learn(self, drive: np.ndarray, outputs: np.ndarray) -> Process:
        inducing = Whole(1, 20_000).check("inducing", self.inducing)
        return fit_process(drive, outputs, inducing, Whole(0, MOST_SEED).check("seed", self.seed))


@dataclass(eq=False)
class StaticTrees(AbstractStatic):
    """Boosted trees of the inputs, their averages and delayed copies: they see jumps (extra `baselines`).

    Args:
        filters: Time constants, in steps of dt, of the averages; None is chosen as `MRGPSSM()` chooses it.
        delays: Lengths, in steps of dt, of the delays; None is chosen likewise.
        feedthrough: Inputs act on the outputs of their own row, too; None is chosen likewise.
        rounds: Trees of every output.
        seed: Seed of the rows that each tree sees.
    """

    filters: SequenceOf[float] | None = None
    delays: SequenceOf[int] | None = None
    feedthrough: bool | None = None
    rounds: int = 250
    seed: int = 0

    def learn(self, drive: np.ndarray, outputs: np.ndarray) -> Forest:
        rounds = Whole(1, 2_000).check("rounds", self.rounds)
        return fit_forest(drive, outputs, rounds, Whole(0, MOST_SEED).check("seed", self.seed))


def drive_before(drive: Drive, scaling: Scaling, sequence: Sequence, warmup: Sequence | None = None) -> np.ndarray:
    """What drove the step to every row, (T, D_u), scaled: over a gap averages go on, with the input held.

    Before the first row all inputs are those of the first, or those that the warm-up ends with. With feed-through it is
    what is known at the row itself.
    """
    filled, memory, last = fill(sequence), None, None
    if warmup is not None:
        past, memory = follow_drive(drive, fill(warmup, samples_between(warmup, sequence)))
        last = past[-1:]
    values = follow_drive(drive, filled, memory)[0]
    before = values if drive.feedthrough else np.concatenate([values[:1] if last is None else last, values[:-1]])
    return scaling.inputs(before[filled.rows])
