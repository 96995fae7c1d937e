"""Polynomial regression on the current inputs: a model without memory."""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from mrgpssm.baselines.bands import QuantileBands, calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Report
from mrgpssm.data.ranges import Recording, RowFold, RowRange, folds
from mrgpssm.training.linear.regression import Normal, total

_MOST_TERMS = 400


@dataclass(eq=False)
class StaticRegression(AbstractBaseline):
    """y_t = w^T φ(u_t) + c, where φ are all monomials up to a degree.

    Degree and ridge are chosen by leaving out sequences. Inputs are clipped to the middle 99 % of the training inputs,
    because polynomials diverge outside of them. Bands are the quantiles of the residuals on left-out sequences.
    """

    title = "static regression"

    degrees: tuple[int, ...] = (1, 2, 3, 4)
    ridges: tuple[float, ...] = (1e-6, 1e-4, 1e-2, 1.0)
    fold_count: int = 5

    def learn(self, recordings: list[Recording], report: Report) -> None:
        split = folds([len(r) for r in recordings], self.fold_count)
        pieces = [p for fold in split for p in fold.test]
        measured = np.concatenate([recordings[p.index].outputs[p.rows] for p in pieces])
        self.range_ = np.quantile(np.concatenate([r.inputs for r in recordings]), (0.005, 0.995), axis=0)
        tried = [[] for _ in measured.T]
        for degree in self.degrees:
            features = [self._find_features(r.inputs, degree) for r in recordings]
            if degree > 1 and features[0].shape[1] > _MOST_TERMS:
                continue
            report(f"degree {degree}")
            tables = {p: (features[p.index][p.rows], recordings[p.index].outputs[p.rows]) for p in pieces}
            for column, trials in enumerate(tried):
                sums = {p: Normal.of(x, y[:, column]) for p, (x, y) in tables.items()}
                for ridge in self.ridges:
                    held = _run_left_out(features, sums, split, ridge)
                    error = float(np.nanmean((held - measured[:, column]) ** 2))
                    model = total(list(sums.values())).solve(ridge)
                    trials.append((error, {"degree": degree, "ridge": ridge}, model, held))
        best = [min(trials, key=lambda trial: trial[0]) for trials in tried]
        _, chosen, self.models_, held = zip(*best, strict=True)
        self.chosen_ = list(chosen)
        self.calibration_ = calibrate(normal_quantiles(np.column_stack(held)), measured)

    def predict(self, inputs: np.ndarray, warmup: Recording) -> QuantileBands:
        del warmup  # there is no state
        pairs = zip(self.models_, self.chosen_, strict=True)
        columns = [model(self._find_features(inputs, chosen["degree"])) for model, chosen in pairs]
        return self.calibration_.apply(np.column_stack(columns))

    def _find_features(self, inputs: np.ndarray, degree: int) -> np.ndarray:
        """(T, terms) all products of one to `degree` clipped inputs."""
        held, columns = np.clip(inputs, *self.range_), range(inputs.shape[1])
        picks = [pick for d in range(1, degree + 1) for pick in combinations_with_replacement(columns, d)]
        return np.column_stack([np.prod(held[:, pick], axis=1) for pick in picks])


def _run_left_out(
    features: list[np.ndarray], sums: dict[RowRange, Normal], split: list[RowFold], ridge: float
) -> np.ndarray:
    """Predictions for every row by the model that did not see it, fold after fold."""
    found = []
    for fold in split:
        model = total([sums[p] for p in fold.train]).solve(ridge)
        found += [model(features[p.index][p.rows]) for p in fold.test]
    return np.concatenate(found)
