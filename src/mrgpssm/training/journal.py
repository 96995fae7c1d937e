"""What the host knows of a training run: how it went so far, and which members are still alive."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from mrgpssm.errors import FitError
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import Cache, FitInfo, Learner


@dataclass(frozen=True)
class Progress:
    """One report to people: where training stands and how the last chunk of steps went, per member.

    The expected log-likelihood is `bound + kl`.
    """

    component: int
    cycle: int
    step: int
    bound: np.ndarray
    kl: np.ndarray
    rmse: np.ndarray
    skipped: np.ndarray
    done: int
    total: int


class Journal:
    """Keeps the history, reports it, and gives up members that cannot be helped."""

    def __init__(
        self,
        settings: TrainingSettings,
        turns: int,
        alive: np.ndarray,
        history: Iterable[Progress],
        report: Callable[[Progress], None],
    ):
        self.settings, self.turns, self.report = settings, turns, report
        self.history = list(history)
        self.alive = alive.copy()

    def note(self, info: FitInfo, learner: Learner, part: int, cycle: int, at: int, done: int) -> None:
        """Keep and report a chunk of steps; members whose steps keep failing are given up."""
        total = self.turns * self.settings.steps
        progress = _summarise(info, learner, part, cycle, at, done, total)
        self.history.append(progress)
        self.report(progress)
        self.alive = self.alive & (np.asarray(learner.health.streak) < self.settings.patience)
        if not self.alive.any():
            raise FitError(
                f"Training stopped: {self.settings.patience} steps in a row were not finite for every restart, in "
                f"component {part + 1}, cycle {cycle + 1}, step {at}. "
                'Lower learning_rate, or use preset="stable" and precision="float64".'
            )

    def check_cache(self, cache: Cache, part: int, cycle: int) -> None:
        """Members whose simulation over the training data is not finite are given up, too."""
        self.alive = self.alive & np.asarray(jnp.all(jnp.isfinite(cache.outputs), axis=(1, 2)))
        if not self.alive.any():
            raise FitError(
                f"Training stopped: simulating component {part + 1} over the training data after cycle {cycle + 1} "
                'gave values that are not finite. Lower learning_rate, or use preset="stable".'
            )


def _summarise(info: FitInfo, learner: Learner, part: int, cycle: int, at: int, done: int, total: int) -> Progress:
    def mean(values):
        values = np.asarray(values, float)
        taken = np.asarray(info.taken) & ~np.isnan(values)  # windows without a measured output have no RMSE
        count = np.maximum(taken.sum(1), 1)
        return np.where(taken.any(1), np.where(taken, values, 0).sum(1) / count, np.nan)

    skipped = np.asarray(learner.health.skipped)
    return Progress(part, cycle, at, mean(info.bound), mean(info.kl), mean(info.rmse), skipped, done, total)
