"""What a training run is told: numbers that are fixed before it starts (paper, supplement E.1)."""

from dataclasses import dataclass, fields, replace

from mrgpssm.rollout import AbstractScheme
from mrgpssm.spec import Training, fixed_value

Team = tuple[int, ...]  # components that train together
_CHUNKS = (25, 20, 10, 5, 4, 3, 2, 1)
_AGAIN = 0.3  # of the learning rate, where training goes on with all data
# Training never reads these: `of` resets them, so that runs which differ in nothing else share compiled programs.
_ASIDE = {"start": "preset", "seed": 0, "restarts": 1, "ensemble": 1, "early_stopping": False}


@dataclass(frozen=True)
class TrainingSettings(Training):
    """`Training` without None, the scheme, and numbers that no user sets.

    Hashable: a static argument of every compiled program.
    """

    decay: float = 0.99
    decay_every: int = 10
    clip: float = 10.0
    patience: int = 25
    chunk: int = 25
    sweep_chunk: int = 1000
    scheme: str | AbstractScheme = "full_mc"

    def __post_init__(self):
        for field in fields(Training):
            if getattr(self, field.name) is None:
                object.__setattr__(self, field.name, fixed_value(field))
        super().__post_init__()

    @classmethod
    def of(cls, training: Training, scheme: str | AbstractScheme = "full_mc") -> "TrainingSettings":
        """For these options; steps go to the device in equal chunks."""
        given = {field.name: getattr(training, field.name) for field in fields(Training)}
        chunk = next(c for c in _CHUNKS if training.steps % c == 0)
        return cls(**(given | _ASIDE), chunk=chunk, scheme=scheme)

    @property
    def window_steps(self) -> int:
        """B_0 + B."""
        return self.buffer + self.window

    @property
    def of_step(self) -> "TrainingSettings":
        """With the same counts for all runs, which a step never reads: more runs share compiled programs."""
        return replace(self, cycles=1, steps=self.chunk, finetune=0, refit=0, anneal=1.0)

    def pace(self, cycle: int) -> float:
        """The factor on the learning rate: from 1 in the first cycle geometrically down to `anneal` in the last.

        Fine-tuning keeps the last value; what comes after it goes down again, from less. Within a cycle the rate also
        decays by `decay` (see `step.learning_rate`).
        """
        again = cycle - self.cycles - self.finetune
        if self.refit and again >= 0:
            return _AGAIN * self.anneal ** (again / max(self.refit - 1, 1))
        return self.anneal ** (max(min(cycle, self.cycles - 1), 0) / max(self.cycles - 1, 1))

    def steps_before(self, cycle: int) -> int:
        """Steps of a single component before a cycle, since its learning rate last began to decay."""
        again = cycle - self.cycles - self.finetune
        return self.steps * (again if self.refit and again >= 0 else cycle)

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
        """All turns of a run, with their cycles: backfitting, fine-tuning, and backfitting on all data."""
        alone, together = self.turns(resolutions), self.joint_turns(resolutions)
        kinds = [alone] * self.cycles + [together] * self.finetune + [alone] * self.refit
        return [(cycle, turn) for cycle, turns in enumerate(kinds) for turn in turns]

    def teams(self, resolutions: tuple[int, ...]) -> list[Team]:
        """Who trains together at some time, each with an optimiser of its own."""
        return list(dict.fromkeys(turn for _, turn in self.schedule(resolutions)))
