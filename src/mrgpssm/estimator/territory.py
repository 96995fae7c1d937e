"""The territory of training: which rows it has seen, and how errors grow outside (`mrgpssm.runtime.territory`)."""

from dataclasses import replace

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.predict import FreeRuns, Piece
from mrgpssm.prediction.scores import Table
from mrgpssm.runtime.output import Measurements
from mrgpssm.runtime.territory import Territory, nearest

_ROWS, _POINTS = 4_000, 300  # of training that are looked at, evenly spread; that are kept
_STRETCHES = 5  # that rows are left out in
_SHARE = 0.95  # of the rows that are not new
_LEAST = 50  # rows
_SMALLEST = 1e-3  # reach, in deviations: data on a grid may have no distances at all
_GROWTHS = np.linspace(0.0, 2.0, 41)
_USUAL, _TRUST = 0.5, 20.0  # the growth that is expected, and how many rows speak for it
_ALIKE = 20  # rows in a row that say the same


def map_territory(model: FittedModel, training: list[Sequence]) -> FittedModel:
    """The model with its territory; without one where rows are few. Rows without any output count nowhere."""
    rows = np.concatenate([_list_rows(model, s) for s in training])
    rows = rows[:: max(1, len(rows) // _ROWS)]
    if len(rows) < _LEAST:
        return replace(model, territory=None)
    groups = np.arange(len(rows)) * _STRETCHES // len(rows)
    apart = [nearest(rows[groups == k], spread_out(rows[groups != k], _POINTS)) for k in range(_STRETCHES)]
    reach = max(float(np.quantile(np.concatenate(apart), _SHARE)), _SMALLEST)
    growth = np.full(len(model.output_names), _USUAL)
    return replace(model, territory=Territory(spread_out(rows, _POINTS), np.array(reach), growth))


def _list_rows(model: FittedModel, sequence: Sequence) -> np.ndarray:
    """[u, y] of the rows with an output; one that is missing there is between its neighbours."""
    drive, outputs = model.drive(sequence), model.scaling.outputs(sequence.outputs)
    clock, known = np.arange(len(outputs)), ~np.isnan(outputs)
    filled = [
        np.interp(clock, clock[seen], y[seen]) if seen.any() else np.zeros(len(y))
        for y, seen in zip(outputs.T, known.T, strict=True)
    ]
    return np.column_stack([drive, *filled])[known.any(axis=1)]


def spread_out(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows that cover all others: each next one is the farthest from those before it."""
    chosen, away = [0], np.full(len(rows), np.inf)
    for _ in range(min(count, len(rows)) - 1):
        away = np.minimum(away, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(away.argmax()))
    return rows[chosen]


def learn_growth(runs: list[FreeRuns], thin: slice) -> np.ndarray:
    """(D_y,) the exponent by which errors grow with the alarm, in runs over data that training has not seen.

    Of normal errors, those where nothing rings have deviation 1, the others alarm^growth. Neighbouring rows say the
    same, and twenty count as one; a growth of 1/2 is expected, as if so many rows had shown it.
    """

    def tell(_: Piece, found: Measurements, measured: np.ndarray) -> Table:
        return {"alarm": found.alarm[:, None], "error": (measured - found.mean) / (found.std / found.stretch)}

    tables = [table for some in runs for table in some.gather(tell, thin)]
    alarm, errors = (np.concatenate([table[name] for table in tables]) for name in ("alarm", "error"))
    return np.array([_fit_growth(alarm[:, 0], error) for error in errors.T])


def grow(territory: Territory | None, growth: np.ndarray) -> Territory | None:
    """The same territory with another growth, where there is one."""
    return None if territory is None else replace(territory, growth=growth)


def _fit_growth(alarm: np.ndarray, error: np.ndarray) -> float:
    known = ~np.isnan(error)
    rings, quiet = known & (alarm > 1), error[known & (alarm <= 1)]
    size = np.sqrt(np.mean(quiet**2)) if len(quiet) else 0.0
    if not rings.any() or not size > 0:
        return _USUAL
    far, squares = np.log(alarm[rings]), (error[rings] / size) ** 2
    costs = [np.sum(g * far + 0.5 * squares * np.exp(-2 * g * far)) / _ALIKE for g in _GROWTHS]
    return float(_GROWTHS[np.argmin(costs + _TRUST / 2 * (_GROWTHS - _USUAL) ** 2)])
