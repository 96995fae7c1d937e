"""A summary of the training data that a model keeps: input ranges, and hashes to recognise training rows.

Rows are recognised by content, whatever the file is called. Every run of eight rows that are not all equal has a 64-bit
hash, and the smallest hashes are kept. The hashes of other data below the same limit are a random sample of its rows,
so the share of them that was kept estimates the share of rows seen in training. This also works for parts of a
recording.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.data.sequence import Sequence
from mrgpssm.errors import ModelFileError

SHARE = 0.1  # of the rows: from here on data count as seen in training
_RUN, _KEPT = 8, 2000
_MOST_DOUBTS, _LONGEST = 100, 2000  # sentences in a file, and their length
_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class Seen:
    """A summary of the training data: ranges (D_u, 2), the smallest hashes, and the warnings about the data."""

    ranges: np.ndarray
    hashes: np.ndarray
    doubts: tuple[str, ...] = ()

    @classmethod
    def of(cls, training: Iterable[Sequence], doubts: tuple[str, ...] = ()) -> "Seen":
        """The summary of these sequences."""
        training = list(training)
        lows, highs = (np.stack([f(s.inputs, axis=0) for s in training]) for f in (np.min, np.max))
        hashes = np.unique(np.concatenate([hash_rows(s) for s in training]))
        return cls(np.stack([lows.min(0), highs.max(0)], axis=1), hashes[:_KEPT], doubts)

    def share(self, sequence: Sequence) -> float:
        """About which share of the rows was in training; the columns must be those of training, in order."""
        if not len(self.hashes):
            return 0.0
        found = hash_rows(sequence)
        if len(self.hashes) == _KEPT:  # of more hashes only these were kept
            found = found[found <= self.hashes[-1]]
        return float(np.isin(found, self.hashes).mean()) if len(found) else 0.0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return {
            "ranges": self.ranges.tolist(),
            "hashes": self.hashes.astype(">u8").tobytes().hex(),
            "doubts": list(self.doubts),
        }

    @classmethod
    def from_json(cls, content: Any, inputs: int, name: str) -> "Seen":
        """The summary from JSON values, checked; `name` is the file's name in messages."""
        fault = ModelFileError(f"{name}: what it says of its training data cannot be used; the file is damaged.")
        if not isinstance(content, dict) or set(content) != {"ranges", "hashes", "doubts"}:
            raise fault
        ranges, digits, doubts = content["ranges"], content["hashes"], content["doubts"]
        if not isinstance(digits, str) or len(digits) > 16 * _KEPT or len(digits) % 16:
            raise fault
        if not isinstance(doubts, list) or len(doubts) > _MOST_DOUBTS or not all(map(_is_sentence, doubts)):
            raise fault
        if not isinstance(ranges, list) or len(ranges) != inputs or not all(map(_is_range, ranges)):
            raise fault
        try:
            hashes = np.frombuffer(bytes.fromhex(digits), ">u8").astype(np.uint64)
        except ValueError:
            raise fault from None
        if not (hashes[1:] > hashes[:-1]).all():
            raise fault
        return cls(np.array(ranges, float).reshape(inputs, 2), hashes, tuple(doubts))


def hash_rows(sequence: Sequence) -> np.ndarray:
    """Sorted distinct hashes of all runs of eight rows that are not all equal; none for fewer than eight rows."""
    values = np.concatenate([sequence.inputs, sequence.outputs], axis=1) + 0.0  # -0 is 0
    values = np.where(np.isnan(values), np.nan, values)  # one NaN
    rows = np.zeros(len(values), np.uint64)
    for column in np.ascontiguousarray(values.T).view(np.uint64):
        rows = _mix(rows ^ column)
    runs = len(rows) - _RUN + 1
    if runs < 1:
        return np.zeros(0, np.uint64)
    found, still = np.zeros(runs, np.uint64), np.ones(runs, bool)
    for k in range(_RUN):
        found = _mix(found ^ rows[k : k + runs])
        still &= rows[k : k + runs] == rows[:runs]
    return np.unique(found[~still])


def _mix(x: np.ndarray) -> np.ndarray:
    """One round of splitmix64: every bit of a number changes half the bits of the result."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def _is_sentence(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _is_range(value: Any) -> bool:
    numbers = isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)
    return numbers and all(abs(v) <= 1e300 for v in value) and value[0] <= value[1]
