"""Linear state-space models by subspace identification."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mrgpssm.baselines.base import Report
from mrgpssm.baselines.linear import AbstractLinear, Rivals
from mrgpssm.data.ranges import Recording, RowFold
from mrgpssm.errors import FitError
from mrgpssm.training.linear import subspace
from mrgpssm.training.linear.subspace import SubspaceSearch, SubspaceSettings, list_settings
from mrgpssm.training.linear.trials import Trial


@dataclass(eq=False)
class Subspace(AbstractLinear):
    """A linear state-space model of all outputs together, identified by PO-MOESP and simulated freely.

    Order, horizon and stride are chosen for each output by the free-run error on left-out training data
    (`mrgpssm.training.linear.subspace`). Bands are the quantiles of left-out free-run residuals.
    """

    title = "subspace"
    failure = "Subspace: no order gives a finite free run; the inputs or outputs may be degenerate."
    joint = True
    threads = 1

    orders: tuple[int, ...] = subspace.ORDERS
    horizons: tuple[int, ...] = subspace.HORIZONS
    strides: tuple[int, ...] = subspace.STRIDES
    rows: int = subspace.ROWS
    fold_count: int = subspace.FOLDS

    def compete(self, recordings: list[Recording], split: list[RowFold], report: Report) -> Iterator[Rivals]:
        search, found = SubspaceSearch(recordings, self.rows), list[tuple[SubspaceSettings, np.ndarray]]()
        tried = list_settings(recordings, self.orders, self.horizons, self.strides)
        for (horizon, stride), alike in itertools.groupby(tried, lambda s: (s.horizon, s.stride)):
            report(f"horizon {horizon}, stride {stride}")
            runs = ((settings, search.run_left_out(settings, split)) for settings in alike)
            found += [(settings, run) for settings, run in runs if run is not None]
        if not found:
            raise FitError("Subspace: the recordings are too short or too constant for any order; give longer ones.")
        for column in range(recordings[0].outputs.shape[1]):
            yield [Trial(settings, runs[:, column]) for settings, runs in found], search.fit_whole
