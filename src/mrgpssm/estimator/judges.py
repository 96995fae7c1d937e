"""Who judges a model: the model, or that of a fold, and what it has not seen."""

import functools
from dataclasses import dataclass, replace

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.predict import FreeRuns, keep_runs

SAMPLES = 100  # of free runs


@dataclass(frozen=True)
class Judge:
    """A model, and sequences it has not seen; `name` is what people are told of those, `number` that of a fold.

    Where `pasts` are given, one for each sequence, a run has that warm-up, if it is not None.
    """

    model: FittedModel
    unseen: list[Sequence]
    name: str
    number: int = 0
    pasts: tuple[Sequence | None, ...] = ()

    def cut(self, rows: int) -> "Judge":
        """The same over pieces of so many rows, each after as many before it; what is left at an end is left out."""
        pairs: list[tuple[Sequence | None, Sequence]] = []
        for s, past in zip(self.unseen, self.pasts or (None,) * len(self.unseen), strict=True):
            pairs.append((past, s.take(slice(rows))))
            for first in range(rows, len(s) - rows + 1, rows):
                before = s.take(slice(first - rows, first))
                seen = np.isfinite(before.outputs).any()
                pairs.append((before if seen else None, s.take(slice(first, first + rows))))
        pasts, unseen = zip(*pairs, strict=True)
        return replace(self, unseen=list(unseen), pasts=pasts)

    def some_warm(self, most: int) -> "Judge | None":
        """The same over at most so many of the sequences that have a warm-up, evenly spread; None if none has."""
        warm = [(s, past) for s, past in zip(self.unseen, self.pasts, strict=True) if past is not None]
        if not warm:
            return None
        chosen = [warm[i] for i in np.unique(np.linspace(0, len(warm) - 1, most).round().astype(int))]
        return replace(self, unseen=[s for s, _ in chosen], pasts=tuple(past for _, past in chosen))

    @functools.cached_property
    def runs(self) -> FreeRuns:
        """Free runs over all that it has not seen, simulated once."""
        return keep_runs(self.model, self.unseen, SAMPLES, 0, self.pasts)
