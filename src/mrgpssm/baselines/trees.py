"""Gradient-boosted trees on lag features of the inputs at many time scales: a strong baseline on long data."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mrgpssm.baselines.bands import Calibration, calibrate, normal_quantiles
from mrgpssm.baselines.base import AbstractBaseline, Recording, Report
from mrgpssm.baselines.folds import RowFold, RowRange, folds
from mrgpssm.baselines.lags import Spans, lag_spans, shorter, span_means
from mrgpssm.baselines.ridge import Linear, fit_ridge
from mrgpssm.baselines.scoring import Predictive
from mrgpssm.blend.forest import need_sklearn
from mrgpssm.prediction.forecast import LEVELS

_RIDGE = 1e-4
_FEW_ROWS = 5000


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
    """Trees for the mean or one quantile of one output, optionally on top of a linear regression."""

    trees: Any
    linear: Linear | None

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return self.trees.predict(features) + (0.0 if self.linear is None else self.linear(features))


@dataclass(frozen=True)
class OutputTrees:
    """The predictor of one output: settings, mean, one booster per level, and the calibration of the levels."""

    settings: TreeSettings
    mean: Booster
    levels: list[Booster]
    calibration: Calibration

    def raw(self, features: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """(L, T, 1) quantiles before calibration."""
        return _levels(self.levels, features)[..., None] if self.levels else normal_quantiles(mean)


class BoostedTrees(AbstractBaseline):
    """Histogram gradient boosting (scikit-learn): squared error for the mean, one quantile loss per level for bands.

    Features are means of the inputs over spans of lags that double in length, up to `reach` rows back or an eighth of
    the shortest sequence (`lag_spans`). Candidates (fewer lags, other tree sizes, trees on top of a ridge regression)
    and the number of iterations are chosen by leaving out training sequences; the quantiles are calibrated on the same
    left-out ones. Quantiles, and all candidates, learn from about `rows` rows, evenly thinned; the mean from all.
    """

    title = "boosted trees"

    def __init__(
        self,
        reach: int = 1024,
        learning_rate: float = 0.06,
        iterations: int = 400,
        quantile_iterations: int = 150,
        rows: int = 25_000,
        fold_count: int = 3,
        seed: int = 0,
    ):
        self.reach = reach
        self.learning_rate = learning_rate
        self.iterations = iterations
        self.quantile_iterations = quantile_iterations
        self.rows = rows
        self.fold_count = fold_count
        self.seed = seed

    def learn(self, recordings: list[Recording], report: Report) -> None:
        need_sklearn()
        lengths = [len(r) for r in recordings]
        self.spans_ = lag_spans(lengths, self.reach)
        features = [span_means(r.inputs, self.spans_) for r in recordings]
        split = folds(lengths, self.fold_count)
        self.outputs_ = []
        for column in range(recordings[0].outputs.shape[1]):
            report(f"output {column + 1} of {recordings[0].outputs.shape[1]}")
            table = FeatureTable(features, [r.outputs[:, column] for r in recordings], recordings[0].inputs.shape[1])
            with _threads(sum(lengths)):
                self.outputs_.append(self._learn_output(table, split))

    def predict(self, inputs: np.ndarray, warmup: Recording | None) -> Predictive:
        past = inputs[:0] if warmup is None else warmup.inputs
        features = span_means(np.concatenate([past, inputs]), self.spans_)[len(past) :]
        columns = [features[:, : o.settings.spans * inputs.shape[1]] for o in self.outputs_]
        pairs = list(zip(self.outputs_, columns, strict=True))
        with _threads(len(inputs)):
            mean = np.column_stack([o.mean(x) for o, x in pairs])
            raw = np.concatenate([o.raw(x, mean[:, [k]]) for k, (o, x) in enumerate(pairs)], axis=-1)
        return Predictive(mean, _join([o.calibration for o in self.outputs_]).apply(raw))

    def describe_choice(self) -> dict[str, Any]:
        return {name: asdict(o.settings) for name, o in zip(self.output_names_, self.outputs_, strict=True)}

    def _learn_output(self, table: "FeatureTable", split: list[RowFold]) -> OutputTrees:
        total = sum(map(len, table.targets))
        thin = max(1, round(total / self.rows))
        tried = [self._try(table, split, candidate, thin) for candidate in candidates(self.spans_, total)]
        best = min(tried, key=lambda pair: pair[0])[1]
        boosted, residual, measured = self._left_out(table, split, best, thin)
        choices = {"boosted": boosted, "residual": residual}
        fitted = {kind: calibrate(raw, measured) for kind, raw in choices.items()}
        kind = min(choices, key=lambda k: pinball(fitted[k].apply(choices[k]).values, measured))
        whole = [RowRange(i, 0, len(t)) for i, t in enumerate(table.targets)]
        mean = self._mean(*table.rows(whole, best.spans, 1), best)
        levels = self._quantiles(*table.rows(whole, best.spans, thin), best) if kind == "boosted" else []
        return OutputTrees(replace(best, bands=kind), mean, levels, fitted[kind])

    def _left_out(
        self, table: "FeatureTable", split: list[RowFold], settings: TreeSettings, thin: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Raw quantiles (L, N, 1) of left-out rows, from boosters and from the mean, and the measured values (N, 1)."""
        boosted, mean, measured = [], [], []
        for fold in split:
            held, target = table.rows(fold.test, settings.spans, thin)
            rows = table.rows(fold.train, settings.spans, thin)
            boosted.append(_levels(self._quantiles(*rows, settings), held))
            mean.append(self._mean(*rows, settings)(held))
            measured.append(target)
        raw = np.concatenate(boosted, axis=1)[..., None]
        return raw, normal_quantiles(np.concatenate(mean)[:, None]), np.concatenate(measured)[:, None]

    def _try(
        self, table: "FeatureTable", split: list[RowFold], candidate: TreeSettings, thin: int
    ) -> tuple[float, TreeSettings]:
        """The error of a candidate on left-out rows, at its best number of iterations (every tenth is tried)."""
        total, count = np.zeros(self.iterations), 0
        for fold in split:
            x, y = table.rows(fold.train, candidate.spans, thin)
            held, target = table.rows(fold.test, candidate.spans, thin)
            booster = self._mean(x, y, candidate, self.iterations)
            base = target - (0.0 if booster.linear is None else booster.linear(held))
            total += [np.sum((base - values) ** 2) for values in booster.trees.staged_predict(held)]
            count += len(target)
        looked = np.arange(9, self.iterations, 10) if self.iterations >= 10 else np.array([self.iterations - 1])
        at = int(looked[np.argmin(total[looked])])
        return float(total[at] / count), replace(candidate, iterations=at + 1)

    def _mean(self, x: np.ndarray, y: np.ndarray, settings: TreeSettings, iterations: int | None = None) -> Booster:
        rounds = settings.iterations if iterations is None else iterations
        return _boost(x, y, settings, iterations=rounds, rate=self.learning_rate, seed=self.seed)

    def _quantiles(self, x: np.ndarray, y: np.ndarray, settings: TreeSettings) -> list[Booster]:
        options = {"iterations": self.quantile_iterations, "rate": 0.1, "seed": self.seed}
        return [_boost(x, y, settings, level=level, **options) for level in LEVELS]


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
    if rows < _FEW_ROWS:
        grid += [TreeSettings(n, 6, 5, linear) for n in (every, shorter(spans, 4)) for linear in (False, True)]
    return grid


