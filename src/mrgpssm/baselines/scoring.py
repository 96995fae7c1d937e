"""Scores of baselines: the columns of `MRGPSSM.score`, in the same units."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mrgpssm.baselines.bands import QuantileBands
from mrgpssm.data import Scaling
from mrgpssm.prediction import metrics
from mrgpssm.prediction.forecast import LEVELS
from mrgpssm.prediction.scores import Table, tabulate_scores

_GRID = 200  # levels of the pinball integral


@dataclass(frozen=True)
class Predictive:
    """Mean (T, D_y) and bands of a free run, in training standard deviations."""

    mean: np.ndarray
    bands: QuantileBands


def score_runs(
    runs: list[Predictive], measured: list[np.ndarray], scaling: Scaling, names: tuple[str, ...]
) -> pd.DataFrame:
    """One row per output, errors in the data's units.

    `nll` uses the density of the bands (`QuantileBands.log_density`), `nll_gaussian` N(mean, std²) with their standard
    deviation, and `crps` integrates the pinball loss of their quantiles. All are means per step.
    """
    tables = [_terms(run, y, scaling) for run, y in zip(runs, measured, strict=True)]
    return tabulate_scores(tables, names)


def _terms(run: Predictive, measured: np.ndarray, scaling: Scaling) -> Table:
    """What the metrics of one run need per row, in the data's units."""
    bands, offset, sd, scaled = run.bands, scaling.output_mean, scaling.output_sd, scaling.outputs(measured)
    return {
        "measured": measured,
        "mean": offset + sd * run.mean,
        "std": sd * bands.std(),
        "nll": np.log(sd) - bands.log_density(scaled),
        "crps": sd * metrics.quantile_crps_terms(scaled, bands.grid(_GRID)),
        **{f"q{level:g}": offset + sd * values for level, values in zip(LEVELS, bands.values, strict=True)},
    }
