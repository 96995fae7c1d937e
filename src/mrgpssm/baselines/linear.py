"""What ARX, subspace and output-error models have in common: orders are chosen by the free run over left-out data."""

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from mrgpssm.baselines.bands import QuantileBands, calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Recording, Report
from mrgpssm.baselines.folds import RowFold, folds, judge, take_tests
from mrgpssm.errors import FitError


class LinearModel(Protocol):
    """A linear model of one output or several."""

    def run(self, inputs: np.ndarray, warmup: Recording) -> np.ndarray:
        """(T, D_y) free run over the inputs, after a warm-up that ends just before them and may be empty."""
        ...

    def largest_pole(self) -> float:
        """Largest modulus of a pole; below 1 the free run is stable."""
        ...


@dataclass(frozen=True)
class Trial:
    """One candidate for one output, and its free runs (N,) over all left-out rows."""

    settings: Any
    held: np.ndarray


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


def run_left_out(
    models: Iterable[LinearModel | None], recordings: list[Recording], split: list[RowFold]
) -> np.ndarray | None:
    """Free runs (N, D_y) of the model of every fold over what it left out; None where a fold has no model.

    Every left-out range is run after its own warm-up.
    """
    found = []
    for model, fold in zip(models, split, strict=True):
        if model is None:
            return None
        for p in fold.test:
            r = recordings[p.index]
            found.append(model.run(r.inputs[p.test_rows], r.rows(p.warm)))
    return np.concatenate(found)
