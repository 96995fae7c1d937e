"""One fleet for outputs x folds x restarts: every member sees its own training sequences, scaled on these only."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.params import positive_inverse
from mrgpssm.errors import ConfigError
from mrgpssm.model import SSM, Component
from mrgpssm.paper.problems import Problem
from mrgpssm.spec import Spec
from mrgpssm.training import Plan
from mrgpssm.training.fleet import Member, make_fleet, prepare_splits, rank_restarts


@dataclass(frozen=True)
class ProblemFleet:
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


def make_problem_fleet(spec: Spec, problem: Problem, observation_sd: float | None = None) -> ProblemFleet:
    """The fleet that equals one `MRGPSSM(seed=seed + fold)` per fold; needs the precision switched on.

    The members of a fold see all sequences scaled on its own training sequences.
    """
    if spec.structure.joint or spec.bands.folds or spec.structure.cascade:
        raise ConfigError(
            "A fleet over folds has one model per output, folds of its own and no cascade; use joint=False, folds=0, "
            "cascade=False."
        )
    sequences, scalings, trained = prepare_splits(spec, list(problem.sequences), [f.train for f in problem.folds])
    shape = (len(problem.folds), len(problem.outputs), spec.training.restarts)
    folds, outputs, restarts = (places.ravel() for places in np.indices(shape))
    seeds = spec.training.seed + folds
    members = [
        Member(int(seed), int(output), int(restart), (int(output),), trained[fold], int(fold))
        for seed, fold, output, restart in zip(seeds, folds, outputs, restarts, strict=True)
    ]
    plan, ssm = make_fleet(spec, sequences, scalings, members)
    ssm = in_units(ssm, (1,) * len(spec.structure.resolutions))
    if observation_sd is not None:
        noise = positive_inverse(jnp.full_like(ssm.raw_observation_noise, observation_sd))
        ssm = eqx.tree_at(lambda s: s.raw_observation_noise, ssm, noise)
    output_sd = np.stack([s.output_sd for s in scalings])[folds, outputs]
    return ProblemFleet(plan, ssm, folds, outputs, restarts, seeds, output_sd)


def in_units(ssm: SSM[Component], resolutions: tuple[int, ...]) -> SSM[Component]:
    """The members with their resolutions as time units: models that can be simulated by themselves."""
    units = tuple(float(r) for r in resolutions)
    return eqx.filter_vmap(lambda s: SSM(s.components, s.raw_observation_noise, units))(ssm)


def choose_restarts(fleet: ProblemFleet, bounds: np.ndarray) -> np.ndarray:
    """The member with the best bound of every fold and output, shape (folds, outputs)."""
    shape = tuple(int(places.max()) + 1 for places in (fleet.fold, fleet.output, fleet.restart))
    best = rank_restarts(bounds.reshape(shape))[..., 0]
    return np.arange(fleet.size).reshape(shape)[..., 0] + best
