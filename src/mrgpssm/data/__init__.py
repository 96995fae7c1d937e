"""Data in memory: sequences, scaling, dilated windows, and synthetic systems."""

from mrgpssm.data.collect import as_list, check_alike, check_lengths, match
from mrgpssm.data.filters import filter_names, joined, with_filters
from mrgpssm.data.scaling import Scaling
from mrgpssm.data.sequence import Sequence
from mrgpssm.data.series import Series, flatten
from mrgpssm.data.windows import draw_windows, window_counts

__all__ = [
    "Scaling",
    "Sequence",
    "Series",
    "as_list",
    "check_alike",
    "check_lengths",
    "draw_windows",
    "filter_names",
    "flatten",
    "joined",
    "match",
    "window_counts",
    "with_filters",
]
