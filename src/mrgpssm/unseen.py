"""What is learned from data that training has not seen: how much to trust instantaneous parts, how wide bands are."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mrgpssm.data import Sequence
from mrgpssm.modelfile import FittedModel
from mrgpssm.options import Options
from mrgpssm.predict import calibration, free_means, learned_noise, scores_of
from mrgpssm.static.boost import fit_trees
from mrgpssm.static.fit import fit_static, learn_kernels
from mrgpssm.static.law import StaticPart
from mrgpssm.static.part import row_before
from mrgpssm.static.trees import TreesPart
from mrgpssm.static.weigh import shares

_SAMPLES = 100
_STAGES = {"static": "static part", "trees": "trees"}

AnyPart = StaticPart | TreesPart
Learner = Callable[[np.ndarray, np.ndarray], AnyPart]  # from drive and outputs
Parts = dict[str, AnyPart]
Tell = Callable[[str, str], None]  # the stage under way, and whose it is


@dataclass(frozen=True)
class Judge:
    """A model, what it was trained on, and sequences it has not seen; `name` is what people are told of those."""

    model: FittedModel
    trained_on: list[Sequence]
    unseen: list[Sequence]
    name: str


@dataclass(frozen=True)
class Judged:
    """The model with its instantaneous parts and bands, and its scores on unseen data without and with calibration."""

    model: FittedModel
    before: pd.DataFrame | None
    after: pd.DataFrame | None


def judged(model: FittedModel, training: list[Sequence], judges: list[Judge], tell: Tell) -> Judged:
    """Learn from what the judges have not seen; without judges the model stays as it is."""
    options = model.options
    if not judges:
        return Judged(model, None, None)
    if options.static or options.trees:
        model, judges = _with_parts(model, training, judges, tell)
    pairs = [(j.model, j.unseen) for j in judges]
    over = judges[0].name if len(judges) == 1 else f"{len(judges)} folds"
    tell("scores", over)
    before = scores_of(pairs, _SAMPLES, 0)
    if not options.calibrate:
        return Judged(model, before, before)
    tell("noise", over)
    if options.noise != "gaussian":
        noise = learned_noise(pairs, options.noise == "boosted")
        model, pairs = replace(model, noise=noise), [(replace(m, noise=noise), s) for m, s in pairs]
    else:
        factors = calibration(pairs)
        model, pairs = (
            replace(model, calibration=factors),
            [(replace(m, calibration=factors), s) for m, s in pairs],
        )
    tell("scores", f"{over}, calibrated")
    return Judged(model, before, scores_of(pairs, _SAMPLES, 0))


def _with_parts(
    model: FittedModel, training: list[Sequence], judges: list[Judge], tell: Tell
) -> tuple[FittedModel, list[Judge]]:
    """Everybody gets instantaneous parts from its own training data; the judges' errors say what shares they have."""
    if model.options.static:
        tell("kernels", "the static part")
    learners = _learners(model.options, *_table(model, training))

    def parts_of(model: FittedModel, sequences: list[Sequence], whose: str) -> Parts:
        table = _table(model, sequences)
        found: Parts = {}
        for name, learn in learners.items():
            tell(_STAGES[name], whose)
            found[name] = learn(*table)
        return found

    own = parts_of(model, training, "the model")
    parts = [own if j.model is model else parts_of(j.model, j.trained_on, j.name) for j in judges]
    weighed = dict(zip(learners, _shares(judges, parts, tell), strict=True))

    def blended(model: FittedModel, parts: Parts) -> FittedModel:
        return replace(model, **{name: replace(part, shares=weighed[name]) for name, part in parts.items()})

    whole = blended(model, own)
    return whole, [
        replace(j, model=whole if j.model is model else blended(j.model, some))
        for j, some in zip(judges, parts, strict=True)
    ]


def _learners(options: Options, drive: np.ndarray, outputs: np.ndarray) -> dict[str, Learner]:
    """What makes a part of drive and outputs; the kernels, a few dozen numbers, are learned here from all of them."""
    found: dict[str, Learner] = {}
    if options.static:
        kernels = learn_kernels(drive, outputs, options.seed)
        found["static"] = lambda u, y: fit_static(u, y, kernels, options.static, options.seed)
    if options.trees:
        found["trees"] = lambda u, y: fit_trees(u, y, options.trees, options.seed)
    return found


def _table(model: FittedModel, sequences: list[Sequence]) -> tuple[np.ndarray, np.ndarray]:
    """What drove the row before, (T, D_u), and outputs (T, D_y), over all sequences, scaled."""
    drives = [row_before(model.drive(s)) for s in sequences]
    return np.concatenate(drives), np.concatenate([model.scaling.outputs(s.outputs) for s in sequences])


def _shares(judges: list[Judge], parts: list[Parts], tell: Tell) -> np.ndarray:
    """(K, D_y)."""
    errors: list[tuple[np.ndarray, np.ndarray]] = []
    for judge, some in zip(judges, parts, strict=True):
        tell("free runs", judge.name)
        for s, mean in zip(judge.unseen, free_means(judge.model, judge.unseen), strict=True):
            y, drive = judge.model.scaling.outputs(s.outputs), row_before(judge.model.drive(s))
            errors.append((mean - y, np.stack([part(drive) - y for part in some.values()])))
    columns = range(errors[0][0].shape[1])
    return np.stack([shares((a[:, c], b[:, :, c]) for a, b in errors) for c in columns], axis=1)
