"""Zero mean and unit variance, fitted on training data only (paper, supplement E.3)."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError


@dataclass(frozen=True)
class Scaling:
    """Means and standard deviations of every input and output column."""

    input_mean: np.ndarray
    input_sd: np.ndarray
    output_mean: np.ndarray
    output_sd: np.ndarray

    @classmethod
    def fit(cls, sequences: Iterable[Sequence]) -> "Scaling":
        """Means and deviations over all rows of all sequences; missing outputs do not count."""
        sequences = list(sequences)
        first = sequences[0]
        inputs = np.concatenate([s.inputs for s in sequences])
        outputs = np.concatenate([s.outputs for s in sequences])
        for column, name in enumerate(first.output_names):
            if np.isnan(outputs[:, column]).all():
                raise DataError(f"Output {name!r} has no measured value in the training data; leave it out.")
        with np.errstate(over="ignore", invalid="ignore"):  # squares of huge values; the check below tells
            statistics = inputs.mean(0), inputs.std(0), np.nanmean(outputs, 0), np.nanstd(outputs, 0)
        scaling = cls(*statistics)
        _check_spread(scaling.input_mean, scaling.input_sd, first.input_names, "Input")
        _check_spread(scaling.output_mean, scaling.output_sd, first.output_names, "Output")
        return scaling

    def inputs(self, values: np.ndarray) -> np.ndarray:
        """Inputs in units of their training deviation."""
        return (values - self.input_mean) / self.input_sd

    def outputs(self, values: np.ndarray) -> np.ndarray:
        """Outputs in units of their training deviation."""
        return (values - self.output_mean) / self.output_sd


def _check_spread(mean: np.ndarray, sd: np.ndarray, names: tuple[str, ...], kind: str) -> None:
    for column, name in enumerate(names):
        if not np.isfinite(sd[column]):
            raise DataError(
                f"{kind} {name!r} has values too large to be scaled (above 1e150); give it in another unit."
            )
        if not sd[column] > 1e-12 * abs(mean[column]):
            raise DataError(
                f"{kind} {name!r} is constant ({mean[column]:g}) in the training data; "
                "leave it out, or train on data that varies it."
            )
