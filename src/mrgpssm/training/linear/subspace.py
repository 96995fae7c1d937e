"""State-space models by subspace identification (PO-MOESP) of an order that left-out rows choose.

A and C come from the observability matrix (see `hankel`); poles outside the unit circle are reflected into it. B, D, an
offset and the initial state of every recording then minimise the error of the free run, a linear regression
(T. McKelvey, Identification of state-space models from time and frequency data, Linköping 1995; L. Ljung, System
Identification, 2nd ed., section 10.6).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

from mrgpssm.data.ranges import Recording, RowFold, RowRange, folds, judge, merge, take_tests, whole
from mrgpssm.training.linear.hankel import Modes, Observability, View, factor
from mrgpssm.training.linear.regression import compress, solve, take_out
from mrgpssm.training.linear.statespace import LARGEST_POLE, StateSpace
from mrgpssm.training.linear.trials import run_left_out

ORDERS = (1, 2, 3, 4, 6, 8, 10)
HORIZONS, STRIDES = (8, 20), (1, 8)
ROWS = 10_000  # at most about so many are fitted
FOLDS = 3
_LEVEL = 0.02  # of log mean squared error: differences that do not speak for a higher order


@dataclass(frozen=True)
class SubspaceSettings:
    """Number of states, rows of past and future in the Hankel matrices, and how many data rows each averages."""

    order: int
    horizon: int
    stride: int


@dataclass(frozen=True, eq=False)
class SubspaceSearch:
    """Models of some recordings, all outputs together, for any settings and row ranges; factors are kept.

    Without `direct`, D is zero. No pole has a modulus above `largest`.
    """

    recordings: list[Recording]
    rows: int = ROWS
    direct: bool = True
    largest: float = LARGEST_POLE
    memo: dict = field(default_factory=dict)

    def fit(self, settings: SubspaceSettings, pieces: tuple[RowRange, ...]) -> StateSpace | None:
        """The model of these row ranges; None where they do not support the order."""
        seen = observe(self.recordings, pieces, View(settings.horizon, settings.stride), self.memo)
        modes = seen.modes(settings.order, self.largest)
        return None if modes is None else fit_inputs(modes, cut_out(self.recordings, pieces), self.rows, self.direct)

    def fit_whole(self, settings: SubspaceSettings) -> StateSpace | None:
        """The model of all rows."""
        return self.fit(settings, whole([len(r) for r in self.recordings]))

    def run_left_out(self, settings: SubspaceSettings, split: list[RowFold]) -> np.ndarray | None:
        """Free runs (N, D_y) over what every fold leaves out; None where a fold does not support the order."""
        return run_left_out((self.fit(settings, fold.train) for fold in split), self.recordings, split)


def list_settings(
    recordings: list[Recording],
    orders: tuple[int, ...] = ORDERS,
    horizons: tuple[int, ...] = HORIZONS,
    strides: tuple[int, ...] = STRIDES,
) -> Iterator[SubspaceSettings]:
    """What can be tried on these recordings, view by view."""
    for view in usable_views(recordings, horizons, strides):
        yield from (SubspaceSettings(order, view.horizon, view.stride) for order in orders)


@dataclass(frozen=True)
class Identified:
    """A linear model of all recordings, and the root mean square error (D_y,) of free runs over rows left out."""

    settings: SubspaceSettings
    model: StateSpace
    errors: np.ndarray


def identify(
    recordings: list[Recording], most: int = ORDERS[-1], direct: bool = False, largest: float = LARGEST_POLE
) -> Identified | None:
    """The model of the smallest order, up to `most`, that is as good as any on rows left out, where there is one."""
    split, search = folds([len(r) for r in recordings], FOLDS), SubspaceSearch(recordings, ROWS, direct, largest)
    measured = take_tests([r.outputs for r in recordings], split)
    found: list[tuple[float, SubspaceSettings, np.ndarray]] = []
    with threadpool_limits(1, user_api="blas"):  # the matrices are small
        for settings in list_settings(recordings, tuple(order for order in ORDERS if order <= most)):
            held = search.run_left_out(settings, split)
            if held is None:
                continue
            score, squares = float(np.mean(judge(held, measured, split))), (held - measured) ** 2
            counts = np.isfinite(squares).sum(axis=0)
            if np.isfinite(score) and counts.all():
                found.append((score, settings, np.sqrt(np.nansum(squares, axis=0) / counts)))
        best = min((score for score, *_ in found), default=0.0)
        level = sorted((f for f in found if f[0] <= best + _LEVEL), key=lambda f: (f[1].order, f[0]))
        models = ((settings, search.fit_whole(settings), errors) for _, settings, errors in level)
        return next((Identified(s, model, errors) for s, model, errors in models if model is not None), None)


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


def fit_inputs(modes: Modes, recordings: list[Recording], rows: int, direct: bool = True) -> StateSpace:
    """B, c, initial states and, if `direct`, D with the least error of the free run over at most about `rows` rows."""
    step = max(1, sum(map(len, recordings)) // rows)
    turning = np.imag(modes.poles)
    poles, shapes = modes.poles[turning >= 0], (modes.shapes * np.where(turning > 0, 2, 1))[:, turning >= 0]
    table = np.concatenate([_regression(poles, shapes, r, step, direct) for r in recordings])
    weights = solve(compress(table))
    return _assemble(poles, shapes, weights, recordings[0].inputs.shape[1]).settle(recordings)


def _regression(poles: np.ndarray, shapes: np.ndarray, recording: Recording, step: int, direct: bool) -> np.ndarray:
    """Rows [Re and Im of every mode's response to every input, inputs and 1 per output, y], initial state taken out."""
    outputs, picked = len(shapes), slice(None, None, step)
    u, y = recording.inputs[picked], recording.outputs[picked]
    time = np.arange(len(recording))[picked]
    driven = [np.asarray(lfilter([0.0, 1.0], [1.0, -pole], recording.inputs, axis=0))[picked] for pole in poles]
    tables = []
    for o in range(outputs):
        responses = np.hstack([c * d for c, d in zip(shapes[o], driven, strict=True)])
        decays = np.column_stack([c * pole**time for c, pole in zip(shapes[o], poles, strict=True)])
        own = np.column_stack([u, np.ones(len(u))] if direct else [np.ones(len(u))])
        straight = np.zeros((len(u), outputs, own.shape[1]))
        straight[:, o] = own
        parts = [part for z in (decays, responses) for part in (np.real(z), -np.imag(z))]
        tables.append(np.hstack([*parts, straight.reshape(len(u), -1), y[:, [o]]])[np.isfinite(y[:, o])])
    return take_out(np.concatenate(tables), 2 * len(poles))


def _assemble(poles: np.ndarray, shapes: np.ndarray, weights: np.ndarray, inputs: int) -> StateSpace:
    """Real matrices in modal form: a real pole is one state, a pair is two."""
    modes, outputs = len(poles), len(shapes)
    gains = (weights[: modes * inputs] + 1j * weights[modes * inputs : 2 * modes * inputs]).reshape(modes, inputs)
    straight = weights[2 * modes * inputs :].reshape(outputs, -1)
    D = straight[:, :-1] if straight.shape[1] > 1 else np.zeros((outputs, inputs))
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
    return StateSpace.of(A, B, C, D, straight[:, -1])
