"""A fleet: models that train side by side as one program. Estimator, sweep and reproduction list the members they want.

A member is an output (or several) of some sequences, in units of one scaling, from one random start. Its key follows
from its seed, group and number alone, so a model gets the same in any fleet.
"""

from collections.abc import Sequence as SequenceOf
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.types import Key
from mrgpssm.data import Scaling, Sequence, apply_drive, check_alike, check_lengths, fill
from mrgpssm.data.ranges import Recording
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.model import SSM, Component
from mrgpssm.spec import Spec, Structure
from mrgpssm.training.linear.start import LinearStart, find_start
from mrgpssm.training.members import init_models, start_linear, start_on_data
from mrgpssm.training.plan import Plan
from mrgpssm.training.series import flatten
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import Task


class Member(NamedTuple):
    """One model of a fleet.

    `columns` are its outputs, `training` (K,) says which of the K sequences it trains on, `scaling` is the number of
    the scaling that its units are of.
    """

    seed: int
    group: int
    number: int
    columns: tuple[int, ...]
    training: np.ndarray
    scaling: int

    @property
    def key(self) -> Key:
        """The root of all that is random in its training."""
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), self.group), self.number)


def prepare_splits(
    spec: Spec, sequences: list[Sequence], splits: SequenceOf[SequenceOf[int]]
) -> tuple[list[Sequence], list[Scaling], np.ndarray]:
    """What a fleet over splits is made of, checked; a split is the numbers of the sequences that it trains on.

    Returns the filled sequences with everything that drives the model, the scaling of every split, fitted on what it
    trains on, and which sequences these are, (splits, sequences).
    """
    check_alike(sequences)
    filled = [fill(s).sequence for s in sequences]
    for split in splits:
        window_steps = spec.training.buffer + spec.training.window
        check_lengths([filled[i] for i in split], spec.structure.resolutions, window_steps)
    measured, driven = ([apply_drive(spec.structure.drive, s) for s in some] for some in (sequences, filled))
    scalings = [Scaling.fit(measured[i] for i in split) for split in splits]
    return driven, scalings, np.stack([np.isin(np.arange(len(sequences)), split) for split in splits])


def make_fleet(
    spec: Spec,
    driven: list[Sequence],
    scalings: SequenceOf[Scaling],
    members: SequenceOf[Member],
    unseen: np.ndarray | None = None,
) -> tuple[Plan, SSM[Component]]:
    """The plan and all members at their starting values; needs the precision switched on.

    `driven` are the filled sequences with everything that drives the model; `unseen` is that of `Plan`.
    """
    structure = spec.structure
    series = flatten(driven, list(scalings), jnp.dtype(structure.precision))
    tasks = Task(
        key=jnp.stack([member.key for member in members]),
        columns=jnp.asarray([member.columns for member in members], jnp.int32),
        training=jnp.asarray(np.stack([member.training for member in members])),
        scaling=jnp.asarray([member.scaling for member in members], jnp.int32),
    )
    inputs, outputs = len(driven[0].input_names), len(members[0].columns)
    ssm = init_models(structure, inputs, outputs, tasks.key)
    if structure.drive.remembers:
        ssm = start_on_data(ssm, series, tasks)
    settings = TrainingSettings.of(spec.training, structure.scheme)
    if spec.training.start == "linear":
        check_start(spec)
        still = not settings.schedule(structure.resolutions)
        filtered = settings.window_start == "filter" and not still
        starts = find_starts(structure, driven, scalings, members, filtered)
        ssm = start_linear(ssm, starts, still)
    informed = spec.training.start == "linear" or settings.window_start == "filter"
    return Plan(settings, series, tasks, structure.resolutions, unseen, informed), ssm


def check_start(spec: Spec) -> None:
    """Refuse a linear start of a model that cannot hold a linear model."""
    structure = spec.structure
    if spec.training.start != "linear":
        return
    needs = {"emission": "linear", "preset": "stable", "cascade": False}
    for name, value in needs.items():
        if (own := getattr(structure, name)) != value:
            raise ConfigError(
                f'start="linear" needs {name}={value!r}; got {own!r:.80}. Change it, or use start="preset".'
            )


def find_starts(
    structure: Structure,
    driven: list[Sequence],
    scalings: SequenceOf[Scaling],
    members: SequenceOf[Member],
    filtered: bool = False,
) -> list[LinearStart | None]:
    """A linear model for every member, identified on what it trains on; restarts share theirs.

    `filtered` is that of `find_start`.

    A member whose rows show none, such as a fold where an output is hardly measured, starts at the preset's values.
    """
    found: dict[tuple[tuple[int, ...], bytes, int], LinearStart | None] = {}
    for member in members:
        key = (member.columns, member.training.tobytes(), member.scaling)
        if key not in found:
            scaling, columns = scalings[member.scaling], list(member.columns)
            own = [s for s, trains in zip(driven, member.training, strict=True) if trains]
            recordings = [Recording(scaling.inputs(s.inputs), scaling.outputs(s.outputs)[:, columns]) for s in own]
            sizes = (structure.latent_dim, structure.memory, structure.integrators)
            found[key] = find_start(recordings, structure.resolutions, *sizes, filtered)
    if not any(found.values()):
        raise DataError(
            "No linear model could be identified to start from; give longer recordings whose inputs vary, or use "
            'start="preset".'
        )
    return [found[member.columns, member.training.tobytes(), member.scaling] for member in members]


def rank_restarts(bounds: np.ndarray) -> np.ndarray:
    """The restarts of every row of bounds (..., restarts), best first; a bound of NaN is the worst."""
    return np.argsort(-np.where(np.isnan(bounds), -np.inf, bounds), axis=-1, kind="stable")
