"""One recording: inputs and outputs at common times."""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from mrgpssm.errors import DataError
from mrgpssm.gaps import checked_time

Names = SequenceOf[str]


@dataclass(frozen=True, eq=False)
class Sequence:
    """Inputs (T, D_u) and outputs (T, D_y) of one recording.

    Row i holds the input u_i that acts from time i to the next, and the output y_i measured at time i. Missing outputs
    are NaN; missing inputs are an error. Time is either even, `dt` apart, or given per row in `time` (increasing).

        Sequence(inputs=u, outputs=y, dt=0.1, input_names=("speed", "load"), output_names=("NOx",))

    Attributes:
        inputs: Inputs, (T, D_u), all finite; a single column is (T, 1).
        outputs: Outputs, (T, D_y), NaN where nothing was measured.
        dt: Seconds between rows; the model's unit of time, the same for all sequences of a fit.
        time: Seconds of each row, (T,), where sampling is uneven.
        input_names: Names of the inputs; without them u1, u2, ...
        output_names: Names of the outputs; without them y1, y2, ...
        units: Units by column name, for tables and figures.
        name: What messages and reports call this recording.

    Raises:
        DataError: Shapes, names or values cannot be used; the message names the first place.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    dt: float = 1.0
    time: np.ndarray | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    name: str = "sequence"

    def __post_init__(self):
        inputs, outputs = (_matrix(getattr(self, k), k, self.name) for k in ("inputs", "outputs"))
        if len(inputs) != len(outputs):
            raise DataError(
                f"{self.name}: inputs have {len(inputs)} rows and outputs {len(outputs)}; give both one row per time."
            )
        if len(inputs) < 2:
            raise DataError(f"{self.name}: a sequence needs at least 2 rows; got {len(inputs)}.")
        _set(self, "inputs", inputs)
        _set(self, "outputs", outputs)
        _set(self, "input_names", _names(self.input_names, "u", inputs.shape[1], "inputs", self.name))
        _set(self, "output_names", _names(self.output_names, "y", outputs.shape[1], "outputs", self.name))
        _finite(inputs, self.input_names, self.name)
        if np.isinf(outputs).any():
            row, column = np.argwhere(np.isinf(outputs))[0]
            raise DataError(
                f"{self.name}: output {self.output_names[column]!r} is infinite in row {row}; "
                "mark missing outputs as NaN."
            )
        if not (np.isfinite(self.dt) and self.dt > 0):
            raise DataError(f"{self.name}: dt must be a positive number of seconds; got {self.dt}.")
        if self.time is not None:
            _set(self, "time", _frozen(checked_time(self.time, len(inputs), self.name)))

    @classmethod
    def from_dataframe(
        cls, table: pd.DataFrame, inputs: Names, outputs: Names, dt: float = 1.0, name: str = "table"
    ) -> "Sequence":
        """Columns of a DataFrame by name; its rows are `dt` apart.

        Args:
            table: The table; `read_sequences` takes tables with a time column, too.
            inputs: Names of the input columns.
            outputs: Names of the output columns.
            dt: Seconds between rows.
            name: What messages call it.

        Returns:
            The sequence.

        Raises:
            DataError: A column is missing, or its values cannot be used.
        """
        for kind, names in (("input", inputs), ("output", outputs)):
            missing = [column for column in names if column not in table.columns]
            if missing:
                have = ", ".join(map(str, table.columns))
                raise DataError(f"{name}: {kind} column {missing[0]!r} is missing; the table has {have}.")
        u, y = (table[list(names)].to_numpy() for names in (inputs, outputs))
        return cls(u, y, dt, None, tuple(inputs), tuple(outputs), {}, name)

    def __len__(self) -> int:
        return len(self.inputs)

    def clock(self) -> np.ndarray:
        """Times since the first row, in units of dt: 0, 1, 2, ... where sampling is even.

        Returns:
            An array (T,).
        """
        if self.time is None:
            return np.arange(len(self), dtype=float)
        return (self.time - self.time[0]) / self.dt


def _set(sequence: Sequence, name: str, value: object) -> None:
    object.__setattr__(sequence, name, value)


def _matrix(values, kind: str, name: str) -> np.ndarray:
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {kind} must be numbers; got {type(values).__name__} ({error}).") from None
    if array.ndim != 2:
        hint = "reshape a single column with [:, None]" if array.ndim == 1 else "give rows of times and columns"
        raise DataError(f"{name}: {kind} must have shape (T, D); got {array.shape}; {hint}.")
    return _frozen(array)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _names(names: Names, prefix: str, count: int, kind: str, name: str) -> tuple[str, ...]:
    if not names:
        return tuple(f"{prefix}{i + 1}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{name}: {len(names)} names for {count} {kind}: {', '.join(names)}.")
    if len(set(names)) != count:
        raise DataError(f"{name}: the names of the {kind} repeat: {', '.join(names)}.")
    return tuple(str(n) for n in names)


def _finite(inputs: np.ndarray, names: Names, name: str) -> None:
    bad = ~np.isfinite(inputs)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"{name}: input {names[column]!r} is not finite in row {row} ({int(bad.sum())} such values); "
            "fill or cut missing inputs before fitting."
        )
