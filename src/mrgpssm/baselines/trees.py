"""Gradient-boosted trees on lag features of the inputs at many time scales: a strong baseline on long data."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mrgpssm.baselines.bands import Calibration, QuantileBands, calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Report
from mrgpssm.blend.forest import need_sklearn
from mrgpssm.data.ranges import Recording, RowFold, RowRange, folds, whole
from mrgpssm.prediction.forecast import LEVELS
from mrgpssm.prediction.metrics import pinball_terms
from mrgpssm.training.linear.lags import FEW_ROWS, Spans, lag_spans, shorter, span_means
from mrgpssm.training.linear.regression import Linear, Normal

_RIDGE = 1e-4


@dataclass(frozen=True)
class TreeSettings:
    """One candidate: number of lag spans, size of the trees, and whether the trees correct a ridge regression.

    `bands` says how bands are made: a booster per level, or quantiles of the left-out residuals of the mean.
    """

    spans: int
    leaves: int
    rows_per_leaf: int
    linear: bool
    iterations: int = 0
    bands: str = "boosted"


@dataclass(frozen=True)
class Booster:
    """Trees for the mean or one quantile of one output, on top of a linear regression, which may be zero."""

    trees: Any
    linear: Linear

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return self.trees.predict(features) + self.linear(features)


@dataclass(frozen=True)
class OutputTrees:
    """The predictor of one output: settings, mean, one booster per level, and the calibration of the levels."""

    settings: TreeSettings
    mean: Booster
    levels: list[Booster]
    calibration: Calibration

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean (T, 1), and quantiles (L, T, 1) before calibration."""
        mean = self.mean(features)[:, None]
        return mean, _find_levels(self.levels, features) if self.levels else normal_quantiles(mean)


