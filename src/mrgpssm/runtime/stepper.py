"""A model that runs along with its system: one sample at a time, corrected whenever an output is measured.

Every sample keeps its own draw v of the dynamics, as in a free run. Reweighting samples by a measurement would soon
leave a single v alive, so the *states* are corrected instead, by the ensemble square-root filter (Whitaker and
Hamill, 2002), one output after the other since their noises are independent. With p_s the predicted output of sample
s, P its variance over the samples, c the covariance of states and p, and R the variance of the observation noise,

    K = c / (P + R),   x̄ += K (y - p̄),   x_s - x̄ -= β K (p_s - p̄),   β = 1 / (1 + √(R / (P + R))).

Mean and covariance of the samples become exactly those of the Kalman update with the samples' own covariance; where
the model is linear and Gaussian the filter tends to the Kalman filter as samples grow. Calibration multiplies
deviations and noise alike, which leaves K as it is: it enters the reported bands alone. Instantaneous parts have no
state to correct: every model of the ensemble is corrected as if it were alone. A learned law of measurements
(`noise` other than "gaussian") is not used here, since it needs the input that acts from now on: the noise counts as
Gaussian.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrgpssm.errors import DataError
from mrgpssm.runtime.drive import Memory
from mrgpssm.runtime.run import Randomness, begin, calibrated, emitted, joined, mixed

if TYPE_CHECKING:
    from mrgpssm.runtime.model import RuntimeModel

_AHEAD = 64  # steps whose noise is drawn at once


@dataclass(frozen=True)
class Estimate:
    """Mean and deviation of the outputs in the data's units; the deviation is that of a measurement."""

    mean: np.ndarray
    std: np.ndarray


@dataclass(frozen=True)
class StepperState:
    """All that moves: the samples' states, (models, components, latent dimensions, samples), and the rows so far.

    `memory` is of past inputs, and `drive` what they drove the last step by; there is none before the first row.
    """

    states: np.ndarray
    row: int
    memory: Memory | None = None
    drive: np.ndarray | None = None


class Stepper:
    """Feed it `update(u, y)` once per sampling time; without measurements it is the free run, sample for sample."""

    def __init__(self, model: "RuntimeModel", samples: int, seed: int):
        self.model, self.samples = model, samples
        self._randomness = Randomness(model, -(-samples // model.rounds), seed)
        self._states, self._walker = begin(model, self._randomness)
        self._row, self._drawn, self._noise = 0, 0, np.empty((0,))
        self._memory: Memory | None = None
        self._drive: np.ndarray | None = None

    @property
    def state(self) -> StepperState:
        """Where it stands; assign an earlier one to go back there."""
        return StepperState(self._states.copy(), self._row, self._memory, self._drive)

    @state.setter
    def state(self, state: StepperState) -> None:
        if state.states.shape != self._states.shape:
            raise DataError(f"The state has shape {state.states.shape}; this stepper's is {self._states.shape}.")
        self._states, self._row = state.states.copy(), int(state.row)
        self._memory, self._drive = state.memory, state.drive

    def update(self, u: np.ndarray, y: np.ndarray | None = None) -> Estimate:
        """Correct by what is measured now (NaN where nothing is), estimate the outputs now, then step under input u."""
        inputs = self.model.checked(np.reshape(np.asarray(u, float), (1, -1)))
        if y is not None:
            self._correct(self._measured(y))
        drives, self._memory = self.model.driven(inputs, self._memory)
        if self._drive is None:
            self._drive = drives[0]  # before the first row all inputs are those of the first
        now = self.estimate()
        self._advance(drives[0])
        return now

    def estimate(self) -> Estimate:
        """The outputs at the time that the state stands at."""
        whole = self._summary(emitted(self.model, self._states)[None], self._still(None))
        return Estimate(whole.mean[0], whole.std[0])

    def forecast(self, inputs: np.ndarray) -> Estimate:
        """Run freely over inputs (T, D_u) from here, without moving: (T, D_y) outputs before each input acts."""
        start = self.state
        scaled, _ = self.model.driven(self.model.checked(inputs), self._memory)
        still = self._still(scaled)
        outputs = np.empty((len(scaled), *emitted(self.model, self._states).shape))
        for row, u in enumerate(scaled):
            outputs[row] = emitted(self.model, self._states)
            self._advance(u)
        self.state = start
        return self._summary(outputs, still)

    def _still(self, ahead: np.ndarray | None) -> np.ndarray:
        """What the instantaneous parts add now (1, D_y), or over what drives the steps from here on."""
        before = np.zeros(len(self.model.input_mean)) if self._drive is None else self._drive
        if ahead is None:
            return self.model.blend.course(before[None])
        return self.model.blend.course(ahead, self._drive)

    def _advance(self, inputs: np.ndarray) -> None:
        at = self._row - self._drawn
        if not 0 <= at < len(self._noise):
            self._drawn, at = self._row, 0
            self._noise = self._randomness.process(self._row, _AHEAD)
        self._states = self._walker.step(self._states, inputs, self._noise[at])
        self._drive = inputs
        self._row += 1

    def _measured(self, y: np.ndarray) -> np.ndarray:
        """The outputs of every model, (N, D_g), scaled."""
        model, values = self.model, np.asarray(y, float).ravel()
        if values.shape != (len(model.output_names),) or np.isinf(values).any():
            names = ", ".join(model.output_names)
            raise DataError(f"y must hold one finite number, or NaN, for each of {names}; got {values}.")
        scaled = (values - model.output_mean) / model.output_sd
        return np.tile(np.array([scaled[list(columns)] for columns in model.groups]), (model.rounds, 1))

    def _correct(self, measured: np.ndarray) -> None:
        variance = self.model.arrays.noise_sd**2
        for output in range(measured.shape[1]):
            if not np.isnan(measured[:, output]).all():
                self._states = correct(self._states, output, measured[:, output], variance[:, output])

    def _summary(self, outputs: np.ndarray, still: np.ndarray) -> Estimate:
        """From (T, N, D_g, S) samples of the components, and what is added to them, to mean and deviation, (T, D_y)."""
        model, shape = self.model, (len(outputs), len(self.model.output_names))
        mean, std = np.empty(shape), np.empty(shape)
        for g, samples in enumerate(joined(model, outputs, self.samples)):
            which = list(model.groups[g])
            values, noise_sd = calibrated(model, g, mixed(model, g, samples, still))
            mean[:, which] = values.mean(0)
            std[:, which] = np.sqrt(values.var(0) + np.mean(noise_sd**2, axis=0))
        return Estimate(model.output_mean + model.output_sd * mean, model.output_sd * std)


def correct(states: np.ndarray, output: int, measured: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The square-root update of states (N, L, d, S) by one output (N,), NaN where it is missing; R is `variance`."""
    count = states.shape[-1] - 1
    centre = states.mean(axis=-1, keepdims=True)
    apart = states - centre
    shown = apart[:, :, output].sum(axis=1)  # p_s - p̄, (N, S)
    total = np.einsum("ns,ns->n", shown, shown) / count + variance
    gain = np.einsum("nlds,ns->nld", apart, shown) / count / total[:, None, None]
    innovation = measured - centre[:, :, output, 0].sum(axis=1)
    factor = 1 / (1 + np.sqrt(variance / total))
    moved = centre + (gain * innovation[:, None, None])[..., None]
    updated = moved + apart - (factor[:, None, None] * gain)[..., None] * shown[:, None, None, :]
    return np.where(np.isnan(measured)[:, None, None, None], states, updated)
