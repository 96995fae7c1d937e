"""A model that runs along with its system: one sample at a time, corrected whenever an output is measured.

Every sample keeps its own draw v of the dynamics, as in a free run. Reweighting samples by a measurement would soon
leave a single v alive, so the *states* are corrected instead, by the square-root update of `mrgpssm.arrays.ensemble`,
one output after the other since their noises are independent. Where the model is linear and Gaussian this tends to the
Kalman filter as samples grow. Calibration multiplies deviations and noise alike, which leaves the gain as it is: it
enters the reported bands alone. Every model of the ensemble is corrected as if it were alone.

Where a law of measurements was learned, bands follow it, with the input that acts from now on. Then R is the variance
of a measurement by that law less the variance of the samples, and never less than that of the trained noise: the law
tells how far measurements lie from the mean of a run, and what the samples' spread does not explain of it is noise.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrgpssm.arrays import ensemble
from mrgpssm.arrays.drive import Memory
from mrgpssm.errors import DataError
from mrgpssm.runtime.horizon import Recent
from mrgpssm.runtime.output import Measurements
from mrgpssm.runtime.walk import RunState

if TYPE_CHECKING:
    from mrgpssm.runtime.model import RuntimeModel


@dataclass(frozen=True)
class Estimate:
    """Mean and deviation of the outputs in the data's units; the deviation is that of a measurement.

    `alarm`, one for each row, says how unlike training the row is: above 1 it rings, and `std` has grown.
    """

    mean: np.ndarray
    std: np.ndarray
    alarm: np.ndarray


@dataclass(frozen=True)
class StepperState:
    """All that moves: the samples' states, (models, components, latent dimensions, samples), and the steps so far.

    `recent` is what was measured of late. `memory` is of past inputs, and `drive` what is known of them at the last
    row; there is none before the first row. With feed-through, `due` is the last row: its input, its samples to the
    next, and what was remembered before it. The step from there is taken when the next input is known.
    """

    states: np.ndarray
    row: int
    recent: Recent
    memory: Memory | None = None
    drive: np.ndarray | None = None
    due: tuple[np.ndarray, float, Memory | None] | None = None


class Stepper:
    """Feed it `update(u, y)` once per sampling time; without measurements it is the free run, sample for sample.

    Where rows are not one sample apart, say so: `update(u, y, elapsed=2.5)` holds u for 2.5 samples. If the next row
    turns out to be late, hold the input for the rest of the time, `update(u, elapsed=rest)`, before it.
    """

    def __init__(self, model: "RuntimeModel", samples: int, seed: int, anywhere: bool = False):
        self.model, self.samples = model, samples
        self._particles = RunState.draw(model, samples, seed, anywhere)
        self._recent = Recent.nothing(len(model.output_names))
        self._memory: Memory | None = None
        self._drive: np.ndarray | None = None
        self._due: tuple[np.ndarray, float, Memory | None] | None = None

    @property
    def state(self) -> StepperState:
        """Where it stands; assign an earlier one to go back there."""
        here = self._particles
        return StepperState(here.states.copy(), here.row, self._recent, self._memory, self._drive, self._due)

    @state.setter
    def state(self, state: StepperState) -> None:
        own = self._particles.states.shape
        if state.states.shape != own:
            raise DataError(f"The state has shape {state.states.shape}; this stepper's is {own}.")
        self._particles.states, self._particles.row = state.states.copy(), int(state.row)
        self._recent, self._memory, self._drive, self._due = state.recent, state.memory, state.drive, state.due

    def update(self, u: np.ndarray, y: np.ndarray | None = None, elapsed: float = 1.0) -> Estimate:
        """Correct by what is measured now (NaN where nothing is), estimate the outputs now, then step under input u.

        With feed-through the step to now, which u drives, comes first. `elapsed` are the samples from this row to the
        next, in units of dt.
        """
        inputs = self.model.check_inputs(np.reshape(np.asarray(u, float), (1, -1)))
        measured = None if y is None else self._scale(y)
        self._catch_up(inputs)
        before = self._memory
        course, self._memory = self.model.course(inputs, np.array([elapsed], float), before)
        drive = course.known[0]
        if measured is not None:
            self._correct(self._by_model(measured), drive)
            self._recent = self._recent.measure(~np.isnan(measured))
        now, self._drive, self._recent = self._estimate(drive), course.drives[-1], self._recent.later(elapsed)
        if self.model.drive.waits:
            self._due = (inputs, elapsed, before)
        else:
            self._particles.walk(course)
        return now

    def estimate(self) -> Estimate:
        """The outputs at the time of the next row, while the last input still acts."""
        start, drive = self.state, np.zeros(len(self.model.input_mean)) if self._drive is None else self._drive
        if self._due is not None:
            self._catch_up(self._due[0])
        now, self.state = self._estimate(drive), start
        return now

    def _catch_up(self, ahead: np.ndarray) -> None:
        """With feed-through, take the step to the row of this input."""
        if self._due is not None:
            inputs, elapsed, before = self._due
            course, _ = self.model.course(inputs, np.array([elapsed], float), before, ahead)
            self._particles.walk(course)
            self._due = None

    def forecast(self, inputs: np.ndarray, time: np.ndarray | None = None) -> Estimate:
        """Run freely over inputs (T, D_u) from here, without moving: (T, D_y) outputs at their rows.

        `time` are the seconds of every row (T,), where sampling is uneven; the first row is now.
        """
        start, values = self.state, self.model.check_inputs(inputs)
        self._catch_up(values[:1])
        course, _ = self.model.course(values, self.model.gaps(time, len(values)), self._memory)
        outputs = self._particles.walk(course)
        self.state = start
        return self._in_units(self._measure(outputs, course.known, course.clock))

    def _estimate(self, drive: np.ndarray) -> Estimate:
        whole = self._in_units(self._now(drive))
        return Estimate(whole.mean[0], whole.std[0], whole.alarm[0])

    def _now(self, drive: np.ndarray) -> Measurements:
        """The outputs now, if this drive acts from now on."""
        return self._measure(self._particles.outputs(), drive[None], np.zeros(1))

    def _measure(self, outputs: np.ndarray, drive: np.ndarray, ahead: np.ndarray) -> Measurements:
        """From samples (S, T, D_y) of the outputs, what drives them from every row on, and how far ahead it is."""
        return self.model.output_law.measure(outputs[: self.samples], drive, self._recent.later(ahead))

    def _in_units(self, found: Measurements) -> Estimate:
        model = self.model
        return Estimate(model.output_mean + model.output_sd * found.mean, model.output_sd * found.std, found.alarm)

    def _scale(self, y: np.ndarray) -> np.ndarray:
        """What is measured, (D_y,), scaled."""
        model, values = self.model, np.asarray(y, float).ravel()
        if values.shape != (len(model.output_names),) or np.isinf(values).any():
            names = ", ".join(model.output_names)
            raise DataError(f"y must hold one finite number, or NaN, for each of {names}; got {values}.")
        return (values - model.output_mean) / model.output_sd

    def _by_model(self, values: np.ndarray) -> np.ndarray:
        """(N, D_g) from one number for every output."""
        groups = np.array([values[list(columns)] for columns in self.model.groups])
        return np.tile(groups, (self.model.rounds, 1))

    def _correct(self, measured: np.ndarray, drive: np.ndarray) -> None:
        variance, here = self._noise_variance(drive), self._particles
        for output in range(measured.shape[1]):
            if not np.isnan(measured[:, output]).all():
                here.states = correct(here.states, here.emit()[:, output], measured[:, output], variance[:, output])

    def _noise_variance(self, drive: np.ndarray) -> np.ndarray:
        """R of every model and output, (N, D_g), scaled."""
        trained = self.model.arrays.noise_sd**2
        if self.model.noise is None:
            return trained
        now = self._now(drive)
        std = now.std[0] / now.stretch[0]  # where the model is at a loss, measurements are worth no less
        return np.maximum(trained, self._by_model(std**2 - now.samples.var(axis=0)[0]))


def correct(states: np.ndarray, shown: np.ndarray, measured: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The square-root update of states (N, L, d, S) that show (N, S) of one output, by what is `measured` of it (N,).

    That is NaN where nothing is; R is `variance`.
    """
    joint = states.reshape(len(states), -1, states.shape[-1]).swapaxes(-1, -2)
    moved = ensemble.correct(np, joint, shown[..., None], measured[:, None], variance[:, None])
    return np.ascontiguousarray(moved.swapaxes(-1, -2)).reshape(states.shape)
