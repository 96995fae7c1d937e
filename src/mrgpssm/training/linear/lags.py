"""Features of past inputs at many time scales, for methods without a state."""

import numpy as np

FEW_ROWS = 5000  # data with fewer are short
Spans = tuple[tuple[int, int], ...]


def lag_spans(lengths: list[int], limit: int) -> Spans:
    """Spans of lags first ... last that the data can support: single lags, then spans that double in length.

    Long data: 0, 1, 2-3, 4-7, ... Short data: 0 to 15 one by one, then 16-31, ..., because a delay of a row or two
    matters there. The last span reaches back at most `limit` rows or an eighth of the shortest sequence.
    """
    reach = max(2, min(limit, min(lengths) // 8))
    dense = 2 if sum(lengths) >= FEW_ROWS else min(16, reach)
    spans = [(lag, lag) for lag in range(dense)]
    while 2 * (spans[-1][1] + 1) <= reach:
        spans.append((spans[-1][1] + 1, 2 * spans[-1][1] + 1))
    return tuple(spans)


def shorter(spans: Spans, factor: int) -> int:
    """The number of spans within 1 / factor of the longest lag; at least two."""
    reach = (spans[-1][1] + 1) / factor
    return max(2, sum(last + 1 <= reach for _, last in spans))


def span_means(inputs: np.ndarray, spans: Spans) -> np.ndarray:
    """(T, D S) means of the inputs over each span of lags; before the first row the first row repeats.

    Column D k + d holds span k of input d, so that fewer spans are the first columns of more.
    """
    reach = spans[-1][1]
    padded = np.concatenate([np.repeat(inputs[:1], reach, axis=0), inputs])
    total = np.concatenate([np.zeros((1, inputs.shape[1])), np.cumsum(padded, axis=0)])
    now = np.arange(len(inputs)) + reach
    means = [(total[now - first + 1] - total[now - last]) / (last - first + 1) for first, last in spans]
    return np.concatenate(means, axis=1)


def bridge(outputs: np.ndarray) -> np.ndarray:
    """(T, D_y) outputs with missing values interpolated; a column without any value is left unchanged."""
    filled = outputs.copy()
    for column in filled.T:
        seen = np.flatnonzero(np.isfinite(column))
        if len(seen):
            column[:] = np.interp(np.arange(len(column)), seen, column[seen])
    return filled
