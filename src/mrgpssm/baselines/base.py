"""The common part of all baselines: `fit`, `simulate` and `score` around the two methods `learn` and `predict`."""

import abc
import sys
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from mrgpssm.baselines.bands import QuantileBands
from mrgpssm.data import Data, Inputs, Scaling, Sequence, Warmup, as_inputs, as_list, as_warmup, check_alike
from mrgpssm.data.ranges import Recording
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.estimator.params import get_params
from mrgpssm.prediction.forecast import LEVELS, Forecast, make_forecast, report_times
from mrgpssm.prediction.scores import list_terms, tabulate_scores

Report = Callable[[str], None]
_LINE_SECONDS = 10.0


class AbstractBaseline(abc.ABC):
    """A simulator learned from recordings, with the methods `fit`, `simulate` and `score` of `MRGPSSM`.

    A baseline makes every choice on its training sequences: parts of them are left out in turn. Its bands are
    calibrated on the same left-out parts.
    """

    title: ClassVar[str]
    chosen_: list[dict[str, Any]]

    @abc.abstractmethod
    def learn(self, recordings: list[Recording], report: Report) -> None:
        """Choose the configuration of every output (`chosen_`) and fit the model on these recordings alone."""

    @abc.abstractmethod
    def predict(self, inputs: np.ndarray, warmup: Recording) -> QuantileBands:
        """Free run over scaled inputs (T, D_u), after a warm-up that ends just before them and may be empty."""

    def describe_choice(self) -> dict[str, Any]:
        """The configuration that `learn` chose for every output, as JSON values."""
        return dict(zip(self.output_names_, self.chosen_, strict=True))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as given."""
        return get_params(self, deep)

    def fit(
        self,
        sequences: Sequence | Iterable[Sequence],
        validation: Data | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit to one or many sequences. `validation` is only scored; the result is `validation_scores_`."""
        recordings = self.prepare(sequences)
        report = reporter(self.title, progress)
        self.learn(recordings, report)
        report("done")
        self.validation_scores_ = None if validation is None else self.score(validation)
        return self

    def prepare(self, sequences: Sequence | Iterable[Sequence]) -> list[Recording]:
        """Check the training sequences, take names and scaling from them, and scale them."""
        training = as_list(sequences)
        check_alike(training)
        _check_even(training)
        self.input_names_, self.output_names_ = training[0].input_names, training[0].output_names
        self.dt_, self.units_ = training[0].dt, dict(training[0].units)
        self.scaling_ = Scaling.fit(training)
        return [self._scale(s) for s in training]

    def simulate(
        self,
        inputs: Inputs,
        warmup: Warmup | None = None,
        stride: int = 1,
        quantiles: SequenceOf[float] = LEVELS,
    ) -> Forecast:
        """Run freely over the inputs (T, D_u). `warmup` = (u, y) is the stretch just before them and sets the state.

        Measured outputs of a `Sequence` are not used.
        """
        names = self._find_names()
        if stride < 1 or not all(0 < q < 1 for q in quantiles):
            raise ConfigError(f"stride must be at least 1 and quantiles in (0, 1); got {stride}, {list(quantiles)}.")
        sequence = as_inputs(inputs, *names)
        _check_even([sequence])
        run, about = self._run(sequence, warmup).thin(stride), (self.output_names_, self.units_)
        when, parts = report_times(sequence)[::stride], {self.title: run.mean}
        return make_forecast(when, run, parts, self.scaling_, about, quantiles)

    def score(self, sequences: Data, warmup: Warmup | None = None) -> pd.DataFrame:
        """Score a free run over every sequence: one row per output, errors in the data's units, means per step.

        `nll` is of the density of the bands, `nll_gaussian` of N(mean, std²) with their standard deviation, and `crps`
        integrates the pinball loss of their quantiles. `warmup` = (u, y) is the stretch just before the sequence; it is
        allowed for a single sequence only.
        """
        found = as_list(sequences, *self._find_names())
        _check_even(found)
        if warmup is not None and len(found) != 1:
            raise ConfigError(f"A warm-up belongs to one sequence; got {len(found)}. Score them one by one.")
        tables = []
        for sequence in found:
            run, measured = self._run(sequence, warmup), self.scaling_.outputs(sequence.outputs)
            tables.append(list_terms(run, measured, run.crps(measured), self.scaling_))
        return tabulate_scores(tables, self.output_names_)

    def _run(self, sequence: Sequence, warmup: Warmup | None) -> QuantileBands:
        own = self._scale(sequence)
        past = own.rows(slice(0)) if warmup is None else self._scale(as_warmup(warmup, *self._find_names()))
        return self.predict(own.inputs, past)

    def _scale(self, sequence: Sequence) -> Recording:
        return Recording(self.scaling_.inputs(sequence.inputs), self.scaling_.outputs(sequence.outputs))

    def _find_names(self) -> tuple[tuple[str, ...], tuple[str, ...], float]:
        """Names of inputs and outputs and dt, where they are known."""
        if not hasattr(self, "scaling_"):
            raise ConfigError(f"This {type(self).__name__} is not fitted yet; call fit first.")
        return self.input_names_, self.output_names_, self.dt_


def _check_even(sequences: list[Sequence]) -> None:
    for sequence in sequences:
        if sequence.time is not None and not np.allclose(np.diff(sequence.clock()), 1.0, atol=0.05):
            raise DataError(f"{sequence.name}: baselines need even sampling; resample it, or split it at its gaps.")


def reporter(title: str, show: bool) -> Report:
    """A function that prints progress to standard error: one line that is overwritten, or one line every 10 s."""
    begun = last = time.monotonic()

    def report(message: str) -> None:
        nonlocal last
        text = f"{title}: {message}, {time.monotonic() - begun:.0f} s"
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="\n" if message == "done" else "", file=sys.stderr, flush=True)
        elif message == "done" or time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    return report if show else lambda _: None
