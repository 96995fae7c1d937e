"""A sktime forecaster: y are the outputs, X the inputs, and intervals are quantiles of the free run's samples.

The warm-up filter estimates the state at the end of the training series from its last rows. The forecast is a free run
from there. As everywhere in this package, X of a row acts from that row to the next.
"""

from typing import Any

import numpy as np
import pandas as pd

from mrgpssm.data import Sequence
from mrgpssm.errors import need
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.spec import arrange

_sktime: Any = need("sktime.forecasting.base", "MRGPSSMForecaster needs sktime", "interop")
_Base: Any = _sktime.BaseForecaster
_QUANTUM = 64


class MRGPSSMForecaster(_Base):
    """`resolutions` and `options` go to `MRGPSSM`; forecasts are `draws` trajectories after a warm-up of `warmup` rows.

    Series of several columns become one model per column, or one for all with `options={"joint": True}`.

    Examples
    --------
    >>> from mrgpssm.interop.forecaster import MRGPSSMForecaster
    >>> from sktime.datasets import load_longley
    >>> y, X = load_longley()
    >>> forecaster = MRGPSSMForecaster((1,), {"window": 5, "buffer": 1})  # doctest: +SKIP
    >>> forecaster.fit(y, X=X).predict_interval(fh=[1], X=X.iloc[-1:])  # doctest: +SKIP
    """

    _tags = {  # noqa: RUF012  # sktime reads the tags of the class
        "authors": ["mrgpssm developers"],
        "maintainers": ["mrgpssm developers"],
        "python_dependencies": ["mrgpssm"],
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:categorical_in_X": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": False,
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
    }

    def __init__(
        self,
        resolutions: tuple[int, ...] = (30, 5, 1),
        options: dict[str, Any] | None = None,
        warmup: int = 500,
        draws: int = 100,
        seed: int = 0,
    ):
        self.resolutions = resolutions
        self.options = options
        self.warmup = warmup
        self.draws = draws
        self.seed = seed
        super().__init__()

    def _fit(self, y: pd.DataFrame, X: pd.DataFrame | None, fh: Any) -> "MRGPSSMForecaster":
        del fh
        table = pd.DataFrame(index=y.index) if X is None else X
        self._driven = _varying(table)
        inputs, outputs = (_number_rows(frame) for frame in (table[self._driven], y))
        sequence = Sequence(inputs, outputs)
        model = MRGPSSM(self.resolutions, **arrange(**{"seed": self.seed, **(self.options or {})}))
        self.model_ = model.fit(sequence, progress=False)
        last = slice(max(len(y) - max(self.warmup, 2), 0), None)
        self._past = (sequence.inputs[last], sequence.outputs[last])
        return self

    def _predict(self, fh: Any, X: pd.DataFrame | None) -> pd.DataFrame:
        rows, index = self._horizon(fh)
        run = self._run(rows, X, ())
        return pd.DataFrame(np.asarray(run.mean, float)[rows], index=index, columns=self._get_columns(method="predict"))

    def _predict_quantiles(self, fh: Any, X: pd.DataFrame | None, alpha: list[float]) -> pd.DataFrame:
        rows, index = self._horizon(fh)
        run = self._run(rows, X, tuple(alpha))
        columns = self._get_columns(method="predict_quantiles", alpha=alpha)
        names = list(dict.fromkeys(columns.get_level_values(0)))
        values = [run.quantile(level)[rows, names.index(name)] for name, level in columns]
        return pd.DataFrame(np.stack(values, axis=1).astype(float), index=index, columns=columns)

    def _horizon(self, fh: Any) -> tuple[np.ndarray, pd.Index]:
        """Rows after the end of training, from 0, and their labels."""
        relative = fh.to_relative(self.cutoff).to_numpy().astype(int)
        return relative - 1, fh.to_absolute_index(self.cutoff)

    def _run(self, rows: np.ndarray, X: pd.DataFrame | None, levels: tuple[float, ...]):
        """A free run that covers all rows; its length is rounded up, so that few lengths are compiled."""
        need_rows = -(-(int(rows.max()) + 2) // _QUANTUM) * _QUANTUM
        return self.model_.simulate(
            self._future(X, need_rows), warmup=self._past, samples=self.draws, seed=self.seed, quantiles=levels
        )

    def _future(self, X: pd.DataFrame | None, length: int) -> pd.DataFrame:
        """Inputs of rows 0, 1, ..., length - 1 after training; a missing row holds the input before it."""
        if X is None:
            return pd.DataFrame(index=range(length))
        horizon = _sktime.ForecastingHorizon(X.index, is_relative=False, freq=self.fh.freq)
        places = horizon.to_relative(self.cutoff).to_numpy().astype(int) - 1
        known = np.clip(np.searchsorted(places, np.arange(length), side="right") - 1, 0, len(X) - 1)
        return _number_rows(X[self._driven].iloc[known])

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small settings for sktime's own tests."""
        del parameter_set
        sizes = {"inducing": 4, "samples": 2, "windows": 2, "window": 4, "buffer": 1, "cycles": 1, "steps": 2}
        first = {"resolutions": (2, 1), "options": {**sizes, "latent_dim": 1}, "warmup": 8, "draws": 10}
        return [first, first | {"draws": 12, "seed": 1}]


def _number_rows(table: Any) -> Any:
    """The table with rows numbered from 0, because the horizon is in steps, not in dates."""
    return table.reset_index(drop=True)


def _varying(table: pd.DataFrame) -> list[Any]:
    """The columns that vary; a constant input can neither be scaled nor learned from."""
    values = table.to_numpy(float)
    varies = np.ptp(values, axis=0) > 1e-12 * np.maximum(1.0, np.abs(values.mean(axis=0)))
    return list(table.columns[varies])
