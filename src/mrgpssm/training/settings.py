"""What a training run is told: numbers that are fixed before it starts (paper, supplement E.1)."""

from dataclasses import dataclass
from typing import Literal

WindowStart = Literal["initial", "cache"]
Order = Literal["fast-first", "given"]


@dataclass(frozen=True)
class TrainingSettings:
    """Hashable, so that it is a static argument of every compiled program."""

    samples: int = 20
    windows: int = 20
    window: int = 50
    buffer: int = 10
    cycles: int = 10
    steps: int = 300
    learning_rate: float = 0.05
    decay: float = 0.99
    decay_every: int = 10
    anneal: float = 0.1
    clip: float = 10.0
    window_start: WindowStart = "cache"
    order: Order = "fast-first"
    head: int = 0
    patience: int = 25
    chunk: int = 25
    sweep_chunk: int = 1000

    @property
    def window_steps(self) -> int:
        """B_0 + B."""
        return self.buffer + self.window

    def pace(self, cycle: int) -> float:
        """The factor on the learning rate: from 1 in the first cycle geometrically down to `anneal` in the last."""
        return self.anneal ** (cycle / max(self.cycles - 1, 1))

    def turns(self, resolutions: tuple[int, ...]) -> list[int]:
        """The components in the order in which a cycle trains them.

        Slow ones last by default: the slowest then corrects what the faster ones drift to when they run freely.
        """
        parts = range(len(resolutions))
        return sorted(parts, key=lambda part: resolutions[part]) if self.order == "fast-first" else list(parts)
