"""A plain verdict on a free run: good, doubtful or bad, with the reason in one sentence.

| asked                                            | good           | doubtful          | bad        |
|--------------------------------------------------|----------------|-------------------|------------|
| fit, 100 (1 - RMSE / deviation)                  | at least 70 %  | 30 to 70 %        | below 30 % |
| measured values inside the 90 % band             | 80 to 99 %     | 60 to 80, over 99 | below 60 % |
| strongest correlation of the error with an input | below 0.3      | 0.3 or more       |            |
| what it was judged on                            | new recordings | its training data |            |

The worst answer counts. A fit of 70 % explains 91 % of the variance, one of 30 % about half. A correlation counts only
beyond its 99 % limit; 0.3 means that one delay of one input would explain a tenth of what the model leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

GRADES = ("good", "doubtful", "bad")
FIT_GOOD, FIT_BAD = 70.0, 30.0
COVER_LOW, COVER_HIGH, COVER_BAD = 0.80, 0.99, 0.60
FOLLOWS = 0.3


@dataclass(frozen=True)
class Verdict:
    """A grade and why, in one sentence."""

    grade: str
    reason: str


@dataclass(frozen=True)
class Findings:
    """What a verdict on one output is made of; `follows` is the input whose correlation counts, if any does."""

    fit_percent: float
    coverage_90: float
    follows: str | None = None
    correlation: float = 0.0
    seen_in_training: bool = False


def judge(found: Findings) -> Verdict:
    """The verdict on one output; the reason is that of its worst answer."""
    answers = [_fit(found.fit_percent), _band(found.coverage_90)]
    if found.follows is not None and abs(found.correlation) >= FOLLOWS:
        sentence = f"The error still follows the input {found.follows} (correlation {found.correlation:.2f})."
        answers.append(Verdict("doubtful", sentence))
    if found.seen_in_training:
        answers.append(Verdict("doubtful", "It was judged on the data it was trained on; give it new recordings."))
    worst = worst_of(answers)
    if worst.grade == "good":
        return Verdict("good", f"{answers[0].reason[:-1]}, and {answers[1].reason[0].lower()}{answers[1].reason[1:]}")
    return worst


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The first of the worst verdicts."""
    return max(verdicts, key=lambda v: GRADES.index(v.grade))


def overall(by_output: dict[str, Verdict]) -> Verdict:
    """The verdict on a whole model: that of its worst output, named where there are several."""
    worst = worst_of(list(by_output.values()))
    names = [name for name, v in by_output.items() if v.grade == worst.grade]
    if len(by_output) == 1:
        return worst
    if worst.grade == "good":
        return Verdict(
            "good", f"{'Both' if len(names) == 2 else f'All {len(names)}'} outputs pass. {names[0]}: {worst.reason}"
        )
    more = f" ({len(names)} of {len(by_output)} outputs are {worst.grade}.)"
    return Verdict(worst.grade, f"{names[0]}: {worst.reason}{more}")


def _fit(percent: float) -> Verdict:
    if not np.isfinite(percent):
        return Verdict("bad", "The free run is not finite.")
    grade = "good" if percent >= FIT_GOOD else "doubtful" if percent >= FIT_BAD else "bad"
    if percent <= 0:
        return Verdict(grade, f"The free run is no better than the mean of the measurement (fit {percent:.0f} %).")
    explained = 100 * (1 - (1 - percent / 100) ** 2)
    short = "" if grade == "good" else "only "
    share = f"{explained:.1f}" if explained > 99 else f"{explained:.0f}"  # 99.7 is not 100
    return Verdict(grade, f"The free run explains {short}{share} % of the variance (fit {percent:.0f} %).")


def _band(share: float) -> Verdict:
    percent = 100 * share
    if share > COVER_HIGH:
        return Verdict(
            "doubtful", f"The bands are too wide: the 90 % band holds {percent:.0f} % of the measured values."
        )
    if share >= COVER_LOW:
        return Verdict("good", f"The 90 % band holds {percent:.0f} % of the measured values.")
    grade = "doubtful" if share >= COVER_BAD else "bad"
    return Verdict(grade, f"The bands are too narrow: the 90 % band holds only {percent:.0f} % of the measured values.")