@dataclass(eq=False)
class BoostedTrees(AbstractBaseline):
    """Histogram gradient boosting (scikit-learn): squared error for the mean, one quantile loss per level for bands.

    Features are means of the inputs over spans of lags that double in length, up to `reach` rows back or an eighth of
    the shortest sequence (`lag_spans`). Candidates (fewer lags, other tree sizes, trees on top of a ridge regression)
    and the number of iterations are chosen by leaving out training sequences; the quantiles are calibrated on the same
    left-out ones. Quantiles, and all candidates, learn from about `rows` rows, evenly thinned; the mean from all.
    """

    title = "boosted trees"

    reach: int = 1024
    learning_rate: float = 0.06
    iterations: int = 400
    quantile_iterations: int = 150
    rows: int = 25_000
    fold_count: int = 3
    seed: int = 0

    def learn(self, recordings: list[Recording], report: Report) -> None:
        need_sklearn()
        lengths, inputs = [len(r) for r in recordings], recordings[0].inputs.shape[1]
        self.spans_ = lag_spans(lengths, self.reach)
        features = [span_means(r.inputs, self.spans_) for r in recordings]
        split, count = folds(lengths, self.fold_count), recordings[0].outputs.shape[1]
        self.outputs_ = []
        with _limit_threads(sum(lengths)):
            for column in range(count):
                report(f"output {column + 1} of {count}")
                table = FeatureTable(features, [r.outputs[:, column] for r in recordings], inputs)
                self.outputs_.append(self._learn_output(table, split))
        self.chosen_ = [asdict(o.settings) for o in self.outputs_]

    def predict(self, inputs: np.ndarray, warmup: Recording) -> QuantileBands:
        features = span_means(np.concatenate([warmup.inputs, inputs]), self.spans_)[len(warmup) :]
        with _limit_threads(len(inputs)):
            found = [o.predict(features[:, : o.settings.spans * inputs.shape[1]]) for o in self.outputs_]
        mean, raw = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
        return Calibration.join(o.calibration for o in self.outputs_).apply(mean, raw)

    def _learn_output(self, table: "FeatureTable", split: list[RowFold]) -> OutputTrees:
        lengths = [len(target) for target in table.targets]
        thin = max(1, round(sum(lengths) / self.rows))
        tried = [self._try(table, split, candidate, thin) for candidate in candidates(self.spans_, sum(lengths))]
        best = min(tried, key=lambda pair: pair[0])[1]
        choices, measured = self._run_left_out(table, split, best, thin)
        fitted = {kind: calibrate(raw, measured) for kind, raw in choices.items()}
        losses = {}
        for kind, raw in choices.items():
            values = fitted[kind].apply(measured, raw).values
            losses[kind] = float(np.mean(pinball_terms(measured, values, np.array(LEVELS))))
        kind = min(losses, key=losses.__getitem__)
        mean = self._boost_mean(*table.rows(whole(lengths), best.spans, 1), best)
        levels = self._boost_levels(*table.rows(whole(lengths), best.spans, thin), best) if kind == "boosted" else []
        return OutputTrees(replace(best, bands=kind), mean, levels, fitted[kind])

    def _run_left_out(
        self, table: "FeatureTable", split: list[RowFold], settings: TreeSettings, thin: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Raw quantiles (L, N, 1) of left-out rows, from boosters and from the mean, and the measured values (N, 1)."""
        boosted, mean, measured = [], [], []
        for fold in split:
            held, target = table.rows(fold.test, settings.spans, thin)
            rows = table.rows(fold.train, settings.spans, thin)
            boosted.append(_find_levels(self._boost_levels(*rows, settings), held))
            mean.append(self._boost_mean(*rows, settings)(held))
            measured.append(target)
        residual = normal_quantiles(np.concatenate(mean)[:, None])
        return {"boosted": np.concatenate(boosted, axis=1), "residual": residual}, np.concatenate(measured)[:, None]

    def _try(
        self, table: "FeatureTable", split: list[RowFold], candidate: TreeSettings, thin: int
    ) -> tuple[float, TreeSettings]:
        """The error of a candidate on left-out rows, at its best number of iterations (every tenth is tried)."""
        total, count = np.zeros(self.iterations), 0
        for fold in split:
            x, y = table.rows(fold.train, candidate.spans, thin)
            held, target = table.rows(fold.test, candidate.spans, thin)
            booster = self._boost_mean(x, y, replace(candidate, iterations=self.iterations))
            base = target - booster.linear(held)
            total += [np.sum((base - values) ** 2) for values in booster.trees.staged_predict(held)]
            count += len(target)
        looked = np.arange(9, self.iterations, 10) if self.iterations >= 10 else np.array([self.iterations - 1])
        at = int(looked[np.argmin(total[looked])])
        return float(total[at] / count), replace(candidate, iterations=at + 1)

    def _boost_mean(self, x: np.ndarray, y: np.ndarray, settings: TreeSettings) -> Booster:
        options = {"loss": "squared_error", "learning_rate": self.learning_rate, "max_iter": settings.iterations}
        return _boost(x, y, settings, options | {"random_state": self.seed})

    def _boost_levels(self, x: np.ndarray, y: np.ndarray, settings: TreeSettings) -> list[Booster]:
        options = {"loss": "quantile", "learning_rate": 0.1, "max_iter": self.quantile_iterations}
        options |= {"random_state": self.seed}
        return [_boost(x, y, settings, options | {"quantile": level}) for level in LEVELS]


@dataclass(frozen=True)
class FeatureTable:
    """Features and one output of every training sequence."""

    features: list[np.ndarray]
    targets: list[np.ndarray]
    inputs: int

    def rows(self, pieces: Iterable[RowRange], spans: int, thin: int) -> tuple[np.ndarray, np.ndarray]:
        """Every `thin`-th measured row of the row ranges, with the first `spans` spans of lags."""
        columns = spans * self.inputs
        x = np.concatenate([self.features[p.index][p.rows, :columns][::thin] for p in pieces])
        y = np.concatenate([self.targets[p.index][p.rows][::thin] for p in pieces])
        seen = np.isfinite(y)
        return x[seen], y[seen]


def candidates(spans: Spans, rows: int) -> list[TreeSettings]:
    """A small grid: all lags or the shorter ones, two sizes of trees, with and without a linear part."""
    every, few = len(spans), shorter(spans, 16)
    grid = [
        TreeSettings(every, 31, 20, False),
        TreeSettings(every, 12, 60, False),
        TreeSettings(few, 31, 20, False),
        TreeSettings(every, 12, 60, True),
    ]
    if rows < FEW_ROWS:
        grid += [TreeSettings(n, 6, 5, linear) for n in (every, shorter(spans, 4)) for linear in (False, True)]
    return grid


def _limit_threads(rows: int) -> threadpool_limits:
    """Use one thread for small tables, where several threads cost more than they gain."""
    return threadpool_limits(1 if rows < FEW_ROWS else None, user_api="openmp")


def _boost(x: np.ndarray, y: np.ndarray, settings: TreeSettings, options: dict[str, Any]) -> Booster:
    linear = Normal.of(x, y).solve(_RIDGE) if settings.linear else Linear(np.zeros(x.shape[1]), 0.0)
    trees = need_sklearn().HistGradientBoostingRegressor(
        max_leaf_nodes=settings.leaves, min_samples_leaf=settings.rows_per_leaf, early_stopping=False, **options
    )
    return Booster(trees.fit(x, y - linear(x)), linear)


def _find_levels(boosters: list[Booster], features: np.ndarray) -> np.ndarray:
    """(L, T, 1) raw quantiles."""
    return np.stack([booster(features) for booster in boosters])[..., None]
