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

AnyPart = StaticPart | TreesPart
Learner = Callable[[np.ndarray, np.ndarray], AnyPart]  # from drive and outputs
Parts = dict[str, AnyPart]


@dataclass(frozen=True)
class Judge:
    """A model, what it was trained on, and sequences it has not seen."""

    model: FittedModel
    trained_on: list[Sequence]
    unseen: list[Sequence]


@dataclass(frozen=True)
class Judged:
    """The model with its instantaneous parts and bands, and its scores on unseen data without and with calibration."""

    model: FittedModel
    before: pd.DataFrame | None
    after: pd.DataFrame | None


def judged(model: FittedModel, training: list[Sequence], judges: list[Judge]) -> Judged:
    """Learn from what the judges have not seen; without judges the model stays as it is."""
    options = model.options
    if not judges:
        return Judged(model, None, None)
    if options.static or options.trees:
        model, judges = _with_parts(model, training, judges)
    pairs = [(j.model, j.unseen) for j in judges]
    before = scores_of(pairs, _SAMPLES, 0)
    if not options.calibrate:
        return Judged(model, before, before)
    if options.noise != "gaussian":
        noise = learned_noise(pairs, options.noise == "boosted")
        model, pairs = replace(model, noise=noise), [(replace(m, noise=noise), s) for m, s in pairs]
    else:
        factors = calibration(pairs)
        model, pairs = (
            replace(model, calibration=factors),
            [(replace(m, calibration=factors), s) for m, s in pairs],
        )
    return Judged(model, before, scores_of(pairs, _SAMPLES, 0))


def _with_parts(model: FittedModel, training: list[Sequence], judges: list[Judge]) -> tuple[FittedModel, list[Judge]]:
    """Everybody gets instantaneous parts from its own training data; the judges' errors say what shares they have."""
    learners = _learners(model.options)

    def parts_of(model: FittedModel, sequences: list[Sequence]) -> Parts:
        table = _table(model, sequences)
        return {name: learn(*table) for name, learn in learners.items()}

    own = parts_of(model, training)
    parts = [own if j.model is model else parts_of(j.model, j.trained_on) for j in judges]
    weighed = dict(zip(learners, _shares(judges, parts), strict=True))

    def blended(model: FittedModel, parts: Parts) -> FittedModel:
        return replace(model, **{name: replace(part, shares=weighed[name]) for name, part in parts.items()})

    whole = blended(model, own)
    return whole, [
        replace(j, model=whole if j.model is model else blended(j.model, some))
        for j, some in zip(judges, parts, strict=True)
    ]


def _learners(options: Options) -> dict[str, Learner]:
    """What makes a part of drive and outputs, and of nothing else."""
    found: dict[str, Learner] = {}
    if options.static:
        found["static"] = lambda u, y: fit_static(u, y, learn_kernels(u, y, options.seed), options.static, options.seed)
    if options.trees:
        found["trees"] = lambda u, y: fit_trees(u, y, options.trees, options.seed)
    return found


def _table(model: FittedModel, sequences: list[Sequence]) -> tuple[np.ndarray, np.ndarray]:
    """What drove the row before, (T, D_u), and outputs (T, D_y), over all sequences, scaled."""
    drives = [row_before(model.drive(s)) for s in sequences]
    return np.concatenate(drives), np.concatenate([model.scaling.outputs(s.outputs) for s in sequences])


def _shares(judges: list[Judge], parts: list[Parts]) -> np.ndarray:
    """(K, D_y)."""
    errors: list[tuple[np.ndarray, np.ndarray]] = []
    for judge, some in zip(judges, parts, strict=True):
        for s, mean in zip(judge.unseen, free_means(judge.model, judge.unseen), strict=True):
            y, drive = judge.model.scaling.outputs(s.outputs), row_before(judge.model.drive(s))
            errors.append((mean - y, np.stack([part(drive) - y for part in some.values()])))
    columns = range(errors[0][0].shape[1])
    return np.stack([shares((a[:, c], b[:, :, c]) for a, b in errors) for c in columns], axis=1)
