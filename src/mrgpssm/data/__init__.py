"""Data in memory: sequences, scaling, dilated windows, and synthetic systems."""

from mrgpssm.data.collect import (
    Data,
    Inputs,
    Warmup,
    as_inputs,
    as_list,
    as_warmup,
    check_alike,
    check_lengths,
    match,
)
from mrgpssm.data.drive import apply_drive, follow_drive
from mrgpssm.data.fill import Filled, fill, samples_between
from mrgpssm.data.folds import masks, trained_on, unseen, unseen_rows, with_copies
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.seen import Seen
from mrgpssm.data.sequence import Sequence
from mrgpssm.data.series import Clock, Series, flatten
from mrgpssm.data.windows import draw_windows, inner_places

__all__ = [
    "Clock",
    "Data",
    "Filled",
    "Inputs",
    "Scaling",
    "Seen",
    "Sequence",
    "Series",
    "Warmup",
    "apply_drive",
    "as_inputs",
    "as_list",
    "as_warmup",
    "check_alike",
    "check_lengths",
    "draw_windows",
    "fill",
    "flatten",
    "follow_drive",
    "inner_places",
    "masks",
    "match",
    "samples_between",
    "trained_on",
    "unseen",
    "unseen_rows",
    "with_copies",
]
