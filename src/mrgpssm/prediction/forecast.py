"""What a simulation returns, in the data's own units."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import pandas as pd

from mrgpssm.data.scaling import Scaling
from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import ConfigError
from mrgpssm.prediction import metrics
from mrgpssm.runtime.output import LEVELS as LEVELS
from mrgpssm.spec import MOST_SEED, Whole

FINE_LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))  # enough to see whether bands are honest


@dataclass(frozen=True)
class Forecast:
    """Mean, deviation and quantiles of the outputs (T, D_y), and what each component contributes.

    `std` and quantiles are those of a measurement: they include observation noise. `components` holds the mean
    contribution of each component; together with `offset` they add up to `mean`. `samples`, where asked for, are
    trajectories of measurements (S, T, D_y): at every row they follow the same law as the quantiles, and their errors
    last from row to row as those on data left out. Bands of sums, means, largest values and crossings follow from them:

        run = model.simulate(inputs, keep_samples=True)
        low, high = np.quantile(run.samples.sum(axis=1), [0.05, 0.95], axis=0)

    Attributes:
        time: Seconds of each row, (T,).
        mean: Mean of the outputs, (T, D_y).
        std: Deviation of a measurement, (T, D_y).
        quantiles: Quantiles of a measurement by level, (T, D_y) each.
        components: Mean contributions by component, such as `component_1_R30`, (T, D_y) each.
        offset: The level that the components are added to, (D_y,).
        output_names: Names of the outputs.
        units: Units by column name.
        samples: Trajectories of measurements, where `keep_samples` was asked for.
        alarm: How unlike the training data each row is, (T,): above 1 it rings, and bands have grown.
    """

    time: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    quantiles: dict[float, np.ndarray]
    components: dict[str, np.ndarray]
    offset: np.ndarray
    output_names: tuple[str, ...]
    units: dict[str, str]
    samples: np.ndarray | None = None
    alarm: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.mean)

    def quantile(self, level: float) -> np.ndarray:
        """A quantile of the outputs; one of the levels that were kept.

        Args:
            level: Between 0 and 1; kept are 0.025, 0.05, 0.25, 0.5, 0.75, 0.95 and 0.975, unless asked otherwise.

        Returns:
            An array (T, D_y).

        Raises:
            ValueError: The level was not kept; the message names those that were.
        """
        if level not in self.quantiles:
            known = ", ".join(f"{q:g}" for q in sorted(self.quantiles))
            raise ValueError(f"Quantile {level:g} was not kept; kept are {known}. Ask simulate(..., quantiles=(...)).")
        return self.quantiles[level]

    def whole_band(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """A band that holds an output at all rows at once, with this probability; quantiles hold at single rows.

        It is mean ± c std, with c the quantile of the largest |y - mean| / std over all rows of a trajectory.

        Args:
            level: The share of trajectories that never leave the band, between 0 and 1.

        Returns:
            Its lower and upper edge, (T, D_y) each.

        Raises:
            ValueError: There are no trajectories, or too few for this level.
        """
        if self.samples is None:
            raise ValueError("A band for whole runs needs trajectories; ask simulate(..., keep_samples=True).")
        count = len(self.samples)
        inside = math.ceil(level * (count + 1))  # trajectories: the run is one more of them
        if not 0 < level < 1 or inside > count:
            most = count / (count + 1)
            raise ValueError(f"{count} trajectories give bands for whole runs up to level {most:.3g}; got {level:g}.")
        farthest = np.max(np.abs(self.samples - self.mean) / self.std, axis=1)
        c = np.sort(farthest, axis=0)[inside - 1]
        return self.mean - c * self.std, self.mean + c * self.std

    def score_paths(self, measured: np.ndarray) -> pd.DataFrame:
        """How good the trajectories are as whole runs; smaller is better.

        Args:
            measured: Outputs (T, D_y), NaN where nothing was measured.

        Returns:
            One row per output: `energy`, the CRPS of a whole run in the output's unit, and `variogram`, which tells
            whether trajectories change over 1, 2, 4, ... rows as what was measured does.

        Raises:
            ValueError: There are no trajectories, or the shape of `measured` is not that of the mean.
        """
        if self.samples is None:
            raise ValueError("Scores of whole runs need trajectories; ask simulate(..., keep_samples=True).")
        if np.shape(measured) != self.mean.shape:
            raise ValueError(f"measured must have shape {self.mean.shape}, as the forecast; got {np.shape(measured)}.")
        found = {
            "energy": metrics.energy(measured, self.samples),
            "variogram": metrics.variogram(measured, self.samples),
        }
        return pd.DataFrame(found, pd.Index(self.output_names, name="output"))

    def to_dataframe(self) -> pd.DataFrame:
        """One row per time: mean, std, quantiles and components of every output, columns named `output.statistic`.

        Returns:
            A table with columns such as `NOx.mean`, `NOx.std`, `NOx.q0.95` and `NOx.component_1_R30`.
        """
        columns: dict[str, np.ndarray] = {}
        for index, name in enumerate(self.output_names):
            columns[f"{name}.mean"] = self.mean[:, index]
            columns[f"{name}.std"] = self.std[:, index]
            for level, values in sorted(self.quantiles.items()):
                columns[f"{name}.q{level:g}"] = values[:, index]
            for part, values in self.components.items():
                columns[f"{name}.{part}"] = values[:, index]
        if self.alarm is not None:
            columns["alarm"] = self.alarm
        return pd.DataFrame(columns, index=pd.Index(self.time, name="time"))

    def to_xarray(self, measured: np.ndarray | None = None) -> Any:
        """An xarray DataTree with ArviZ's group names (extra `interop`).

        `predictions` holds mean, std, quantiles and components over time and output and, where samples were kept, these
        as `outputs` (chain, draw, time, output); `observed_data` holds `measured` outputs (T, D_y), where given.

        Args:
            measured: Outputs to lay beside the forecast.

        Returns:
            The tree.

        Raises:
            ImportError: xarray is not installed.
        """
        try:
            xarray = import_module("xarray")
        except ImportError:
            raise ImportError("to_xarray needs xarray; install mrgpssm[interop].") from None
        levels, parts = sorted(self.quantiles), list(self.components)
        both, coords = ("time", "output"), {"time": self.time, "output": list(self.output_names)}
        variables = {
            "mean": (both, self.mean),
            "std": (both, self.std),
            "quantiles": (("quantile", *both), np.stack([self.quantiles[q] for q in levels])),
            "components": (("component", *both), np.stack([self.components[p] for p in parts])),
        }
        if self.samples is not None:
            variables["outputs"] = (("chain", "draw", *both), self.samples[None])
        predictions = xarray.Dataset(
            variables, coords | {"quantile": levels, "component": parts}, {"units": str(self.units)}
        )
        groups = {"predictions": predictions}
        if measured is not None:
            groups["observed_data"] = xarray.Dataset({"outputs": (both, np.asarray(measured, float))}, coords)
        return xarray.DataTree.from_dict(groups)


class Predictive(Protocol):
    """What is known of measurements (T, D_y) at every row of a run, scaled: `Measurements`, or bands of a baseline."""

    @property
    def mean(self) -> Any: ...  # an array; a cached property is none to a type checker
    @property
    def std(self) -> Any: ...
    def quantiles(self, levels: Iterable[float], /) -> np.ndarray: ...
    def nll(self, measured: np.ndarray, /) -> np.ndarray: ...


def make_forecast(
    time: np.ndarray,
    found: Predictive,
    components: Mapping[str, np.ndarray],
    scaling: Scaling,
    about: tuple[tuple[str, ...], dict[str, str]],
    quantiles: Iterable[float],
) -> Forecast:
    """A forecast from what was found and components (T, D_y), scaled; `about` are the outputs' names and the units."""
    offset, sd, levels = scaling.output_mean, scaling.output_sd, [float(q) for q in quantiles]
    bands = zip(levels, found.quantiles(levels), strict=True)
    return Forecast(
        time=time,
        mean=offset + sd * found.mean,
        std=sd * found.std,
        quantiles={level: offset + sd * values for level, values in bands},
        components={name: sd * values for name, values in components.items()},
        offset=offset,
        output_names=about[0],
        units=about[1],
    )


def report_times(sequence: Sequence) -> np.ndarray:
    """Seconds of every row, (T,)."""
    return sequence.clock() * sequence.dt + (0.0 if sequence.time is None else sequence.time[0])


def check_simulation(fitted: bool, samples: Any, stride: Any, quantiles: Iterable[float], seed: Any = 0) -> None:
    """Refuse a simulation that cannot be run."""
    if not fitted:
        raise ConfigError("The model is not fitted yet; call fit(sequences) first.")
    Whole(2).check("samples", samples)  # one sample has no spread
    Whole().check("stride", stride)
    Whole(0, MOST_SEED).check("seed", seed)
    for q in quantiles:
        if not 0 < q < 1:
            raise ConfigError(f"quantiles lie strictly between 0 and 1; got {q!r:.80}.")
