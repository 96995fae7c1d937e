"""What the measurements before a run still tell at its rows, and how much narrower bands are there.

Of every output two numbers count: n, the measured rows of late, where a row of k samples ago counts e^{-k / 20}, and
the samples s since the last of them. A run of which nothing was measured before has n = 0. Deviations are multiplied by

    1 - (1 - first) w,   w = (1 - e^{-n / 4}) e^{-s / memory},

so by `first` just after a long warm-up, and by 1 when its information has faded. NumPy alone: the runtime uses it, too.
"""

from dataclasses import dataclass

import numpy as np

_LATE, _ENOUGH = 20.0, 4.0  # samples in which a measured row fades, and how many such rows tell most


@dataclass(frozen=True)
class Recent:
    """What was measured of late: `count` n and `since` s, (D_y,) each, or (C, D_y) at C rows."""

    count: np.ndarray
    since: np.ndarray

    @classmethod
    def nothing(cls, outputs: int) -> "Recent":
        """Before anything was measured."""
        return cls(np.zeros(outputs), np.zeros(outputs))

    @classmethod
    def of(cls, outputs: np.ndarray, gaps: np.ndarray) -> "Recent":
        """After rows of outputs (T, D_y), NaN where nothing was measured, with so many samples to the next (T,)."""
        ages = np.cumsum(gaps[::-1])[::-1, None]  # of every row, at the end
        seen = ~np.isnan(outputs)
        since = np.where(seen, ages, np.inf).min(axis=0)
        since = np.where(seen.any(axis=0), since, 0.0)
        return cls(np.where(seen, np.exp((since - ages) / _LATE), 0.0).sum(axis=0), since)

    def measure(self, seen: np.ndarray) -> "Recent":
        """After a row at which some outputs (D_y,) were measured, before any time has passed."""
        faded = 1.0 + self.count * np.exp(-self.since / _LATE)
        return Recent(np.where(seen, faded, self.count), np.where(seen, 0.0, self.since))

    def later(self, samples: np.ndarray | float) -> "Recent":
        """After some time; at the C rows of a run, if it is (C,)."""
        return Recent(self.count, self.since + np.asarray(samples)[..., None])


@dataclass(frozen=True)
class Horizon:
    """`first`, from 0 to 1, and `memory` in samples, (D_y,) each."""

    first: np.ndarray
    memory: np.ndarray

    def narrow(self, recent: Recent) -> np.ndarray:
        """The factors on deviations, (C, D_y)."""
        return 1 - (1 - self.first) * -np.expm1(-recent.count / _ENOUGH) * np.exp(-recent.since / self.memory)
