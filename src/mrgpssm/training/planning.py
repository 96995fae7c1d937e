"""From checked options and data to a training plan, with all members at their starting values."""

import jax.numpy as jnp
import numpy as np

from mrgpssm.data import Filled, Scaling, Sequence, apply_drive, fill, flatten, trained_on, unseen_rows, with_copies
from mrgpssm.model import SSM, Component
from mrgpssm.spec import Spec
from mrgpssm.training import Plan
from mrgpssm.training.members import make_members, start_on_data, training_settings

Sequences = list[Sequence]


def make_plan(
    spec: Spec, training: Sequences, scaling: Scaling, validation: Sequences | None = None
) -> tuple[Plan, SSM[Component]]:
    """The plan and the members; needs the precision switched on. Only early stopping looks at validation data.

    Everything that a fold learns from, its units and its first inducing inputs too, is of the rows it trains on.
    """
    held_out = (validation or []) if spec.training.early_stopping else []
    filled = [fill(s) for s in [*with_copies(training, spec.bands.folds), *held_out]]
    driven = [apply_drive(spec.structure.drive, f.sequence) for f in filled]
    scalings = [scaling, *fold_scalings(spec, training, scaling)]
    series, first = flatten(driven, scalings, jnp.dtype(spec.structure.precision)), driven[0]
    shape = (len(training), len(first.input_names), len(first.output_names))
    tasks, ssm = make_members(spec, *shape, held_out=len(held_out))
    if spec.structure.drive:
        ssm = start_on_data(ssm, series, tasks)
    unseen = _unseen(spec, training, held_out, filled) if spec.training.early_stopping else None
    return Plan(training_settings(spec), series, tasks, spec.structure.resolutions, unseen), ssm


def fold_scalings(spec: Spec, training: Sequences, whole: Scaling) -> list[Scaling]:
    """The scaling of every fold, fitted on what it trains on."""
    driven = [apply_drive(spec.structure.drive, s) for s in training]
    return [whole.refit(trained_on(driven, spec.bands.folds, k)) for k in range(spec.bands.folds)]


def _unseen(spec: Spec, training: Sequences, held_out: Sequences, filled: list[Filled]) -> np.ndarray:
    """(members, rows of all filled sequences): validation data for everybody, and for every fold what it leaves out."""
    rows = sum(len(f.rows) for f in filled)
    each = np.zeros((spec.training.restarts + spec.bands.folds, rows), bool)
    each[:, rows - sum(map(len, held_out)) :] = True
    for number in range(spec.bands.folds):
        left_out = unseen_rows(training, spec.bands.folds, number)
        each[spec.training.restarts + number, : len(left_out)] |= left_out
    offsets = np.cumsum([0, *(len(f.steps) for f in filled)])
    measured = np.concatenate([first + f.rows for first, f in zip(offsets, filled, strict=False)])
    whole = np.zeros((len(each), offsets[-1]), bool)
    whole[:, measured] = each
    return np.tile(whole, (len(spec.structure.groups(training[0].outputs.shape[1])), 1))
