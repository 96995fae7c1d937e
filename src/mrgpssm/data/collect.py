"""Check and convert the data that users pass: one recording or many, sequences or tables."""

from collections.abc import Iterable, Mapping, Sized
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd

from mrgpssm.data.columns import is_table
from mrgpssm.data.readers import as_frame
from mrgpssm.data.sequence import Sequence
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.errors import DataError

Names = tuple[str, ...]
Recording = Sequence | pd.DataFrame | Mapping[str, Any]
Data = Recording | Iterable[Recording]
Inputs = Sequence | pd.DataFrame | pd.Series | Mapping[str, Any] | np.ndarray
Warmup = Sequence | tuple[np.ndarray, np.ndarray]


def as_list(
    data: Data, inputs: SequenceOf[str] = (), outputs: SequenceOf[str] = (), dt: float | None = None
) -> list[Sequence]:
    """One recording or many, sequences or tables, as a list of at least one sequence.

    Args:
        data: A sequence, a table, or several of these.
        inputs: Names of the input columns; tables need them, and of a sequence's columns these are kept.
        outputs: Names of the output columns.
        dt: Seconds between rows.

    Returns:
        The sequences; uneven times of a table are kept as they are.

    Raises:
        DataError: There is nothing, a column is missing, or something is neither a sequence nor a table.
    """
    one = isinstance(data, Sequence) or is_table(data)
    found: list[Any] = [data] if one else list(cast(Iterable[Any], data))
    if not found:
        raise DataError("There is no sequence to learn from or to score; give at least one.")
    named = bool(inputs or outputs)
    if named and all(is_table(item) for item in found):
        columns = Columns(cast(Names, inputs), cast(Names, outputs), None, dt)
        return read_sequences(data if is_table(data) else found, columns, gaps="irregular")
    for item in found:
        if is_table(item):
            raise DataError("Say which columns of the tables are what: fit(tables, inputs=[...], outputs=[...]).")
        if not isinstance(item, Sequence):
            kind = type(item).__name__
            raise DataError(f"Give Sequence objects or tables; got {kind}. Sequence(inputs, outputs, dt) makes one.")
    if not named:
        return found
    return [match(s, tuple(inputs), tuple(outputs), dt or s.dt) for s in found]


def as_inputs(inputs: Inputs, input_names: Names, output_names: Names, dt: float) -> Sequence:
    """The inputs of a simulation as a sequence with the model's columns.

    Columns of a sequence, a table or a Series are found by name; those of an array are taken by position.
    """
    if isinstance(inputs, Sequence):
        return match(inputs, input_names, output_names, dt)
    if is_table(inputs):
        frame = as_frame(inputs, "inputs")
        inputs = frame if input_names else np.zeros((len(frame), 0))
    rows = len(inputs) if np.iterable(inputs) and isinstance(inputs, Sized) else 0
    blank = np.full((rows, len(output_names)), np.nan)
    return Sequence(cast(np.ndarray, inputs), blank, dt, None, input_names, output_names, {}, "inputs")


def as_warmup(warmup: Warmup, input_names: Names, output_names: Names, dt: float) -> Sequence:
    """The stretch just before a run, as a sequence of the model's columns."""
    if isinstance(warmup, Sequence):
        return match(warmup, input_names, output_names, dt)
    if not (isinstance(warmup, tuple) and len(warmup) == 2):
        raise DataError("warmup must be a Sequence, or a pair (inputs, outputs) of arrays (T, D_u) and (T, D_y).")
    return Sequence(*warmup, dt, None, input_names, output_names, {}, "warmup")


def check_alike(sequences: list[Sequence]) -> None:
    """Check that all sequences have the same columns and the same sampling time."""
    first = sequences[0]
    for index, s in enumerate(sequences):
        for kind in ("input_names", "output_names"):
            if getattr(s, kind) != getattr(first, kind):
                raise DataError(
                    f"Sequence {index} ({s.name}) has {kind.replace('_', ' ')} {', '.join(getattr(s, kind))}; "
                    f"the first has {', '.join(getattr(first, kind))}. All sequences need the same columns."
                )
        if not np.isclose(s.dt, first.dt):
            raise DataError(
                f"Sequence {index} ({s.name}) has dt = {s.dt:g} s, the first {first.dt:g} s; resample to one rate."
            )


def check_lengths(sequences: list[Sequence], resolutions: tuple[int, ...], window_steps: int) -> None:
    """Check that at every resolution at least one sequence is as long as a window."""
    longest = max(len(s) for s in sequences)
    for r in resolutions:
        need = window_steps * r + 1
        if longest < need:
            limit = (longest - 1) // window_steps
            remedy = f"Lower it to {limit} or less, or shorten" if limit else "Shorten"
            raise DataError(
                f"Each window needs {need} rows at resolution {r}; the longest sequence has {longest}. "
                f"{remedy} window and buffer."
            )


def match(sequence: Sequence, input_names: Names, output_names: Names, dt: float) -> Sequence:
    """The sequence with the given columns in the given order, matched by name."""
    columns = {}
    for kind, names in (("input", input_names), ("output", output_names)):
        have = getattr(sequence, f"{kind}_names")
        missing = [name for name in names if name not in have]
        if missing:
            raise DataError(
                f"{sequence.name}: {kind} {missing[0]!r} is missing; the model needs {', '.join(names)} and the "
                f"sequence has {', '.join(have)}."
            )
        columns[kind] = [have.index(name) for name in names]
    if not np.isclose(sequence.dt, dt):
        raise DataError(
            f"{sequence.name}: dt is {sequence.dt:g} s, the model's {dt:g} s; resample to the model's rate."
        )
    inputs, outputs = sequence.inputs[:, columns["input"]], sequence.outputs[:, columns["output"]]
    return replace(sequence, inputs=inputs, outputs=outputs, input_names=input_names, output_names=output_names)


def cut_warmup(sequence: Sequence, rows: int) -> tuple[Sequence | None, Sequence]:
    """The first rows of a sequence as a warm-up, None for no rows, and the rest; both with their times."""
    if rows == 0:
        return None, sequence
    if rows == 1:
        raise DataError(f"{sequence.name}: a warm-up of one row says nothing about a state; give 0, or 2 rows or more.")
    left = max(len(sequence) - rows, 0)
    if left < 2:
        raise DataError(f"{sequence.name}: a warm-up of {rows} rows leaves {left} of {len(sequence)} to simulate.")
    return sequence.take(slice(None, rows)), sequence.take(slice(rows, None))
