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
        first, *_ = sequences = list(sequences)
        inputs, outputs = _stack(sequences)
        for column, name in enumerate(first.output_names):
            if np.isnan(outputs[:, column]).all():
                raise DataError(f"Output {name!r} has no measured value in the training data; leave it out.")
        with np.errstate(over="ignore", invalid="ignore"):  # squares of huge values; the check below tells
            scaling = cls(inputs.mean(0), inputs.std(0), np.nanmean(outputs, 0), np.nanstd(outputs, 0))
        _check_spread(scaling.input_mean, scaling.input_sd, first.input_names, "Input")
        _check_spread(scaling.output_mean, scaling.output_sd, first.output_names, "Output")
        return scaling

    def refit(self, part: Iterable[Sequence]) -> "Scaling":
        """Means and deviations over a part of the data, in which a column may be constant.

        The deviation of a constant column is the absolute value of its mean, or 1 if the mean is 0. An output that is
        never measured in the part keeps its scaling.
        """
        inputs, outputs = _stack(list(part))
        blank = np.isnan(outputs).all(0)
        outputs = np.where(blank, 0.0, outputs)
        mean, sd = np.nanmean(outputs, 0), np.nanstd(outputs, 0)
        return Scaling(
            input_mean=inputs.mean(0),
            input_sd=_spread(inputs.mean(0), inputs.std(0)),
            output_mean=np.where(blank, self.output_mean, mean),
            output_sd=np.where(blank, self.output_sd, _spread(mean, sd)),
        )

    def inputs(self, values: np.ndarray) -> np.ndarray:
        """Inputs in training standard deviations."""
        return (values - self.input_mean) / self.input_sd

    def outputs(self, values: np.ndarray) -> np.ndarray:
        """Outputs in training standard deviations."""
        return (values - self.output_mean) / self.output_sd


def _stack(sequences: list[Sequence]) -> tuple[np.ndarray, np.ndarray]:
    """The inputs and the outputs of all rows."""
    return np.concatenate([s.inputs for s in sequences]), np.concatenate([s.outputs for s in sequences])


def _varies(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    return sd > 1e-12 * abs(mean)


def _spread(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    return np.where(_varies(mean, sd), sd, np.where(mean != 0, abs(mean), 1.0))


def _check_spread(mean: np.ndarray, sd: np.ndarray, names: tuple[str, ...], kind: str) -> None:
    for column, name in enumerate(names):
        if not np.isfinite(sd[column]):
            raise DataError(
                f"{kind} {name!r} has values too large to be scaled (above 1e150); give it in another unit."
            )
        if not _varies(mean, sd)[column]:
            raise DataError(
                f"{kind} {name!r} is constant ({mean[column]:g}) in the training data; "
                "leave it out, or train on data that varies it."
            )
