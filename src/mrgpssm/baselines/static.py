"""Polynomial regression on the current inputs: a model without memory."""

from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from mrgpssm.baselines.bands import calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Recording, Report
from mrgpssm.baselines.folds import RowFold, RowRange, folds
from mrgpssm.baselines.ridge import Linear, Normal, total
from mrgpssm.baselines.scoring import Predictive

_MOST_TERMS = 400


@dataclass(frozen=True)
class StaticSettings:
    """Degree of the polynomial, and the ridge's strength."""

    degree: int
    ridge: float


class StaticRegression(AbstractBaseline):
    """y_t = w^T φ(u_t) + c, where φ are all monomials up to a degree.

    Degree and ridge are chosen by leaving out sequences. Inputs are clipped to the middle 99 % of the training inputs,
    because polynomials diverge outside of them. Bands are the quantiles of the residuals on left-out sequences.
    """

    title = "static regression"

    def __init__(
        self,
        degrees: tuple[int, ...] = (1, 2, 3, 4),
        ridges: tuple[float, ...] = (1e-6, 1e-4, 1e-2, 1.0),
        fold_count: int = 5,
    ):
        self.degrees = degrees
        self.ridges = ridges
        self.fold_count = fold_count

    def learn(self, recordings: list[Recording], report: Report) -> None:
        split = folds([len(r) for r in recordings], self.fold_count)
        outputs = recordings[0].outputs.shape[1]
        self.range_ = np.quantile(np.concatenate([r.inputs for r in recordings]), (0.005, 0.995), axis=0)
        best: list[tuple[float, StaticSettings | None, np.ndarray]] = [(np.inf, None, np.empty(0))] * outputs
        for degree in self.degrees:
            features = [monomials(np.clip(r.inputs, *self.range_), degree) for r in recordings]
            if degree > 1 and features[0].shape[1] > _MOST_TERMS:
                continue
            report(f"degree {degree}")
            for column in range(outputs):
                targets = [r.outputs[:, column] for r in recordings]
                sums = _sums(features, targets, split)
                for ridge in self.ridges:
                    held = _held_out(features, sums, split, ridge)
                    error = float(np.nanmean((held - _order(targets, split)) ** 2))
                    if error < best[column][0]:
                        best[column] = (error, StaticSettings(degree, ridge), held)
        self.settings_ = [settings for _, settings, _ in best if settings is not None]
        self.models_ = [self._fit(recordings, k, s) for k, s in enumerate(self.settings_)]
        measured = np.column_stack([_order([r.outputs[:, k] for r in recordings], split) for k in range(outputs)])
        self.calibration_ = calibrate(normal_quantiles(np.column_stack([held for *_, held in best])), measured)

    def predict(self, inputs: np.ndarray, warmup: Recording | None) -> Predictive:
        del warmup  # there is no state
        held = np.clip(inputs, *self.range_)
        pairs = zip(self.models_, self.settings_, strict=True)
        mean = np.column_stack([model(monomials(held, s.degree)) for model, s in pairs])
        return Predictive(mean, self.calibration_.apply(normal_quantiles(mean)))

    def _fit(self, recordings: list[Recording], column: int, settings: StaticSettings) -> Linear:
        features = [monomials(np.clip(r.inputs, *self.range_), settings.degree) for r in recordings]
        pairs = zip(features, recordings, strict=True)
        return total([Normal.of(x, r.outputs[:, column]) for x, r in pairs]).solve(settings.ridge)

    def describe_choice(self) -> dict[str, Any]:
        return {name: asdict(s) for name, s in zip(self.output_names_, self.settings_, strict=True)}


def monomials(inputs: np.ndarray, degree: int) -> np.ndarray:
    """(T, terms) all products of one to `degree` inputs."""
    columns = range(inputs.shape[1])
    picks = [pick for d in range(1, degree + 1) for pick in combinations_with_replacement(columns, d)]
    return np.column_stack([np.prod(inputs[:, pick], axis=1) for pick in picks])


def _sums(features: list[np.ndarray], targets: list[np.ndarray], split: list[RowFold]) -> dict[RowRange, Normal]:
    """Sums of the normal equations for every row range."""
    pieces = [p for fold in split for p in fold.test]
    return {p: Normal.of(features[p.index][p.rows], targets[p.index][p.rows]) for p in pieces}


def _held_out(
    features: list[np.ndarray], sums: dict[RowRange, Normal], split: list[RowFold], ridge: float
) -> np.ndarray:
    """Predictions for every row by the model that did not see it, fold after fold."""
    found = []
    for fold in split:
        model = total([sums[p] for p in fold.train]).solve(ridge)
        found += [model(features[p.index][p.rows]) for p in fold.test]
    return np.concatenate(found)


def _order(targets: list[np.ndarray], split: list[RowFold]) -> np.ndarray:
    """Measured values in the order of `_held_out`."""
    return np.concatenate([targets[p.index][p.rows] for fold in split for p in fold.test])
