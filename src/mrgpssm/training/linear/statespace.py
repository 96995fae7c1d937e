"""Linear state-space models: free runs, and the initial state from a warm-up or from the first input."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import schur, toeplitz
from scipy.signal import lfilter

from mrgpssm.data.ranges import Recording

LARGEST_POLE = 0.9999
INTEGRATES = 1 - 1e-9  # a pole of at least this modulus is one of an integrator
WARMUP_ROWS = 50  # the state is found from at most so many rows


@dataclass(frozen=True)
class StateSpace:
    """x_{t+1} = A x_t + B u_t + b, y_t = C x_t + D u_t + c.

    Before a warm-up x ~ N(mean, covariance), the distribution of the states on the training data. Measured outputs are
    y_t + e_t, and e has the autocovariance `noise` (D_y, lags) of the errors on the training data. Errors are
    correlated in time: treating them as white noise would trust a few warm-up rows too much. `settle` estimates all
    three.
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    c: np.ndarray
    b: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(
        cls,
        A: np.ndarray,
        B: np.ndarray,
        C: np.ndarray,
        D: np.ndarray,
        c: np.ndarray,
        b: np.ndarray | None = None,
    ) -> "StateSpace":
        """A model whose state distribution is not estimated yet."""
        zero = np.zeros(len(A))
        return cls(A, B, C, D, c, zero if b is None else b, zero, np.eye(len(A)), np.zeros((len(C), WARMUP_ROWS)))

    def largest_pole(self) -> float:
        """Largest modulus of an eigenvalue of A; below 1 the free run is stable."""
        return float(np.max(np.abs(np.linalg.eigvals(self.A)), initial=0.0))

    def memory(self) -> float:
        """The longest time constant, in rows; integrators have none."""
        size = np.abs(np.linalg.eigvals(self.A))
        return float(-1 / np.log(np.clip(np.max(size[size < INTEGRATES], initial=0.0), 1e-9, 1 - 1e-9)))

    def drift_memory(self) -> float:
        """The longest time constant, in rows, of a mode that does not oscillate; 0 where there is none."""
        poles = np.linalg.eigvals(self.A)
        real = np.real(poles[(np.imag(poles) == 0) & (np.real(poles) > 0)])
        return float(-1 / np.log(np.clip(np.max(real), 1e-9, 1 - 1e-9))) if len(real) else 0.0

    def states(self, inputs: np.ndarray, start: np.ndarray) -> np.ndarray:
        """(T + 1, n) states from `start` on.

        With A = Q R Q^H and R upper triangular, the last entry of Q^H x is a first-order recursion of its own, and
        each one before it is driven by those behind it.
        """
        triangle, basis = (np.asarray(m) for m in schur(self.A, output="complex"))
        driven = inputs @ (basis.conj().T @ self.B).T + basis.conj().T @ self.b
        rotated = np.empty((len(inputs) + 1, len(self.A)), complex)
        rotated[0] = basis.conj().T @ start
        for i in reversed(range(len(self.A))):
            signal = driven[:, i] + rotated[:-1, i + 1 :] @ triangle[i, i + 1 :]
            pole = triangle[i, i]
            rotated[1:, i] = lfilter([1.0], [1.0, -pole], signal, zi=pole * rotated[:1, i])[0]
        return np.real(rotated @ basis.T)

    def outputs(self, inputs: np.ndarray, states: np.ndarray) -> np.ndarray:
        """(T, D_y) outputs at the first T states."""
        return states[: len(inputs)] @ self.C.T + inputs @ self.D.T + self.c

    def run(self, inputs: np.ndarray, warmup: Recording) -> np.ndarray:
        """(T, D_y) free run from the end of the warm-up, or from equilibrium at the first input."""
        if not np.isfinite(warmup.outputs).any():
            whole = np.concatenate([warmup.inputs, inputs])
            return self.outputs(whole, self.states(whole, self.rest(whole[0])))[len(warmup) :]
        last = warmup.rows(slice(-WARMUP_ROWS, None))
        start = self.states(last.inputs, self.mean + self._correct(last))[-1]
        return self.outputs(inputs, self.states(inputs, start))

    def rest(self, row: np.ndarray) -> np.ndarray:
        """The equilibrium state for a constant input; an integrator is at 0 as far as it has none."""
        return np.linalg.lstsq(np.eye(len(self.A)) - self.A, self.B @ row + self.b, rcond=None)[0]

    def settle(self, recordings: list[Recording], errors: Iterable[np.ndarray] | None = None) -> "StateSpace":
        """The same model with its state distribution and error autocovariance estimated on the recordings.

        `errors` (T, D_y) of free runs may be given; else they are those over the recordings.
        """
        states = [self.states(r.inputs, self.rest(r.inputs[0]))[:-1] for r in recordings]
        products, counts = [], []
        for error in map(self._run_error, recordings) if errors is None else errors:
            products.append(_lagged_products(np.nan_to_num(error)))
            counts.append(np.isfinite(error).sum(axis=0))
        every = np.concatenate(states)
        spread = np.atleast_2d(np.cov(every.T))
        floor = 1e-9 * np.trace(spread) * np.eye(len(self.A))
        noise = sum(products) / np.maximum(sum(counts), 1)[:, None]
        return replace(self, mean=every.mean(0), covariance=spread + floor, noise=noise)

    def _run_error(self, recording: Recording) -> np.ndarray:
        """(T, D_y) errors of the run over a recording from the initial state that fits all of it best."""
        start = self._first_state(recording)
        return recording.outputs - self.outputs(recording.inputs, self.states(recording.inputs, start))

    def _first_state(self, recording: Recording) -> np.ndarray:
        """The initial state that fits the whole recording best."""
        free = self.outputs(recording.inputs, self.states(recording.inputs, np.zeros(len(self.A))))
        seen = np.isfinite(recording.outputs)
        decays = self._decays(len(recording))[seen]
        return np.linalg.lstsq(decays, (recording.outputs - free)[seen], rcond=1e-9)[0]

    def _decays(self, rows: int) -> np.ndarray:
        """(T, D_y, n) the outputs C A^t of a unit initial state in each dimension."""
        still, own = np.zeros((rows, self.B.shape[1])), replace(self, b=np.zeros(len(self.A)))
        return np.stack([own.states(still, e)[:-1] @ self.C.T for e in np.eye(len(self.A))], axis=-1)

    def _correct(self, warmup: Recording) -> np.ndarray:
        """P O^T (O P O^T + S)^-1 (y - ŷ): the correction of the first state of the warm-up by its outputs."""
        error = warmup.outputs - self.outputs(warmup.inputs, self.states(warmup.inputs, self.mean))
        seen, rows = np.isfinite(error), len(warmup)
        scatter = np.zeros((*error.shape, *error.shape))
        for o, lags in enumerate(self.noise):
            scatter[:, o, :, o] = toeplitz(lags[:rows])
        observed = self._decays(rows)[seen]
        gram = observed @ self.covariance @ observed.T + scatter[seen][:, seen]
        floor = 1e-12 * np.trace(gram) * np.eye(len(gram))
        return self.covariance @ observed.T @ np.linalg.solve(gram + floor, error[seen])


def _lagged_products(errors: np.ndarray) -> np.ndarray:
    """(D_y, lags) Σ_t e_t e_{t+k}, by the Fourier transform."""
    size = len(errors) + WARMUP_ROWS
    power = np.abs(np.fft.rfft(errors, size, axis=0)) ** 2
    return np.fft.irfft(power, size, axis=0)[:WARMUP_ROWS].T


def reflect(poles: np.ndarray) -> np.ndarray:
    """Poles outside the unit circle reflected into it, and no modulus above `LARGEST_POLE`."""
    size = np.abs(poles)
    inside = np.where(size > 1, 1 / np.maximum(size, 1.0), size)
    return limit(poles * inside / np.maximum(size, 1e-300), LARGEST_POLE)


def limit(poles: np.ndarray, largest: float) -> np.ndarray:
    """The same poles with no modulus above `largest`."""
    return poles * np.minimum(1.0, largest / np.maximum(np.abs(poles), 1e-300))
