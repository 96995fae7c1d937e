"""Linear state-space models by subspace identification."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from mrgpssm.baselines.base import Recording, Report
from mrgpssm.baselines.folds import RowFold, RowRange, merge, whole
from mrgpssm.baselines.hankel import Modes, Observability, View, factor
from mrgpssm.baselines.linear import AbstractLinear, Rivals, Trial, run_left_out
from mrgpssm.baselines.regression import compress, solve, take_out
from mrgpssm.baselines.statespace import StateSpace
from mrgpssm.errors import FitError


@dataclass(frozen=True)
class SubspaceSettings:
    """Number of states, rows of past and future in the Hankel matrices, and how many data rows each averages."""

    order: int
    horizon: int
    stride: int


@dataclass(eq=False)
class Subspace(AbstractLinear):
    """A linear state-space model of all outputs together, identified by PO-MOESP and simulated freely.

    A and C come from the observability matrix (see `hankel`); poles outside the unit circle are reflected into it.
    B, D, an offset and the initial state of every recording then minimise the error of the free run, a linear
    regression (T. McKelvey, Identification of state-space models from time and frequency data, Linköping 1995;
    L. Ljung, System Identification, 2nd ed., section 10.6). Order, horizon and stride are chosen for each output by the
    free-run error on left-out training data. Bands are the quantiles of left-out free-run residuals.
    """

    title = "subspace"
    failure = "Subspace: no order gives a finite free run; the inputs or outputs may be degenerate."
    joint = True
    threads = 1

    orders: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10)
    horizons: tuple[int, ...] = (8, 20)
    strides: tuple[int, ...] = (1, 8)
    rows: int = 10_000
    fold_count: int = 3

    def compete(self, recordings: list[Recording], split: list[RowFold], report: Report) -> Iterator[Rivals]:
        found: list[tuple[SubspaceSettings, np.ndarray]] = []
        memo = {}

        def fit(settings: SubspaceSettings, pieces: tuple[RowRange, ...]) -> StateSpace | None:
            seen = observe(recordings, pieces, View(settings.horizon, settings.stride), memo)
            modes = seen.modes(settings.order)
            return None if modes is None else fit_inputs(modes, cut_out(recordings, pieces), self.rows)

        for view in usable_views(recordings, self.horizons, self.strides):
            report(f"horizon {view.horizon}, stride {view.stride}")
            for settings in (SubspaceSettings(order, view.horizon, view.stride) for order in self.orders):
                runs = run_left_out((fit(settings, fold.train) for fold in split), recordings, split)
                if runs is not None:
                    found.append((settings, runs))
        if not found:
            raise FitError("Subspace: the recordings are too short or too constant for any order; give longer ones.")
        for column in range(recordings[0].outputs.shape[1]):
            trials = [Trial(settings, runs[:, column]) for settings, runs in found]
            yield trials, functools.partial(fit, pieces=whole([len(r) for r in recordings]))


def usable_views(recordings: list[Recording], horizons: tuple[int, ...], strides: tuple[int, ...]) -> list[View]:
    """Views with at least twice as many windows as columns; at least the shortest one."""
    inputs, outputs = recordings[0].inputs.shape[1], recordings[0].outputs.shape[1]
    found = []
    for view in (View(h, s) for s in strides for h in horizons):
        columns = 2 * view.horizon * (inputs + outputs)
        windows = sum(max(len(r) // view.stride - 2 * view.horizon, 0) for r in recordings)
        if windows >= 2 * columns:
            found.append(view)
    return found or [View(min(2, *horizons), 1)]


def cut_out(recordings: list[Recording], pieces: tuple[RowRange, ...]) -> list[Recording]:
    """The row ranges as recordings; neighbouring ones are joined."""
    return [recordings[p.index].rows(p.rows) for p in merge(pieces)]


def observe(recordings: list[Recording], pieces: tuple[RowRange, ...], view: View, memo: dict) -> Observability:
    """The observability of the row ranges; `memo` keeps it, and the factor of each range."""
    if (pieces, view) not in memo:
        joined, first = merge(pieces), recordings[0]
        for p in joined:
            if (p, view) not in memo:
                memo[p, view] = factor(recordings[p.index].rows(p.rows), view)
        triangles = [memo[p, view] for p in joined]
        memo[pieces, view] = Observability.of(triangles, view, first.inputs.shape[1], first.outputs.shape[1])
    return memo[pieces, view]


def fit_inputs(modes: Modes, recordings: list[Recording], rows: int) -> StateSpace:
    """B, D, c and initial states that minimise the error of the free run, on at most about `rows` even rows."""
    step = max(1, sum(map(len, recordings)) // rows)
    turning = np.imag(modes.poles)
    poles, shapes = modes.poles[turning >= 0], (modes.shapes * np.where(turning > 0, 2, 1))[:, turning >= 0]
    table = np.concatenate([_regression(poles, shapes, r, step) for r in recordings])
    weights = solve(compress(table))
    return _assemble(poles, shapes, weights, recordings[0].inputs.shape[1]).settle(recordings)


def _regression(poles: np.ndarray, shapes: np.ndarray, recording: Recording, step: int) -> np.ndarray:
    """Rows [Re and Im of every mode's response to every input, inputs and 1 per output, y], initial state taken out."""
    outputs, picked = len(shapes), slice(None, None, step)
    u, y = recording.inputs[picked], recording.outputs[picked]
    time = np.arange(len(recording))[picked]
    driven = [np.asarray(lfilter([0.0, 1.0], [1.0, -pole], recording.inputs, axis=0))[picked] for pole in poles]
    tables = []
    for o in range(outputs):
        responses = np.hstack([c * d for c, d in zip(shapes[o], driven, strict=True)])
        decays = np.column_stack([c * pole**time for c, pole in zip(shapes[o], poles, strict=True)])
        direct = np.zeros((len(u), outputs, u.shape[1] + 1))
        direct[:, o] = np.column_stack([u, np.ones(len(u))])
        parts = [part for z in (decays, responses) for part in (np.real(z), -np.imag(z))]
        tables.append(np.hstack([*parts, direct.reshape(len(u), -1), y[:, [o]]])[np.isfinite(y[:, o])])
    return take_out(np.concatenate(tables), 2 * len(poles))


def _assemble(poles: np.ndarray, shapes: np.ndarray, weights: np.ndarray, inputs: int) -> StateSpace:
    """Real matrices in modal form: a real pole is one state, a pair is two."""
    modes, outputs = len(poles), len(shapes)
    gains = (weights[: modes * inputs] + 1j * weights[modes * inputs : 2 * modes * inputs]).reshape(modes, inputs)
    direct = weights[2 * modes * inputs :].reshape(outputs, inputs + 1)
    order = int(np.sum(np.where(np.imag(poles) > 0, 2, 1)))
    A, B, C = np.zeros((order, order)), np.zeros((order, inputs)), np.zeros((outputs, order))
    at = 0
    for pole, gain, shape in zip(poles, gains, shapes.T, strict=True):
        size = 2 if pole.imag > 0 else 1
        rows = slice(at, at + size)
        A[rows, rows] = np.array([[pole.real, -pole.imag], [pole.imag, pole.real]])[:size, :size]
        B[rows] = np.stack([gain.real, gain.imag])[:size]
        C[:, rows] = np.column_stack([shape.real, -shape.imag])[:, :size]
        at += size
    return StateSpace.of(A, B, C, direct[:, :-1], direct[:, -1])
