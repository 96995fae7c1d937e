"""What a training run is given, where it stands, and what it leaves."""

import functools
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.types import Array, Bool, Int
from mrgpssm.model import SSM, Component
from mrgpssm.training.journal import Progress
from mrgpssm.training.series import Series
from mrgpssm.training.settings import Team, TrainingSettings
from mrgpssm.training.state import FitState, Task
from mrgpssm.training.windows import mark_known


@dataclass(frozen=True)
class Plan:
    """What a training run is given: settings, data, members, and the resolution of every component.

    `unseen` (members, rows) marks what a member must be good at without training on it; where it is given, the cycle
    that is best there is kept. `informed` says that members are simulated before the first turn, and count as the
    first of all cycles: they start at models worth it, or windows start where a filter finds them. `everything` are the
    tasks of members that go on with all data in the end.
    """

    settings: TrainingSettings
    series: Series
    tasks: Task
    resolutions: tuple[int, ...]
    unseen: np.ndarray | None = None
    informed: bool = False
    everything: Task | None = None

    @property
    def schedule(self) -> list[tuple[int, Team]]:
        """Every turn, with its cycle."""
        return self.settings.schedule(self.resolutions)

    def cool(self, cycles: int) -> "Plan":
        """One cycle more after so many, at the lowest learning rate, and that is all."""
        return replace(self, settings=replace(self.settings, cycles=cycles + 1, finetune=0, refit=0), everything=None)

    @property
    def refit_turn(self) -> int:
        """The first turn on all data."""
        return len(self.schedule) - self.settings.refit * len(self.resolutions)

    def at(self, turn: int) -> "Plan":
        """With the tasks of a turn."""
        return self if self.everything is None or turn < self.refit_turn else self._later

    @functools.cached_property
    def _later(self) -> "Plan":
        return replace(self, tasks=self.everything, informed=True)

    @functools.cached_property
    def known(self) -> Bool[Array, "f rows"]:
        """Rows whose state a filter has found."""
        visible, ends = np.asarray(self.visible()[0]), np.asarray(self.series.offsets)[1:]
        finite, each = np.isfinite(np.asarray(self.series.outputs[0])), []
        for rows, columns in zip(visible, np.asarray(self.tasks.columns), strict=True):
            measured = np.split(rows & finite[:, columns].any(axis=1), ends)
            known = np.concatenate([mark_known(own, self.settings.window_steps) for own in measured])
            each.append(known if (known & rows).any() else np.ones_like(known))
        return jnp.asarray(np.stack(each))

    def visible(self) -> tuple[Bool[Array, "f rows"], Int[Array, "f n"]]:
        """Rows whose outputs a filter may see, and the sequences that it goes over.

        It may see all but unseen rows, or those of training sequences where none are marked. It goes over what a member
        trains on or is judged on; for a member that has fewer such sequences than others, their number stands for none.
        """
        training, lengths = np.asarray(self.tasks.training), np.asarray(self.series.lengths)
        each = np.repeat(training, lengths, axis=1) if self.unseen is None else ~self.unseen
        judged = np.zeros_like(training)
        if self.unseen is not None:
            judged = np.logical_or.reduceat(self.unseen, np.asarray(self.series.offsets), axis=1)
        wanted = training | judged
        order = np.argsort(~wanted, axis=1, kind="stable")[:, : wanted.sum(axis=1).max()]
        numbers = np.where(np.take_along_axis(wanted, order, axis=1), order, len(lengths))
        return jnp.asarray(each), jnp.asarray(numbers, jnp.int32)


@dataclass(frozen=True)
class Snapshot:
    """Where a run stands between two chunks of steps: all it needs to go on, bit for bit.

    `turn` counts turns taken so far, `step` the steps of the one under way. `kept` is the best of the past where the
    plan has unseen data, and `errors` (cycles, members) how far free runs were from it, the start first where the plan
    is `informed`. Once members go on with all data, `folds` are the models as they were before.
    """

    state: FitState
    turn: int
    step: int
    alive: np.ndarray
    history: tuple[Progress, ...]
    kept: SSM[Component] | None = None
    errors: np.ndarray | None = None
    folds: SSM[Component] | None = None


@dataclass(frozen=True)
class FleetFit:
    """What training returns: the final state of all members, their bounds on equal noise, and the history.

    `errors` (cycles, members) and `folds` are those of the last snapshot.
    """

    state: FitState
    bounds: np.ndarray
    alive: np.ndarray
    history: tuple[Progress, ...]
    errors: np.ndarray | None = None
    folds: SSM[Component] | None = None

    @classmethod
    def of(cls, here: Snapshot) -> "FleetFit":
        """As if training ended here; nobody is ranked."""
        return cls(here.state, np.where(here.alive, 0.0, -np.inf), here.alive, here.history, here.errors, here.folds)

    @property
    def of_folds(self) -> SSM[Component]:
        """All members, those of folds before they saw all data."""
        return self.state.ssm if self.folds is None else self.folds
