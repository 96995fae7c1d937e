"""Learning what a warm-up tells, from runs left out that start at many places (`mrgpssm.runtime.horizon`).

With g the normal scores of what was measured under the law of runs without a warm-up, the factor f on deviations makes
the pinball loss of |g| at level 0.9 and z f least, z = Φ⁻¹(0.95): 90 % bands then hold 90 % at every horizon.
Neighbouring rows say the same, and five count as one; a factor of 1 is expected.
"""

import numpy as np

from mrgpssm.estimator.judges import Judge
from mrgpssm.prediction.predict import FreeRuns, Piece
from mrgpssm.prediction.scores import Table
from mrgpssm.runtime.horizon import Horizon, Recent
from mrgpssm.runtime.output import Measurements

WARM_ROWS, WARM_STARTS = 200, 40  # rows of a run, and of its warm-up, at most; runs of one judge
_LEAST = 10  # rows of a run
_SMALLEST, _FACTORS, _MEMORIES = 0.05, 24, 16  # the least factor, how many are tried, and how many memories
_ALIKE, _TRUST = 5, 0.25
_LEVEL, _EDGE = 0.9, 1.6448536269514722  # of the bands that are to hold, and where they end for f = 1


def start_anywhere(judge: Judge) -> Judge | None:
    """The same over short runs that start at many places, each after a warm-up; None where there is no room."""
    rows = min(max(map(len, judge.unseen)) // 3, WARM_ROWS)
    return judge.cut(rows).some_warm(WARM_STARTS) if rows >= _LEAST else None


def learn_horizon(runs: list[FreeRuns]) -> Horizon | None:
    """What warm-ups tell, from such runs, which have the calibrated law; None where there are none."""

    def tell(piece: Piece, found: Measurements, measured: np.ndarray) -> Table:
        count = np.broadcast_to(piece.recent.count, piece.recent.since.shape)
        return {"score": found.scores(measured), "count": count, "since": piece.recent.since}

    tables = [table for some in runs for table in some.gather(tell)]
    if not tables:
        return None
    longest = max(len(s) for some in runs for s in some.sequences)
    score, count, since = (np.concatenate([table[name] for table in tables]) for name in ("score", "count", "since"))
    fitted = [_fit_one(g, Recent(n, s), longest) for g, n, s in zip(score.T, count.T, since.T, strict=True)]
    first, memory = np.array(fitted).T
    return Horizon(first, memory)


def _fit_one(score: np.ndarray, recent: Recent, longest: int) -> tuple[float, float]:
    """`first` and `memory` of one output."""
    known = ~np.isnan(score)
    size = np.abs(score[known])
    recent = Recent(recent.count[known], recent.since[known])

    def cost(first: float, memory: float) -> float:
        beyond = size - _EDGE * Horizon(np.array(first), np.array(memory)).narrow(recent)
        loss = np.maximum(_LEVEL * beyond, (_LEVEL - 1) * beyond)
        return float(loss.sum()) / _ALIKE + _TRUST / 2 * np.log(first) ** 2

    tried = [(a, m) for a in np.geomspace(1.0, _SMALLEST, _FACTORS) for m in np.geomspace(1.0, longest, _MEMORIES)]
    return min(tried, key=lambda pair: cost(*pair))
