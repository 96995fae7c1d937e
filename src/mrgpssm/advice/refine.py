"""Resolutions refined by the bound: short fits of the suggested set and of its neighbours, ranked.

Sets that differ in their resolutions are models of the same data, so their lower bounds on the whole training series
can be compared (paper, Eq. 14); window and buffer are the same for all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.advice.suggest import order, suggest
from mrgpssm.data import Sequence, as_list
from mrgpssm.errors import DataError
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.spec import arrange

Resolutions = tuple[int, ...]
_SHORT: dict[str, Any] = {"cycles": 3, "steps": 100, "calibrate": False}


@dataclass(frozen=True)
class Ranked:
    """One set of resolutions and the lower bound that short training reached, one per output."""

    resolutions: Resolutions
    bounds: np.ndarray

    @property
    def total(self) -> float:
        """The bound of all outputs together: they are modelled side by side."""
        return float(np.sum(self.bounds))


def neighbours(resolutions: Resolutions) -> tuple[Resolutions, ...]:
    """The set, the same twice as coarse and twice as fine, without its slowest, and with a slower one."""
    slowest = max(resolutions)
    near = [resolutions, tuple(2 * r for r in resolutions), tuple(max(1, r // 2) for r in resolutions)]
    near += [tuple(r for r in resolutions if r < slowest), (6 * slowest, *resolutions)]
    return tuple(dict.fromkeys(order(some) for some in near if some))


def refine(
    sequences: Sequence | Iterable[Sequence], candidates: Iterable[Resolutions] | None = None, **options: Any
) -> list[Ranked]:
    """All candidates, best bound first; without any, the neighbours of what `suggest` proposes.

    Args:
        sequences: Recordings with the same columns and the same dt.
        candidates: Sets of resolutions; those too long for the data are left out.
        options: Options of `Structure`, `Training` and `Bands`; cycles are 3 and steps 100 where they are not given.

    Raises:
        DataError: No candidate's windows fit into the data.
    """
    training = as_list(sequences)
    chosen = neighbours(suggest(training).resolutions) if candidates is None else tuple(candidates)
    found, faults = [], []
    for resolutions in chosen:
        model = MRGPSSM(resolutions, **arrange(**(_SHORT | options)))
        try:
            model.check(training)
        except DataError as fault:
            faults.append(fault)
            continue
        model.fit(training, progress=False)
        found.append(Ranked(tuple(resolutions), model.bounds_.max(axis=1)))
    if not found:
        raise faults[0] if faults else DataError("There is no candidate to refine; give sets such as [(30, 5, 1)].")
    return sorted(found, key=lambda ranked: -ranked.total)
