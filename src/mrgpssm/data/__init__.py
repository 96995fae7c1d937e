"""Data in memory: sequences, scaling, dilated windows, and synthetic systems."""

from mrgpssm.data.collect import as_list, check_alike, check_lengths, match
from mrgpssm.data.drive import Drive, joined
from mrgpssm.data.folds import masks, trained_on, unseen, unseen_rows, with_copies
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.sequence import Sequence
from mrgpssm.data.series import Series, flatten
from mrgpssm.data.windows import draw_windows, inner_places

__all__ = [
    "Drive",
    "Scaling",
    "Sequence",
    "Series",
    "as_list",
    "check_alike",
    "check_lengths",
    "draw_windows",
    "flatten",
    "inner_places",
    "joined",
    "masks",
    "match",
    "trained_on",
    "unseen",
    "unseen_rows",
    "with_copies",
]
