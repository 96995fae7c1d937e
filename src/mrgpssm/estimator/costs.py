"""What the stages after training would cost: they are run on a few rows with untrained models, and timed.

From these rows to all of them time grows with the rows that a stage looks at, but for two: kernels of the static part
take the third power of the rows they are learned from, and the static part the square of its inducing rows.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mrgpssm.blend.static import KERNEL_ROWS
from mrgpssm.data import Sequence
from mrgpssm.estimator.unseen import Judge, judged
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
    short = [_begin(training)]
    few = make_judges(short, [_begin(held_out)] if held_out else None)
    if not few:
        return {}
    growth = _growth(model, (short, few), (training, make_judges(training, held_out)))
    judged(model, short, few, lambda *_: None)  # compiles
    stamps: list[tuple[str, float]] = []
    judged(model, short, few, lambda stage, _: stamps.append((stage, time.perf_counter())))
    stamps.append(("", time.perf_counter()))
    seconds: dict[str, float] = {}
    for (stage, began), (_, ended) in itertools.pairwise(stamps):
        seconds[stage] = seconds.get(stage, 0.0) + (ended - began) * growth(stage)
    return seconds


def _begin(sequences: Sequences) -> Sequence:
    """The first rows of the longest sequence; missing outputs are put at 0, where their values do not matter."""
    longest = max(sequences, key=len)
    rows = slice(min(_ROWS, len(longest)))
    return replace(
        longest,
        inputs=longest.inputs[rows],
        outputs=np.nan_to_num(longest.outputs[rows]),
        time=None if longest.time is None else longest.time[rows],
    )


def _growth(
    model: FittedModel, few: tuple[Sequences, list[Judge]], whole: tuple[Sequences, list[Judge]]
) -> Callable[[str], float]:
    """By what every stage takes longer on the whole."""

    def learned(training: Sequences, judges: list[Judge]) -> int:
        others = [s for j in judges if j.model is not model for s in j.trained_on]
        return sum(map(len, [*training, *others]))

    def walked(_: Sequences, judges: list[Judge]) -> int:
        return sum(len(s) for j in judges for s in j.unseen)

    def most(training: Sequences, limit: int) -> int:
        return min(limit, sum(map(len, training)))

    inducing = most(whole[0], model.structure.static) / max(most(few[0], model.structure.static), 1)
    fitting, walking = learned(*whole) / learned(*few), walked(*whole) / walked(*few)
    known = {
        "kernels": (most(whole[0], KERNEL_ROWS) / most(few[0], KERNEL_ROWS)) ** 3,
        "static part": fitting * inducing**2,
        "trees": fitting,
    }
    return lambda stage: known.get(stage, walking)
