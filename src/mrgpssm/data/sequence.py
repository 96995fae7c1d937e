"""One recording: inputs and outputs at common times."""

from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from mrgpssm.arrays.gaps import checked_time
from mrgpssm.data.columns import Block, check_values, read_block, sample_index
from mrgpssm.errors import DataError

Names = SequenceOf[str]


@dataclass(frozen=True, eq=False)
class Sequence:
    """Inputs (T, D_u) and outputs (T, D_y) of one recording.

    Row i holds the input u_i that acts from time i to the next, and the output y_i measured at time i. Missing outputs
    are NaN; missing inputs are an error. Time is either even, `dt` apart, or given per row in `time` (increasing).

        Sequence(inputs=u, outputs=y, dt=0.1, input_names=("speed", "load"), output_names=("NOx",))
        Sequence(inputs=table[["speed", "load"]], outputs=table["NOx"])

    Inputs and outputs may be tables or Series: names are theirs, and `input_names` and `output_names` pick columns by
    name. An index of dates or durations is the time: `dt` is its median step, and uneven times go into `time`. The
    columns of an array are taken by position; an array of one dimension is one column.

    Attributes:
        inputs: Inputs, (T, D_u), all finite.
        outputs: Outputs, (T, D_y), NaN where nothing was measured.
        dt: Seconds between rows; the model's unit of time, the same for all sequences of a fit. Left out, it is the
            median step of an index of times, else 1 s.
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
    dt: float = field(default=cast(float, None))  # a number once the sequence is made
    time: np.ndarray | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    name: str = "sequence"

    def __post_init__(self):
        u = read_block(self.inputs, self.input_names, "input", self.name)
        y = read_block(self.outputs, self.output_names, "output", self.name)
        rows = len(u.values)
        if rows != len(y.values):
            raise DataError(
                f"{self.name}: inputs have {rows} rows and outputs {len(y.values)}; give both one row per time."
            )
        if rows < 2:
            raise DataError(f"{self.name}: a sequence needs at least 2 rows; got {rows}.")
        _set(self, "inputs", _freeze(u.values))
        _set(self, "outputs", _freeze(y.values))
        _set(self, "input_names", _names(u, "u", "inputs", self.name))
        _set(self, "output_names", _names(y, "y", "outputs", self.name))
        check_values(self.inputs, "input", self.input_names, self.name)
        check_values(self.outputs, "output", self.output_names, self.name)
        if self.dt is not None and not (np.isfinite(self.dt) and self.dt > 0):
            raise DataError(f"{self.name}: dt must be a positive number of seconds; got {self.dt}.")
        index = _common(u.times, y.times, self.name)
        if self.time is not None:
            _set(self, "time", _freeze(checked_time(self.time, rows, self.name)))
        elif index is not None:
            sampling = sample_index(index, self.dt, "irregular", self.name)
            _set(self, "dt", sampling.dt)
            _set(self, "time", None if sampling.time is None else _freeze(sampling.time))
        _set(self, "dt", 1.0 if self.dt is None else float(self.dt))

    @classmethod
    def from_dataframe(
        cls, table: pd.DataFrame, inputs: Names, outputs: Names, dt: float | None = None, name: str = "table"
    ) -> "Sequence":
        """Columns of a DataFrame by name.

        Args:
            table: The table; an index of dates or durations is its time.
            inputs: Names of the input columns.
            outputs: Names of the output columns.
            dt: Seconds between rows, as for a `Sequence`.
            name: What messages call it.

        Returns:
            The sequence.

        Raises:
            DataError: A column is missing, or its values cannot be used.
        """
        more: dict[str, Any] = {} if dt is None else {"dt": dt}
        values: Any = table
        return cls(values, values, input_names=tuple(inputs), output_names=tuple(outputs), name=name, **more)

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

    def take(self, rows: slice, name: str | None = None) -> "Sequence":
        """Some consecutive rows, with their times.

        Args:
            rows: Which rows.
            name: What messages call them; left out, it is the name of the whole.

        Returns:
            The sequence of these rows.
        """
        time = None if self.time is None else self.time[rows]
        name = self.name if name is None else name
        return replace(self, inputs=self.inputs[rows], outputs=self.outputs[rows], time=time, name=name)


def each_column(sequences: list[Sequence]) -> Iterator[tuple[str, str, list[np.ndarray]]]:
    """Kind (input or output), name and values, one array for each sequence, of every column."""
    for kind in ("input", "output"):
        for column, name in enumerate(getattr(sequences[0], f"{kind}_names")):
            yield kind, name, [getattr(s, f"{kind}s")[:, column] for s in sequences]


def take_outputs(sequence: Sequence, names: Names) -> Sequence:
    """A sequence with some of its outputs."""
    columns = [sequence.output_names.index(name) for name in names]
    return replace(sequence, outputs=sequence.outputs[:, columns], output_names=tuple(names))


def _set(sequence: Sequence, name: str, value: object) -> None:
    object.__setattr__(sequence, name, value)


def _freeze(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _names(block: Block, prefix: str, kind: str, name: str) -> tuple[str, ...]:
    names, count = block.names, block.values.shape[1]
    if not names:
        return tuple(f"{prefix}{i + 1}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{name}: {count} columns were given for {len(names)} {kind}: {', '.join(names)}.")
    if len(set(names)) != count:
        raise DataError(f"{name}: the names of the {kind} repeat: {', '.join(names)}.")
    return names


def _common(inputs: pd.Index | None, outputs: pd.Index | None, name: str) -> pd.Index | None:
    """The times of inputs and outputs; if both have times, they must be the same."""
    if inputs is None or outputs is None:
        return outputs if inputs is None else inputs
    if not inputs.equals(outputs):
        raise DataError(f"{name}: the time indices of inputs and outputs differ; give both the same rows.")
    return inputs
