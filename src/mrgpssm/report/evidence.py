"""The content of a report as arrays and texts, without JAX, files or figures."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mrgpssm.prediction import metrics
from mrgpssm.prediction.forecast import Forecast
from mrgpssm.prediction.learned import Learned


@dataclass(frozen=True)
class SimulatedRecording:
    """One test recording and the free run over it. `elapsed` is the time since its first row in seconds."""

    name: str
    elapsed: np.ndarray
    inputs: np.ndarray
    measured: np.ndarray
    run: Forecast
    even: bool = True
    lost: tuple[int, ...] = ()  # outputs whose free run is not finite; see `make_drawable`
    seen: bool = False  # in training

    @property
    def error(self) -> np.ndarray:
        """(T, D_y) measured minus simulated mean."""
        return self.measured - self.run.mean


@dataclass(frozen=True)
class Trace:
    """The history of training, one row per chunk of steps; `bound` and `kl` are (rows, members), NaN where unknown."""

    component: np.ndarray
    cycle: np.ndarray
    done: np.ndarray
    total: int
    bound: np.ndarray
    kl: np.ndarray


@dataclass(frozen=True)
class OtherModel:
    """Another model on the same test data: its resolutions and its RMSE per output."""

    name: str
    resolutions: tuple[int, ...]
    rmse: dict[str, float]


@dataclass(frozen=True)
class TrainingData:
    """The training recordings, as far as a report shows them."""

    names: tuple[str, ...]
    rows: tuple[int, ...]
    inputs: np.ndarray
    outputs: np.ndarray


@dataclass(frozen=True)
class RunEvidence:
    """A run, its data, and its free runs over test data; drives are the inputs and their averages."""

    name: str
    input_names: tuple[str, ...]
    drive_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    options: dict[str, Any]
    recordings: tuple[SimulatedRecording, ...]
    learned: Learned
    training: TrainingData | None = None
    trace: Trace | None = None
    doubts: tuple[str, ...] = ()
    rivals: tuple[OtherModel, ...] = ()
    notes: str = ""
    samples: int = 100
    packages: dict[str, str] = field(default_factory=dict)
    config: str = ""
    commands: tuple[str, ...] = ()

    @property
    def resolutions(self) -> tuple[int, ...]:
        """Samples per step of every component."""
        return tuple(self.options["resolutions"])

    @property
    def seen_in_training(self) -> bool:
        """Whether some recording was in the training data."""
        return any(r.seen for r in self.recordings)

    @property
    def is_even(self) -> bool:
        """Whether all recordings are sampled evenly."""
        return all(r.even for r in self.recordings)

    @property
    def lost(self) -> set[int]:
        """Outputs whose free run is not finite over some recording."""
        return {k for r in self.recordings for k in r.lost}

    @cached_property
    def scores(self) -> list[dict[str, float]]:
        """Per output: RMSE, fit %, Gaussian nLL and coverages over all recordings, from the forecasts at hand.

        A free run that is not finite has no scores: they are NaN.
        """
        measured = self.join(lambda r: r.measured)
        mean, std = self.join(lambda r: r.run.mean), self.join(lambda r: r.run.std)
        edges = {q: self.join(lambda r, q=q: r.run.quantile(q)) for q in (0.05, 0.25, 0.75, 0.95)}
        found = metrics.summarise(measured, mean, std, edges)
        return [
            {key: float("nan") if k in self.lost else float(values[k]) for key, values in found.items()}
            for k in range(measured.shape[1])
        ]

    @property
    def group_names(self) -> list[str]:
        """The outputs of every model, as one name."""
        return [", ".join(self.output_names[k] for k in group) for group in self.learned.groups]

    def component_label(self, index: int) -> str:
        """Which component, by its resolution and the seconds one of its steps takes."""
        r = self.resolutions[index]
        same = f"#{index + 1}, " if self.resolutions.count(r) > 1 else ""
        return f"{same}R = {r} ({r * self.dt:g} s)"

    def label(self, name: str, text: str | None = None) -> str:
        """A column, or a text about it, with the unit of the column: `Temp / K`."""
        unit, text = self.units.get(name, ""), name if text is None else text
        return f"{text} / {unit}" if unit else text

    def join(self, what: Callable[[SimulatedRecording], np.ndarray]) -> np.ndarray:
        """An array of every recording, one after the other."""
        return np.concatenate([what(r) for r in self.recordings])

    def errors(self, output: int) -> list[np.ndarray]:
        """(T,) errors of one output, recording by recording."""
        return [r.error[:, output] for r in self.recordings]

    def stack(self, output: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Measured (T,), levels (Q,) and quantiles (Q, T) of one output over all recordings."""
        levels = sorted(self.recordings[0].run.quantiles)
        quantiles = [self.join(lambda r, q=q: r.run.quantiles[q][:, output]) for q in levels]
        return self.join(lambda r: r.measured[:, output]), np.array(levels), np.stack(quantiles)


def digits_for(values: np.ndarray, least: int) -> int:
    """The number of digits needed to show `least` significant digits of the range of these numbers."""
    known = values[np.isfinite(values)]
    size, span = (float(np.abs(known).max()), float(np.ptp(known))) if len(known) else (0.0, 0.0)
    level = np.log10(size / span) if span > 0 else 0.0
    return int(np.clip(least + np.ceil(level), least, 17))


def make_drawable(run: Forecast, measured: np.ndarray) -> tuple[Forecast, tuple[int, ...]]:
    """A forecast with finite values only, and the outputs that had others.

    Values that are not finite are moved one span of the measurement above its maximum.
    """
    arrays = [run.mean, run.std, *run.quantiles.values(), *run.components.values()]
    lost = tuple(k for k in range(measured.shape[1]) if not all(np.isfinite(a[:, k]).all() for a in arrays))
    if not lost:
        return run, ()
    known = np.where(np.isnan(measured).all(axis=0), 0.0, measured)
    low, high = np.nanmin(known, axis=0), np.nanmax(known, axis=0)
    span = np.maximum(high - low, 1e-9)

    def calm(values: np.ndarray, peg: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(values), values, peg)

    return replace(
        run,
        mean=calm(run.mean, high + span),
        std=calm(run.std, span),
        quantiles={q: calm(v, high + span) for q, v in run.quantiles.items()},
        components={name: calm(v, span) for name, v in run.components.items()},
    ), lost
