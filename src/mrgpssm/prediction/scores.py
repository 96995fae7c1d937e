"""The table of scores: what it needs of a run, row by row, and what it says of all of them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from mrgpssm.data import Scaling
from mrgpssm.errors import DataError
from mrgpssm.prediction import metrics
from mrgpssm.prediction.forecast import Predictive
from mrgpssm.runtime.output import Measurements

_EDGES = (0.025, 0.05, 0.25, 0.75, 0.95, 0.975)  # of the bands that are scored
_COLUMNS = ["rmse", "nrmse", "fit_percent", "nll", "nll_gaussian", "crps", "coverage_50", "coverage_90", "coverage_95"]

Table = dict[str, np.ndarray]  # columns of numbers, one for every row and output


def score_terms(found: Measurements, measured: np.ndarray, rows: np.ndarray, seed: int, scaling: Scaling) -> Table:
    """What the metrics need of every row, in the data's units; the CRPS is that of draws.

    `measured` is scaled, as what was `found`; `rows` are the numbers of the rows in their sequence.
    """
    return list_terms(found, measured, metrics.crps_terms(measured, found.draws(rows, seed)), scaling)


def list_terms(found: Predictive, measured: np.ndarray, crps: np.ndarray, scaling: Scaling) -> Table:
    """What the metrics need of every row, in the data's units, given the CRPS of every row, scaled."""
    offset, sd = scaling.output_mean, scaling.output_sd
    levels = zip(_EDGES, found.quantiles(_EDGES), strict=True)
    return {
        "measured": offset + sd * measured,
        "mean": offset + sd * found.mean,
        "std": sd * found.std,
        "nll": found.nll(measured) + np.log(sd),
        "crps": sd * crps,
        **{f"q{level:g}": offset + sd * values for level, values in levels},
    }


def tabulate_scores(tables: Iterable[Table], names: tuple[str, ...]) -> pd.DataFrame:
    """One row per output over the rows of all tables, errors in the data's units.

    `nll` and `crps` are means of their columns, `nll_gaussian` is of N(mean, std²); coverages are shares.
    """
    tables = list(tables)
    terms = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    measured, mean = terms["measured"], terms["mean"]
    for column, name in enumerate(names):
        if np.isnan(measured[:, column]).all():
            raise DataError(f"Output {name!r} has no measured value to be scored against; give data that has it.")
    found = metrics.summarise(measured, mean, terms["std"], {level: terms[f"q{level:g}"] for level in _EDGES})
    found |= {name: np.nanmean(terms[name], axis=0) for name in ("nll", "crps")}
    return pd.DataFrame(found, pd.Index(names, name="output"), _COLUMNS)
