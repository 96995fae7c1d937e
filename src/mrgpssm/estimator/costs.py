"""What the stages after training would cost: they are run on a few rows with untrained models, and timed.

From these rows to all of them time grows with the rows that are walked.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.data.sequence import take_rows
from mrgpssm.estimator.unseen import Judge, calibrate_model
from mrgpssm.prediction.fitted import FittedModel

_ROWS = 400

Sequences = list[Sequence]


def time_stages(
    model: FittedModel,
    training: Sequences,
    held_out: Sequences | None,
    make_judges: Callable[[Sequences, Sequences | None], list[Judge]],
) -> dict[str, float]:
    """Seconds of every stage after training."""
    few = make_judges([_begin(training)], [_begin(held_out)] if held_out else None)
    if not few:
        return {}
    growth = _count_rows(make_judges(training, held_out)) / _count_rows(few)
    calibrate_model(model, few, lambda *_: None)  # compiles
    stamps: list[tuple[str, float]] = []
    calibrate_model(model, few, lambda stage, _: stamps.append((stage, time.perf_counter())))
    stamps.append(("", time.perf_counter()))
    seconds: dict[str, float] = {}
    for (stage, began), (_, ended) in itertools.pairwise(stamps):
        seconds[stage] = seconds.get(stage, 0.0) + (ended - began) * growth
    return seconds


def _begin(sequences: Sequences) -> Sequence:
    """The first rows of the longest sequence; missing outputs are put at 0, where their values do not matter."""
    first = take_rows(max(sequences, key=len), slice(_ROWS))
    return replace(first, outputs=np.nan_to_num(first.outputs))


def _count_rows(judges: list[Judge]) -> int:
    return sum(len(s) for j in judges for s in j.unseen)
