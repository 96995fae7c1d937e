"""Candidates for a linear model, and their free runs over rows left out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mrgpssm.data.ranges import Recording, RowFold


@runtime_checkable
class LinearModel(Protocol):
    """A linear model of one output or several."""

    def run(self, inputs: np.ndarray, warmup: Recording) -> np.ndarray:
        """(T, D_y) free run over the inputs, after a warm-up that ends just before them and may be empty."""
        ...

    def largest_pole(self) -> float:
        """Largest modulus of a pole; below 1 the free run is stable."""
        ...


@dataclass(frozen=True)
class Trial:
    """One candidate for one output, and its free runs (N,) over all left-out rows."""

    settings: Any
    held: np.ndarray


def run_left_out(
    models: Iterable[LinearModel | None], recordings: list[Recording], split: list[RowFold]
) -> np.ndarray | None:
    """Free runs (N, D_y) of the model of every fold over what it left out; None where a fold has no model.

    Every left-out range is run after its own warm-up.
    """
    found = []
    for model, fold in zip(models, split, strict=True):
        if model is None:
            return None
        for p in fold.test:
            r = recordings[p.index]
            found.append(model.run(r.inputs[p.test_rows], r.rows(p.warm)))
    return np.concatenate(found)
