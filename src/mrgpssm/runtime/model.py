"""A fitted model as arrays, and what can be done with it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrgpssm.errors import ConfigError, DataError
from mrgpssm.noise.law import StudentNoise
from mrgpssm.runtime.arrays import Arrays
from mrgpssm.runtime.drive import Memory, driven
from mrgpssm.runtime.run import LEVELS, Simulation, mean_run, sample_run
from mrgpssm.runtime.stepper import Stepper
from mrgpssm.static.part import Blend


@dataclass(frozen=True)
class Initial:
    """q(x_0) = N(mean, factor factorᵀ)."""

    mean: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class RuntimeModel:
    """What a model file holds; `arrays` and `initials` have leading axes (rounds x groups, components)."""

    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    filters: tuple[float, ...]
    delays: tuple[int, ...]
    resolutions: tuple[int, ...]
    precision: str
    groups: tuple[tuple[int, ...], ...]
    rounds: int
    input_mean: np.ndarray
    input_sd: np.ndarray
    output_mean: np.ndarray
    output_sd: np.ndarray
    calibration: np.ndarray
    noise: StudentNoise | None
    blend: Blend
    arrays: Arrays
    initials: tuple[tuple[Initial, ...], ...]

    @property
    def step_sizes(self) -> np.ndarray:
        """h = 1 / R of every component: one raw sample in its own time unit."""
        return 1.0 / np.array(self.resolutions, float)

    def scaled(self, inputs: np.ndarray) -> np.ndarray:
        """What checked inputs (T, D_u) drive the model by, in units of training deviations."""
        return self.driven(self.checked(inputs))[0]

    def driven(self, inputs: np.ndarray, memory: Memory | None = None) -> tuple[np.ndarray, Memory]:
        """The same after earlier rows, and what is remembered after the last one."""
        drives, memory = driven(inputs, self.filters, self.delays, memory)
        return (drives - self.input_mean) / self.input_sd, memory

    def checked(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (T, D_u) as numbers."""
        values = np.asarray(inputs, float)
        if values.ndim != 2 or values.shape[1] != len(self.input_names) or not len(values):
            raise DataError(
                f"inputs must have shape (T, {len(self.input_names)}), one column each for "
                f"{', '.join(self.input_names)}; got {values.shape}."
            )
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise DataError(f"inputs are not finite in row {row}; fill or cut missing inputs.")
        return values

    def simulate(
        self,
        inputs: np.ndarray,
        samples: int = 100,
        seed: int = 0,
        quantiles: Sequence[float] = LEVELS,
        keep_samples: bool = False,
    ) -> Simulation:
        """Run freely over the inputs (T, D_u): what `MRGPSSM.simulate` gives, on the same noise."""
        check_samples(samples)
        return sample_run(self, self.scaled(inputs), samples, seed, tuple(map(float, quantiles)), keep_samples)

    def simulate_mean(self, inputs: np.ndarray) -> np.ndarray:
        """(T, D_y): one noiseless run with v and x_0 at their means, averaged over the ensemble."""
        return mean_run(self, self.scaled(inputs))

    def stepper(self, samples: int = 100, seed: int = 0) -> Stepper:
        """An online simulator: one sample at a time, corrected by measurements."""
        check_samples(samples)
        return Stepper(self, samples, seed)


def check_samples(samples: int) -> None:
    """At least two samples have a spread."""
    if not isinstance(samples, (int, np.integer)) or isinstance(samples, bool) or samples < 2:
        raise ConfigError(f"samples must be a whole number, at least 2, to have a spread; got {samples!r}.")
