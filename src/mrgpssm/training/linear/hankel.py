"""Observability of a linear system from recordings: the subspace step of PO-MOESP.

M. Verhaegen, Identification of the deterministic part of MIMO state space models given in innovations form from
input-output data, Automatica 30 (1994) 61-74; P. Van Overschee and B. De Moor, N4SID: subspace algorithms for the
identification of combined deterministic-stochastic systems, Automatica 30 (1994) 75-93.
"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.data.ranges import Recording
from mrgpssm.training.linear.lags import bridge
from mrgpssm.training.linear.regression import compress
from mrgpssm.training.linear.statespace import LARGEST_POLE, limit, reflect


@dataclass(frozen=True)
class View:
    """Rows are averaged in groups of `stride`. The past and the future are `horizon` groups each."""

    horizon: int
    stride: int


@dataclass(frozen=True)
class Modes:
    """Observability in modal form: y_t = Σ_k Re(shapes[:, k] poles[k]^t x_k) without inputs; pairs are conjugate."""

    poles: np.ndarray
    shapes: np.ndarray

    def integrate(self, count: int) -> "Modes | None":
        """The same with so many poles at 1, those next to it; a pair on the way becomes two real poles."""
        poles, shapes = self.poles.astype(complex), self.shapes.astype(complex)
        for _ in range(count):
            left = np.flatnonzero(poles != 1)
            if not len(left):
                return None
            nearest = left[np.argmin(np.abs(poles[left] - 1))]
            if np.imag(poles[nearest]) != 0:
                other = left[np.argmin(np.abs(poles[left] - np.conj(poles[nearest])))]
                poles[other], shapes[:, other] = np.abs(poles[nearest]), np.imag(shapes[:, nearest])
            poles[nearest], shapes[:, nearest] = 1.0, np.real(shapes[:, nearest])
        return Modes(poles, shapes)


def factor(recording: Recording, view: View) -> np.ndarray:
    """The triangle of [1, U_f, U_p, Y_p, Y_f], one row per window.

    Windows with a missing output are left out. Where that would leave fewer than half, outputs are interpolated.
    """
    found = _table(recording.inputs, recording.outputs, view)
    complete = np.isfinite(found).all(axis=1)
    if 2 * complete.sum() < len(found):
        found = _table(recording.inputs, bridge(recording.outputs), view)
        complete = np.isfinite(found).all(axis=1)
    return compress(found[complete])


def _table(inputs: np.ndarray, outputs: np.ndarray, view: View) -> np.ndarray:
    inputs, outputs = _average(inputs, view.stride), _average(outputs, view.stride)
    windows, i = len(inputs) - 2 * view.horizon + 1, view.horizon
    width = 1 + 2 * i * (inputs.shape[1] + outputs.shape[1])
    if windows < 1:
        return np.empty((0, width))
    parts = [_windows(inputs, i, i), _windows(inputs, 0, i), _windows(outputs, 0, i), _windows(outputs, i, i)]
    return np.hstack([np.ones((windows, 1)), *(p[:windows] for p in parts)])


@dataclass(frozen=True)
class Observability:
    """Left singular vectors of the part of the future outputs that the past explains, without future inputs."""

    view: View
    vectors: np.ndarray
    outputs: int

    @classmethod
    def of(cls, triangles: list[np.ndarray], view: View, inputs: int, outputs: int) -> "Observability":
        """From the triangles of all pieces: R of the past against Y_f is the transposed L_32 of PO-MOESP."""
        joint = compress(np.concatenate(triangles))
        first, last = 1 + view.horizon * inputs, joint.shape[1] - view.horizon * outputs
        left, values, _ = np.linalg.svd(joint[first:last, last:].T, full_matrices=False)
        kept = values > 1e-10 * np.max(values, initial=1e-300)
        return cls(view, (left * np.sqrt(values))[:, kept], outputs)

    def modes(self, order: int, largest: float = LARGEST_POLE, integrators: int = 0) -> Modes | None:
        """Stable poles up to `largest` and mode shapes of the given order; None if the data do not support it.

        So many real poles, those next to 1, are set to 1.
        """
        shift = self.vectors[:, :order]
        if shift.shape[1] < order or len(shift) - self.outputs < order:
            return None
        A = np.linalg.lstsq(shift[: -self.outputs], shift[self.outputs :], rcond=None)[0]
        poles, basis = np.linalg.eig(A)
        shapes = shift[: self.outputs] @ basis
        found = Modes(limit(_root(reflect(poles), self.view.stride), largest), shapes)
        return found.integrate(integrators) if integrators else found


def _root(poles: np.ndarray, stride: int) -> np.ndarray:
    """Poles per row from poles per group. A sampled system has no negative real pole, so its sign is dropped."""
    if stride == 1:
        return poles
    real = np.abs(np.imag(poles)) < 1e-12
    return np.where(real, np.abs(poles), poles).astype(complex) ** (1 / stride)


def _average(signals: np.ndarray, stride: int) -> np.ndarray:
    groups = len(signals) // stride
    return signals[: groups * stride].reshape(groups, stride, -1).mean(axis=1)


def _windows(signals: np.ndarray, first: int, count: int) -> np.ndarray:
    """(windows, count D) rows first ... first + count - 1 of every window."""
    view = np.lib.stride_tricks.sliding_window_view(signals[first:], count, axis=0)
    return view.transpose(0, 2, 1).reshape(len(view), -1)
