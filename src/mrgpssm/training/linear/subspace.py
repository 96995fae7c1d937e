"""State-space models by subspace identification (PO-MOESP) of an order that left-out rows choose.

A and C come from the observability matrix (see `hankel`); poles outside the unit circle are reflected into it. B, D, an
offset and the initial state of every recording then minimise the error of the free run, a linear regression
(T. McKelvey, Identification of state-space models from time and frequency data, Linköping 1995; L. Ljung, System
Identification, 2nd ed., section 10.6). The poles of a single output can be refined by output-error steps
(`free_error`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

from mrgpssm.data.ranges import Recording, RowFold, RowRange, cut_tests, folds, judge, merge, take_tests, whole
from mrgpssm.training.linear.free_error import Stretch, minimise
from mrgpssm.training.linear.hankel import Modes, Observability, View, factor
from mrgpssm.training.linear.regression import compress, solve, take_out
from mrgpssm.training.linear.statespace import LARGEST_POLE, StateSpace, limit
from mrgpssm.training.linear.trials import run_left_out

ORDERS = (1, 2, 3, 4, 6, 8, 10)
HORIZONS, STRIDES = (8, 20), (1, 8)
ROWS = 10_000  # at most about so many are fitted
FOLDS = 3
_LEVEL = 0.02  # of log mean squared error: differences that do not speak for a higher order
_EVALUATIONS = 20  # of the error, to refine poles
_RUNS = 40  # short runs over rows left out that a model is judged by


@dataclass(frozen=True)
class SubspaceSettings:
    """Number of states, rows of past and future in the Hankel matrices, and how many data rows each averages.

    `refined` poles minimise the error of the free run.
    """

    order: int
    horizon: int
    stride: int
    refined: bool = False


@dataclass(frozen=True, eq=False)
class SubspaceSearch:
    """Models of some recordings, all outputs together, for any settings and row ranges; factors are kept.

    Without `direct`, D is zero. No pole has a modulus above `largest`, but so many `integrators` are at 1. With a
    `reach`, a model is fitted to free runs of so many rows from states of their own, else to those over whole ranges.
    """

    recordings: list[Recording]
    rows: int = ROWS
    direct: bool = True
    largest: float = LARGEST_POLE
    integrators: int = 0
    reach: int = 0
    memo: dict = field(default_factory=dict)

    def fit(self, settings: SubspaceSettings, pieces: tuple[RowRange, ...]) -> StateSpace | None:
        """The model of these row ranges; None where they do not support the order."""
        seen = observe(self.recordings, pieces, View(settings.horizon, settings.stride), self.memo)
        modes, own = seen.modes(settings.order, self.largest, self.integrators), cut_out(self.recordings, pieces)
        if modes is not None and settings.refined:
            modes = refine(modes, own, self.rows, self.direct, self.largest)
        return None if modes is None else fit_inputs(modes, own, self.rows, self.direct, self.reach)

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
    """A linear model of all recordings, and the root mean square error (D_y,) of free runs over rows left out.

    With a `reach`, these are runs of so many rows.
    """

    settings: SubspaceSettings
    model: StateSpace
    errors: np.ndarray
    reach: int = 0


def identify(
    recordings: list[Recording],
    most: int = ORDERS[-1],
    direct: bool = False,
    largest: float = LARGEST_POLE,
    integrators: int = 0,
    reach: int = 0,
) -> Identified | None:
    """The model of the smallest order, up to `most`, that is as good as any on rows left out, where there is one.

    That of a single output has refined poles where these are better on rows left out, but for those with integrators or
    a `reach`. With a reach, models are fitted and judged in free runs of so many rows: the best linear model of a
    nonlinear system over a few rows is another than over many, where it has lost the state anyway.
    """
    split = folds([len(r) for r in recordings], FOLDS)
    split = cut_tests(split, reach, _RUNS) if reach else split
    search = SubspaceSearch(recordings, ROWS, direct, largest, integrators, reach)
    measured = take_tests([r.outputs for r in recordings], split)
    found: list[tuple[float, SubspaceSettings, np.ndarray]] = []

    def attempt(settings: SubspaceSettings) -> None:
        held = search.run_left_out(settings, split)
        if held is None:
            return
        score, squares = float(np.mean(judge(held, measured, split))), (held - measured) ** 2
        counts = np.isfinite(squares).sum(axis=0)
        if np.isfinite(score) and counts.all():
            found.append((score, settings, np.sqrt(np.nansum(squares, axis=0) / counts)))

    with threadpool_limits(1, user_api="blas"):  # the matrices are small
        orders = tuple(o for o in ORDERS if integrators < o <= most) or (most,)
        for settings in list_settings(recordings, orders):
            attempt(settings)
        if found and not integrators and not reach and measured.shape[1] == 1:
            attempt(replace(_smallest(found)[0][1], refined=True))
        models = ((settings, search.fit_whole(settings), errors) for _, settings, errors in _smallest(found))
        return next((Identified(s, model, errors, reach) for s, model, errors in models if model is not None), None)


def _smallest(found: list[tuple[float, SubspaceSettings, np.ndarray]]) -> list:
    """Those whose scores are level with the best, smallest order first."""
    best = min((score for score, *_ in found), default=0.0)
    return sorted((f for f in found if f[0] <= best + _LEVEL), key=lambda f: (f[1].order, f[0]))


def refine(modes: Modes, recordings: list[Recording], rows: int, direct: bool, largest: float) -> Modes | None:
    """The modes of a single output whose poles, followed from these, minimise the error of the free run."""
    step = max(1, sum(map(len, recordings)) // rows)
    stretches = [Stretch(r.inputs, r.outputs[:, 0], step) for r in recordings]
    found = minimise(stretches, np.poly(modes.poles).real[1:], _EVALUATIONS, direct)
    if found is None or not np.isfinite(found.denominator).all():
        return None
    poles = limit(found.poles(), largest)
    return Modes(poles, np.ones((1, len(poles)), complex))


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


def fit_inputs(modes: Modes, recordings: list[Recording], rows: int, direct: bool = True, reach: int = 0) -> StateSpace:
    """B, c, initial states and, if `direct`, D with the least error of free runs over at most about `rows` rows.

    With a `reach`, there is a run with a start of its own every so many rows, as far as none has a missing output.
    """
    step = max(1, sum(map(len, recordings)) // rows)
    turning = np.imag(modes.poles)
    poles, shapes = modes.poles[turning >= 0], (modes.shapes * np.where(turning > 0, 2, 1))[:, turning >= 0]
    runs = [_cut_regression(_columns(poles, shapes, r, 1, direct), 2 * len(poles), reach) for r in recordings if reach]
    if sum(map(len, runs)):
        pieces = np.concatenate(runs)[::step]
        weights = solve(compress(pieces.reshape(-1, pieces.shape[-1])))
        errors = pieces @ np.append(-weights, 1.0)
        model = _assemble(poles, shapes, weights, recordings[0].inputs.shape[1])
        return model.settle(recordings, errors.reshape(len(errors), len(shapes), -1).transpose(0, 2, 1))
    table = np.concatenate([_regression(poles, shapes, r, step, direct) for r in recordings])
    return _assemble(poles, shapes, solve(compress(table)), recordings[0].inputs.shape[1]).settle(recordings)


def _cut_regression(columns: np.ndarray, states: int, reach: int) -> np.ndarray:
    """(pieces, D_y reach, columns) the regression in pieces of `reach` rows, each with its initial state taken out.

    The response to all inputs of the past is that to the inputs of a piece but for its initial state. Decays are the
    same in all pieces; those of the first one stand for all.
    """
    outputs, rows, width = columns.shape
    count = rows // reach
    if not count:
        return np.empty((0, outputs * reach, width - states))
    pieces = columns[:, : count * reach].reshape(outputs, count, reach, width).transpose(1, 0, 2, 3)
    pieces = pieces.reshape(count, outputs * reach, width)
    left, values, _ = np.linalg.svd(pieces[0, :, :states], full_matrices=False)
    basis, rest = left[:, values > 1e-9 * np.max(values, initial=1e-300)], pieces[..., states:]
    rest = rest[np.isfinite(rest).all(axis=(1, 2))]
    return rest - basis @ (basis.T @ rest)


def _regression(poles: np.ndarray, shapes: np.ndarray, recording: Recording, step: int, direct: bool) -> np.ndarray:
    """The rows of all outputs with a measurement, without decays: the initial state is taken out."""
    rows = np.concatenate(_columns(poles, shapes, recording, step, direct))
    return take_out(rows[np.isfinite(rows[:, -1])], 2 * len(poles))


def _columns(poles: np.ndarray, shapes: np.ndarray, recording: Recording, step: int, direct: bool) -> np.ndarray:
    """(D_y, T, columns): Re and Im of decays, of every mode's response to every input, ramps, inputs and 1, and y.

    Integrators have ramps, their response to 1, and in place of an offset their start.
    """
    outputs, picked = len(shapes), slice(None, None, step)
    u, y = recording.inputs[picked], recording.outputs[picked]
    time, adding = np.arange(len(recording))[picked], poles == 1
    driven = [np.asarray(lfilter([0.0, 1.0], [1.0, -pole], recording.inputs, axis=0))[picked] for pole in poles]
    tables = []
    for o in range(outputs):
        responses = np.hstack([c * d for c, d in zip(shapes[o], driven, strict=True)])
        decays = np.column_stack([c * pole**time for c, pole in zip(shapes[o], poles, strict=True)])
        offset = np.full(len(u), 0.0 if adding.any() else 1.0)
        own = np.column_stack([u, offset] if direct else [offset])
        straight = np.zeros((len(u), outputs, own.shape[1]))
        straight[:, o] = own
        parts = [part for z in (decays, responses) for part in (np.real(z), -np.imag(z))]
        ramps = time[:, None] * np.real(shapes[o, adding])
        tables.append(np.hstack([*parts, ramps, straight.reshape(len(u), -1), y[:, [o]]]))
    return np.stack(tables)


def _assemble(poles: np.ndarray, shapes: np.ndarray, weights: np.ndarray, inputs: int) -> StateSpace:
    """Real matrices in modal form: a real pole is one state, a pair is two."""
    modes, outputs = len(poles), len(shapes)
    gains = (weights[: modes * inputs] + 1j * weights[modes * inputs : 2 * modes * inputs]).reshape(modes, inputs)
    adding = poles == 1
    ramps, straight = np.split(weights[2 * modes * inputs :], [np.sum(adding)])
    straight, drifts = straight.reshape(outputs, -1), np.zeros(modes)
    drifts[adding] = ramps
    D = straight[:, :-1] if straight.shape[1] > 1 else np.zeros((outputs, inputs))
    order = int(np.sum(np.where(np.imag(poles) > 0, 2, 1)))
    A, B, C, b = np.zeros((order, order)), np.zeros((order, inputs)), np.zeros((outputs, order)), np.zeros(order)
    at = 0
    for pole, gain, shape, drift in zip(poles, gains, shapes.T, drifts, strict=True):
        size = 2 if pole.imag > 0 else 1
        rows = slice(at, at + size)
        A[rows, rows] = np.array([[pole.real, -pole.imag], [pole.imag, pole.real]])[:size, :size]
        B[rows] = np.stack([gain.real, gain.imag])[:size]
        C[:, rows] = np.column_stack([shape.real, -shape.imag])[:, :size]
        b[at], at = drift, at + size
    return StateSpace.of(A, B, C, D, straight[:, -1], b)
