"""Data in memory, in NumPy: sequences, scaling, folds, and synthetic systems. Nothing here imports JAX."""

from mrgpssm.data.collect import (
    Data,
    Inputs,
    Warmup,
    as_inputs,
    as_list,
    as_warmup,
    check_alike,
    check_lengths,
    cut_warmup,
    match,
)
from mrgpssm.data.fill import Filled, apply_drive, fill, follow_drive, samples_between
from mrgpssm.data.folds import (
    can_fold,
    check_folds,
    masks,
    take_pairs,
    take_unseen,
    trained_on,
    unseen_rows,
    with_copies,
)
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.seen import Seen
from mrgpssm.data.sequence import Sequence

__all__ = [
    "Data",
    "Filled",
    "Inputs",
    "Scaling",
    "Seen",
    "Sequence",
    "Warmup",
    "apply_drive",
    "as_inputs",
    "as_list",
    "as_warmup",
    "can_fold",
    "check_alike",
    "check_folds",
    "check_lengths",
    "cut_warmup",
    "fill",
    "follow_drive",
    "masks",
    "match",
    "samples_between",
    "take_pairs",
    "take_unseen",
    "trained_on",
    "unseen_rows",
    "with_copies",
]
