"""From checked options and data to a training plan, with all members at their starting values."""

from dataclasses import replace

import numpy as np

from mrgpssm.data import Filled, Scaling, Sequence, apply_drive, fill, masks, trained_on, unseen_rows, with_copies
from mrgpssm.model import SSM, Component
from mrgpssm.spec import Spec
from mrgpssm.training.fleet import Member, make_fleet
from mrgpssm.training.plan import Plan

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
    unseen = _mark_unseen(spec, training, held_out, filled) if spec.training.early_stopping else None
    members = list_members(spec, len(training), training[0].outputs.shape[1], len(held_out))
    plan, ssm = make_fleet(spec, driven, scalings, members, unseen)
    if spec.training.refit:
        everything = np.arange(len(driven)) < len(training)
        plan = replace(plan, everything=plan.tasks.turn_to(everything))
    return plan, ssm


def list_members(spec: Spec, sequences: int, outputs: int, held_out: int = 0) -> list[Member]:
    """All restarts that train apart and then all folds of every output.

    Restarts train on every given sequence, folds on all but their part. Where there are fewer sequences than folds,
    the sequences are `with_copies` of them. Nobody trains on the `held_out` ones that come after all of these.
    Restarts have the first scaling, folds one each after it.
    """
    seed, restarts = spec.training.seed, spec.members - spec.fold_members
    folds = np.repeat(masks(spec.bands.folds, sequences), spec.bands.fold_restarts, axis=0)
    everything = np.arange(folds.shape[1]) < sequences
    training = np.pad(np.concatenate([np.tile(everything, (restarts, 1)), folds]), ((0, 0), (0, held_out)))
    scaling = [0] * restarts + [1 + k // spec.bands.fold_restarts for k in range(spec.fold_members)]
    return [
        Member(seed, group, number, columns, training[number], scaling[number])
        for group, columns in enumerate(spec.structure.groups(outputs))
        for number in range(spec.members)
    ]


def fold_scalings(spec: Spec, training: Sequences, whole: Scaling) -> list[Scaling]:
    """The scaling of every fold, fitted on what it trains on."""
    driven = [apply_drive(spec.structure.drive, s) for s in training]
    return [whole.refit(trained_on(driven, spec.bands.folds, k)) for k in range(spec.bands.folds)]


def _mark_unseen(spec: Spec, training: Sequences, held_out: Sequences, filled: list[Filled]) -> np.ndarray:
    """(members, rows of all filled sequences): validation data for everybody, and for every fold what it leaves out."""
    rows = sum(len(f.rows) for f in filled)
    each = np.zeros((spec.members, rows), bool)
    each[:, rows - sum(map(len, held_out)) :] = True
    for number in range(spec.fold_members):
        left_out = unseen_rows(training, spec.bands.folds, number // spec.bands.fold_restarts)
        each[spec.training.restarts + number, : len(left_out)] |= left_out
    offsets = np.cumsum([0, *(len(f.steps) for f in filled)])
    measured = np.concatenate([first + f.rows for first, f in zip(offsets, filled, strict=False)])
    whole = np.zeros((len(each), offsets[-1]), bool)
    whole[:, measured] = each
    return np.tile(whole, (len(spec.structure.groups(training[0].outputs.shape[1])), 1))
