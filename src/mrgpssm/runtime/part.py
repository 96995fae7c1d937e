"""What all instantaneous parts have in common, and how they are blended with the components: in scaled units,

    y_t = (1 - Σ_k s_k) Σ_l C x_t^(l) + Σ_k s_k m_k(u_{t-1}) + noise,

with u what drives the model, m_k a part, and s_k its shares, one per output. Like every output here, that of row t is
from before input t acts. NumPy alone: the runtime uses it, too.
"""

import abc
import functools
from dataclasses import dataclass

import numpy as np


class Part(abc.ABC):
    """A function m of the drive at one row, without a state, and its `shares` (D_y,)."""

    shares: np.ndarray

    @abc.abstractmethod
    def __call__(self, drive: np.ndarray) -> np.ndarray:
        """m at every row of a drive (T, D_u), (T, D_y)."""


@dataclass(frozen=True)
class Blend:
    """The parts of a model by the names that forecasts give them, none or more, and its number of outputs D_y."""

    parts: dict[str, Part]
    outputs: int

    @classmethod
    def of(cls, outputs: int, **parts: Part | None) -> "Blend":
        """Of the parts that there are."""
        return cls({name: part for name, part in parts.items() if part is not None}, outputs)

    @functools.cached_property
    def rest(self) -> np.ndarray:
        """1 - Σ_k s_k, (D_y,): what is left to the components."""
        return 1 - sum((part.shares for part in self.parts.values()), np.zeros(self.outputs))

    def added(self, before: np.ndarray) -> list[np.ndarray]:
        """s_k m_k of every part, (T, D_y), given the drive (T, D_u) of the step that led to each row."""
        return [part.shares * part(before) for part in self.parts.values()]


def row_before(drive: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    """u_{t-1} of every row t, (T, D_u); the drive `before` the first row is that of the first where unknown."""
    first = drive[:1] if before is None else before[None]
    return np.concatenate([first, drive[:-1]])
