"""Scores of baselines: the columns of `MRGPSSM.score`, in the same units."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mrgpssm.baselines.bands import QuantileBands
from mrgpssm.data import Scaling
from mrgpssm.errors import DataError
from mrgpssm.prediction import metrics
from mrgpssm.prediction.forecast import LEVELS

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
    seen = np.concatenate(measured)
    for column, name in enumerate(names):
        if np.isnan(seen[:, column]).all():
            raise DataError(f"Output {name!r} has no measured value to be scored against; give data that has it.")
    tables = [_terms(run, scaling.outputs(y)) for run, y in zip(runs, measured, strict=True)]
    terms = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    sd, mean = scaling.output_sd, scaling.output_mean + scaling.output_sd * terms["mean"]
    scaled = scaling.outputs(seen)
    return pd.DataFrame(
        {
            "rmse": metrics.rmse(seen, mean),
            "nrmse": metrics.nrmse(seen, mean),
            "fit_percent": metrics.fit_percent(seen, mean),
            "nll": np.nanmean(terms["nll"], axis=0) + np.log(sd),
            "nll_gaussian": metrics.gaussian_nll(seen, mean, sd * terms["std"]),
            "crps": sd * np.nanmean(terms["crps"], axis=0),
            "coverage_50": metrics.coverage(scaled, terms["q0.25"], terms["q0.75"]),
            "coverage_90": metrics.coverage(scaled, terms["q0.05"], terms["q0.95"]),
            "coverage_95": metrics.coverage(scaled, terms["q0.025"], terms["q0.975"]),
        },
        index=pd.Index(names, name="output"),
    )


def _terms(run: Predictive, measured: np.ndarray) -> dict[str, np.ndarray]:
    """The values per row that the metrics of one run need, in scaled units."""
    bands = run.bands
    terms = {f"q{level:g}": values for level, values in zip(LEVELS, bands.values, strict=True)}
    terms |= {"mean": run.mean, "std": bands.std(), "nll": -bands.log_density(measured)}
    terms["crps"] = metrics.quantile_crps_terms(measured, bands.grid(_GRID))
    return terms
