"""Sequences as users hand them over: one or many, alike, long enough, columns in any order."""

from collections.abc import Iterable

import numpy as np

from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import DataError


def as_list(sequences: Sequence | Iterable[Sequence]) -> list[Sequence]:
    """One sequence or many, as a list of at least one."""
    found = [sequences] if isinstance(sequences, Sequence) else list(sequences)
    if not found:
        raise DataError("There is no sequence to learn from or to score; give at least one.")
    for item in found:
        if not isinstance(item, Sequence):
            kind = type(item).__name__
            raise DataError(f"Give Sequence objects; got {kind}. Sequence(inputs, outputs, dt) makes one.")
    return found


def check_alike(sequences: list[Sequence]) -> None:
    """All sequences have the same columns and the same sampling time."""
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
    """At every resolution at least one sequence holds a whole window."""
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


def match(sequence: Sequence, input_names: tuple[str, ...], output_names: tuple[str, ...], dt: float) -> Sequence:
    """The sequence with the given columns in the given order, found by name."""
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
    return Sequence(
        sequence.inputs[:, columns["input"]],
        sequence.outputs[:, columns["output"]],
        sequence.dt,
        sequence.time,
        input_names,
        output_names,
        sequence.units,
        sequence.name,
    )