def pinball(quantiles: np.ndarray, measured: np.ndarray) -> float:
    """Mean pinball loss of quantiles (L, N, 1) at `LEVELS`."""
    levels = np.array(LEVELS)[:, None, None]
    excess = quantiles - measured
    return float(np.mean(((excess > 0) - levels) * excess))


def _threads(rows: int) -> threadpool_limits:
    """Use one thread for small tables, where several threads cost more than they gain."""
    return threadpool_limits(1 if rows < _FEW_ROWS else None, user_api="openmp")


def _boost(
    x: np.ndarray, y: np.ndarray, settings: TreeSettings, *, iterations: int, rate: float, seed: int, level=None
) -> Booster:
    linear = fit_ridge(x, y, _RIDGE) if settings.linear else None
    trees = need_sklearn().HistGradientBoostingRegressor(
        loss="squared_error" if level is None else "quantile",
        quantile=level,
        learning_rate=rate,
        max_iter=iterations,
        max_leaf_nodes=settings.leaves,
        min_samples_leaf=settings.rows_per_leaf,
        early_stopping=False,
        random_state=seed,
    )
    return Booster(trees.fit(x, y if linear is None else y - linear(x)), linear)


def _levels(boosters: list[Booster], features: np.ndarray) -> np.ndarray:
    """(L, T) raw quantiles."""
    return np.stack([booster(features) for booster in boosters])


def _join(parts: list[Calibration]) -> Calibration:
    """Calibrations of single outputs, concatenated."""
    return Calibration(*(np.concatenate([getattr(p, k) for p in parts], axis=-1) for k in ("shift", "scales", "tails")))
