"""What a training run is told: numbers that are fixed before it starts (paper, supplement E.1)."""

from dataclasses import dataclass
from typing import Literal

WindowStart = Literal["initial", "cache"]
Order = Literal["fast-first", "given"]
Optimiser = Literal["adam", "natural"]
Team = tuple[int, ...]  # components that train together


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
    optimiser: Optimiser = "adam"
    finetune: int = 0
    patience: int = 25
    chunk: int = 25
    sweep_chunk: int = 1000

    @property
    def window_steps(self) -> int:
        """B_0 + B."""
        return self.buffer + self.window

    def pace(self, cycle: int) -> float:
        """The factor on the learning rate: from 1 in the first cycle geometrically down to `anneal` in the last."""
        return self.anneal ** (min(cycle, self.cycles - 1) / max(self.cycles - 1, 1))

    def turns(self, resolutions: tuple[int, ...]) -> list[Team]:
        """The components in the order in which a cycle of backfitting trains them, one by one.

        Slow ones last by default: the slowest then corrects what the faster ones drift to when they run freely.
        """
        parts = range(len(resolutions))
        order = sorted(parts, key=lambda part: resolutions[part]) if self.order == "fast-first" else parts
        return [(part,) for part in order]

    def joint_turns(self, resolutions: tuple[int, ...]) -> list[Team]:
        """The same with components together: for the stride r of each, all that can take a step of it, R_l >= r.

        Faster ones stand by with their cached outputs: over a window of slow steps they would have to take many.
        """
        strides = dict.fromkeys(resolutions[part] for (part,) in self.turns(resolutions))
        return [tuple(part for part, R in enumerate(resolutions) if R >= stride) for stride in strides]

    def schedule(self, resolutions: tuple[int, ...]) -> list[tuple[int, Team]]:
        """All turns of a run, with their cycles: backfitting, then fine-tuning."""
        alone, together = self.turns(resolutions), self.joint_turns(resolutions)
        whole = [(cycle, turn) for cycle in range(self.cycles) for turn in alone]
        return whole + [(self.cycles + cycle, turn) for cycle in range(self.finetune) for turn in together]

    def teams(self, resolutions: tuple[int, ...]) -> list[Team]:
        """Who trains together at some time, each with an optimiser of its own."""
        return list(dict.fromkeys(turn for _, turn in self.schedule(resolutions)))
