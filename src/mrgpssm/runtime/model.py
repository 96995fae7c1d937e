"""A fitted model as arrays, and what can be done with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrgpssm.arrays.drive import Drive, Memory
from mrgpssm.arrays.gaps import checked_time, cut
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.runtime.arrays import Arrays
from mrgpssm.runtime.horizon import Horizon
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import LEVELS, OutputLaw, Simulation
from mrgpssm.runtime.paths import PathLaw, PathNoise
from mrgpssm.runtime.stepper import Stepper
from mrgpssm.runtime.territory import Territory
from mrgpssm.runtime.walk import Course, RunState

_CHUNK = 200_000  # samples at a time


@dataclass(frozen=True)
class RuntimeModel:
    """What a model file holds; `arrays` and the moments of q(x_0) and p(x_0) have leading axes (rounds x groups,
    components).
    """

    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    units: dict[str, str]
    dt: float
    drive: Drive
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
    paths: PathLaw
    territory: Territory | None
    horizon: Horizon | None
    arrays: Arrays
    initial_mean: np.ndarray
    initial_factor: np.ndarray
    prior_mean: np.ndarray
    prior_factor: np.ndarray

    @cached_property
    def output_law(self) -> OutputLaw:
        """How measurements follow from samples of the outputs."""
        noise_sd = self.arrays.noise_sd.reshape(self.rounds, -1)
        return OutputLaw(self.calibration, noise_sd, self.noise, self.paths, self.territory, self.horizon)

    @property
    def step_sizes(self) -> np.ndarray:
        """h = 1 / R of every component: one raw sample in its own time unit."""
        return 1.0 / np.array(self.resolutions, float)

    def course(
        self, inputs: np.ndarray, gaps: np.ndarray, memory: Memory | None = None, ahead: np.ndarray | None = None
    ) -> tuple[Course, Memory]:
        """What checked inputs (T, D_u) with so many samples to the next row drive the model by, after earlier rows.

        `ahead` (1, D_u) is the input of the row after them, where it is known. What is remembered comes second.
        """
        steps = cut(gaps, "inputs")
        known, memory = self.drive.follow(inputs[steps.source], steps.sizes, memory)
        next_row = None if ahead is None else self.drive.follow(ahead, np.ones(1), memory)[0]
        scaled = [(x - self.input_mean) / self.input_sd for x in (self.drive.act(known, next_row), known)]
        return Course(scaled[0], steps.sizes, steps.rows, scaled[1][steps.rows]), memory

    def gaps(self, time: np.ndarray | None, rows: int) -> np.ndarray:
        """(rows,) samples from each row to the next, one after the last; `time` is in seconds, or even sampling."""
        if time is None:
            return np.ones(rows)
        return np.append(np.diff(checked_time(time, rows, "inputs")) / self.dt, 1.0)

    def check_inputs(self, inputs: np.ndarray) -> np.ndarray:
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
        time: np.ndarray | None = None,
    ) -> Simulation:
        """Run freely over the inputs (T, D_u): what `MRGPSSM.simulate` gives, on the same noise.

        `time` are the seconds of every row (T,), where sampling is uneven; over a gap the last input is held.
        """
        check_samples(samples)
        course, particles, done = self._course(inputs, time), RunState.draw(self, samples, seed), 0
        noise = PathNoise(self.paths, samples, seed) if keep_samples else None
        run = Simulation.blank((len(course.rows), len(self.output_names)), quantiles, noise)
        clock = course.clock
        count = max(100, _CHUNK // (len(self.groups) * samples))
        for first in range(0, len(course.drives), count):
            outputs = particles.walk(course.part(first, first + count))[:samples]
            rows = np.arange(done, done + outputs.shape[1])
            if len(rows):
                found = self.output_law.measure(outputs, course.known[rows])
                run.put(rows, clock[rows], found, self.output_mean, self.output_sd)
            done += len(rows)
        return run

    def simulate_mean(self, inputs: np.ndarray, time: np.ndarray | None = None) -> np.ndarray:
        """(T, D_y): one noiseless run with v and x_0 at their means, averaged over the ensemble."""
        mean = RunState.at_mean(self).walk(self._course(inputs, time)).mean(axis=0)
        return self.output_mean + self.output_sd * mean

    def _course(self, inputs: np.ndarray, time: np.ndarray | None) -> Course:
        values = self.check_inputs(inputs)
        return self.course(values, self.gaps(time, len(values)))[0]

    def stepper(self, samples: int = 100, seed: int = 0, anywhere: bool = False) -> Stepper:
        """An online simulator: one sample at a time, corrected by measurements.

        Its first state is one at which recordings begin or, for a system that already runs, `anywhere`.
        """
        check_samples(samples)
        return Stepper(self, samples, seed, anywhere)


def check_samples(samples: int) -> None:
    """At least two samples have a spread."""
    if not isinstance(samples, (int, np.integer)) or isinstance(samples, bool) or samples < 2:
        raise ConfigError(f"samples must be a whole number, at least 2, to have a spread; got {samples!r}.")
