"""Thin long series for drawing without losing their extremes."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from mrgpssm.report.chart import Band, Line, Panel


def thin(panel: Panel, mark: Line | Band, most: int) -> Line | Band:
    """A mark of a long panel with at most about `most` points.

    A NaN follows every recording, so that no line connects them; times repeat their last value instead.
    """
    rows = len(mark.x)
    bucket = bucket_rows(rows, most)
    parts = [slice(first, last) for first, last in pairwise([0, *panel.breaks, rows])]
    times = [thin_time(mark.x[part], bucket) for part in parts]
    x = np.concatenate([np.append(t, t[-1]) for t in times])

    def join(values: np.ndarray, how) -> np.ndarray:
        return np.concatenate([np.append(how(values[part], bucket), np.nan) for part in parts])

    if isinstance(mark, Line):
        return replace(mark, x=x, y=join(mark.y, thin_line))
    low, high = join(mark.low, partial(thin_edge, upper=False)), join(mark.high, partial(thin_edge, upper=True))
    return replace(mark, x=x, low=low, high=high)


def bucket_rows(rows: int, most: int) -> int:
    """Rows that share a bucket so that `rows` rows become at most `most` points, two a bucket; 1 keeps all."""
    return 1 if rows <= most else 2 * int(np.ceil(rows / (2 * (most // 2))))


def thin_line(values: np.ndarray, bucket: int) -> np.ndarray:
    """Minimum and maximum of every bucket, in the order in which they occur; NaN where nothing is known."""
    if bucket == 1:
        return values
    table = _buckets(values, bucket)
    gaps = np.isnan(table)
    low, high = np.where(gaps, np.inf, table), np.where(gaps, -np.inf, table)
    first, last = low.argmin(1), high.argmax(1)
    pair = np.stack([low.min(1), high.max(1)], axis=1)
    pair = np.where((first <= last)[:, None], pair, pair[:, ::-1])
    return np.where(np.isfinite(pair), pair, np.nan).ravel()


def thin_edge(values: np.ndarray, bucket: int, upper: bool) -> np.ndarray:
    """The outer envelope of a band's edge: the extreme of every half bucket, on the grid of `thin_line`."""
    if bucket == 1:
        return values
    table = _buckets(values, bucket).reshape(-1, bucket // 2)
    gaps = np.isnan(table)
    edge = np.where(gaps, -np.inf, table).max(1) if upper else np.where(gaps, np.inf, table).min(1)
    return np.where(np.isfinite(edge), edge, np.nan)


def thin_time(time: np.ndarray, bucket: int) -> np.ndarray:
    """Times of the first and the middle row of every bucket, where `thin_line` puts its two points."""
    if bucket == 1:
        return time
    starts = np.arange(0, len(time), bucket)
    rows = np.stack([starts, np.minimum(starts + bucket // 2, len(time) - 1)], axis=1)
    return np.asarray(time)[rows].ravel()


def _buckets(values: np.ndarray, bucket: int) -> np.ndarray:
    """Rows of a table, the last one filled up with what is not known."""
    count = -(-len(values) // bucket)
    padded = np.full(count * bucket, np.nan)
    padded[: len(values)] = values
    return padded.reshape(count, bucket)
