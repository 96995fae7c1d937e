"""What ARX, subspace and output-error models have in common: orders are chosen by the free run over left-out data."""

import abc
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from mrgpssm.baselines.bands import QuantileBands, calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Report
from mrgpssm.data.ranges import Recording, RowFold, folds, judge, take_tests
from mrgpssm.errors import FitError
from mrgpssm.training.linear.trials import LinearModel, Trial

Rivals = tuple[list[Trial], Callable[[Any], LinearModel | None]]


class AbstractLinear(AbstractBaseline):
    """A linear model per output: of the candidates that all data support, that of the lowest error on left-out data.

    The error is that of free runs (`judge`); bands are the quantiles of their residuals.
    """

    failure: ClassVar[str]  # what is said of an output without a usable candidate
    joint: ClassVar[bool] = False  # whether each model has all outputs, of which one is used
    threads: ClassVar[int | None] = None  # most threads of BLAS; small matrices would make threads wait for each other
    fold_count: int
    models_: list[Any]

    @abc.abstractmethod
    def compete(self, recordings: list[Recording], split: list[RowFold], report: Report) -> Iterator[Rivals]:
        """The candidates of every output in turn, and what fits one to all data; None where they do not support it."""

    def learn(self, recordings: list[Recording], report: Report) -> None:
        split = folds([len(r) for r in recordings], self.fold_count)
        measured = take_tests([r.outputs for r in recordings], split)
        self.models_, self.chosen_, held = [], [], []
        with threadpool_limits(self.threads, user_api="blas"):
            for column, (trials, fit) in enumerate(self.compete(recordings, split, report)):
                errors = [judge(t.held[:, None], measured[:, [column]], split).item() for t in trials]
                ranked = (trials[i] for i in np.argsort(errors, kind="stable") if np.isfinite(errors[i]))
                usable = ((t, model) for t in ranked if (model := fit(t.settings)) is not None)
                trial, model = next(usable, (None, None))
                if trial is None or model is None:
                    raise FitError(self.failure.format(output=column + 1))
                self.models_.append(model)
                self.chosen_.append(asdict(trial.settings) | {"largest_pole": model.largest_pole()})
                held.append(trial.held)
        self.calibration_ = calibrate(normal_quantiles(np.column_stack(held)), measured)

    def predict(self, inputs: np.ndarray, warmup: Recording) -> QuantileBands:
        if self.joint:
            columns = [model.run(inputs, warmup)[:, [number]] for number, model in enumerate(self.models_)]
        else:
            columns = [model.run(inputs, warmup.column(number)) for number, model in enumerate(self.models_)]
        return self.calibration_.apply(np.hstack(columns))
