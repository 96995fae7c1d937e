"""How long a fit will go on: the work of all its stages, and how fast work has gone so far."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from mrgpssm.spec import Spec

_EXPONENTIAL, _DISTANCE, _PRODUCTS = 60, 10, 4  # operations of a gradient step: see `step_work`


def step_work(spec: Spec, outputs: int) -> float:
    """Operations of one gradient step of a whole fleet, roughly.

    For every state of a rollout and every inducing point: an exponential, a distance in every latent dimension, and
    four products with half a matrix, in the forward and the reverse pass together.
    """
    structure, training = spec.structure, spec.training
    members = spec.members * len(structure.groups(outputs))
    points = members * training.windows * (training.buffer + training.window) * training.samples * structure.latent_dim
    each = _EXPONENTIAL + _DISTANCE * structure.latent_dim + _PRODUCTS * structure.inducing
    return float(points * structure.inducing * each)


class Outlook:
    """Seconds that are left of a fit whose stages come in the order of `stages`, which says the work of each.

    Work is counted in any common unit. A stage that has begun is as fast as it was so far, a later one as fast as the
    last. Every stage takes some time around its work, to compile and to be judged: later ones as long as those before,
    on average.
    """

    def __init__(self, stages: Mapping[str, float], clock: Callable[[], float] = time.monotonic):
        self._work, self._clock = dict(stages), clock
        self._pace: float | None = None  # seconds per unit of work
        self._around: list[float] = []  # seconds that ended stages took beside their work
        self._marks: list[tuple[float, float]] = []  # of the present stage: when, and the work that was left
        self._began = clock()
        self._here = ""

    def begin(self, stage: str) -> None:
        """A stage begins; those before it have ended."""
        now = self._clock()
        if self._marks:
            (first, _), (last, _) = self._marks[0], self._marks[-1]
            self._around.append(first - self._began + now - last)
        names = list(self._work)
        for name in names[: names.index(stage)] if stage in names else ():
            del self._work[name]
        self._here, self._began, self._marks = stage, now, []

    def note(self, left: float) -> None:
        """So much work is left of the present stage."""
        self._marks.append((self._clock(), left))
        (first, most), (now, _) = self._marks[0], self._marks[-1]
        if most > left:
            self._pace = (now - first) / (most - left)

    def seconds(self) -> float | None:
        """Seconds left of the whole fit; None where nothing is known yet."""
        if self._pace is None:
            return None
        spent = self._clock() - self._began
        later = [work for name, work in self._work.items() if name != self._here]
        if self._marks:
            present, around = self._marks[-1][1] * self._pace, self._around or [self._marks[0][0] - self._began]
        else:
            present = max(self._work.get(self._here, 0.0) * self._pace - spent, 0.0)
            around = self._around or [0.0]
        return present + sum(later) * self._pace + len(later) * float(np.mean(around))
