"""One fleet for outputs x folds x restarts: every member sees its own training sequences, scaled on these only."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.params import positive_inverse
from mrgpssm.data import Scaling, apply_drive, check_alike, check_lengths, flatten
from mrgpssm.errors import ConfigError
from mrgpssm.model import SSM, Component
from mrgpssm.paper.problems import Problem
from mrgpssm.spec import Spec
from mrgpssm.training import Plan, Task
from mrgpssm.training.members import make_members, start_on_data, training_settings


@dataclass(frozen=True)
class Fleet:
    """A training plan, all members at their starting values, and who they are: fold, output, restart, in that order.

    The members' time units are all one: training and evaluation take the plan's resolutions, and methods that differ
    in nothing else share their compiled programs. `in_units` puts the real ones in.
    """

    plan: Plan
    ssm: SSM[Component]
    fold: np.ndarray
    output: np.ndarray
    restart: np.ndarray
    seed: np.ndarray
    output_sd: np.ndarray

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.fold)


def make_fleet(spec: Spec, problem: Problem, observation_sd: float | None = None) -> Fleet:
    """The fleet that equals one `MRGPSSM(seed=seed + fold)` per fold; needs the precision switched on.

    The members of a fold see all sequences scaled on its own training sequences.
    """
    if spec.structure.joint or spec.bands.folds or spec.structure.cascade:
        raise ConfigError(
            "A fleet over folds has one model per output, folds of its own and no cascade; use joint=False, folds=0, "
            "cascade=False."
        )
    sequences = [apply_drive(spec.structure.drive, s) for s in problem.sequences]
    check_alike(sequences)
    shape = (len(sequences), len(sequences[0].input_names), len(problem.outputs))
    tasks, models, scalings = [], [], []
    for index, fold in enumerate(problem.folds):
        training = [sequences[n] for n in fold.train]
        check_lengths(training, spec.structure.resolutions, spec.training.buffer + spec.training.window)
        scalings.append(Scaling.fit(training))
        task, ssm = make_members(spec.change(seed=spec.training.seed + index), *shape)
        tasks.append(_in_fold(task, index, fold.train))
        models.append(ssm)
    joined, ssm = (_concatenate(parts) for parts in (tasks, models))
    series = flatten(sequences, scalings, jnp.dtype(spec.structure.precision))
    if spec.structure.drive:
        ssm = start_on_data(ssm, series, joined)
    ssm = in_units(ssm, (1,) * len(spec.structure.resolutions))
    if observation_sd is not None:
        noise = positive_inverse(jnp.full_like(ssm.raw_observation_noise, observation_sd))
        ssm = eqx.tree_at(lambda s: s.raw_observation_noise, ssm, noise)
    folds, outputs, restarts = np.meshgrid(
        np.arange(len(problem.folds)), np.arange(shape[2]), np.arange(spec.training.restarts), indexing="ij"
    )
    return Fleet(
        plan=Plan(training_settings(spec), series, joined, spec.structure.resolutions),
        ssm=ssm,
        fold=folds.ravel(),
        output=outputs.ravel(),
        restart=restarts.ravel(),
        seed=spec.training.seed + folds.ravel(),
        output_sd=np.stack([s.output_sd for s in scalings])[folds.ravel(), outputs.ravel()],
    )


def in_units(ssm: SSM[Component], resolutions: tuple[int, ...]) -> SSM[Component]:
    """The members with their resolutions as time units: models that can be simulated by themselves."""
    units = tuple(float(r) for r in resolutions)
    return eqx.filter_vmap(lambda s: SSM(s.components, s.raw_observation_noise, units))(ssm)


def chosen(fleet: Fleet, bounds: np.ndarray) -> np.ndarray:
    """The member with the best bound of every fold and output, shape (folds, outputs); a bound of NaN is the worst."""
    ranked = np.where(np.isnan(bounds), -np.inf, bounds)
    restarts = int(fleet.restart.max()) + 1
    best = ranked.reshape(-1, restarts).argmax(axis=1)
    outputs = int(fleet.output.max()) + 1
    return (np.arange(len(best)) * restarts + best).reshape(-1, outputs)


def _in_fold(task: Task, fold: int, train: tuple[int, ...]) -> Task:
    """The members' tasks with the fold's training sequences and scaling."""
    members, sequences = task.training.shape
    mask = np.broadcast_to(np.isin(np.arange(sequences), train), (members, sequences))
    return Task(task.key, task.columns, jnp.asarray(mask), jnp.full((members,), fold, jnp.int32))


def _concatenate(trees: list):
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)
