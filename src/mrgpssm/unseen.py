"""What is learned from data that training has not seen: how much to trust the static part, and how wide bands are."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mrgpssm.data import Sequence
from mrgpssm.modelfile import FittedModel
from mrgpssm.predict import calibration, free_means, learned_noise, scores_of
from mrgpssm.static.fit import Kernel, fit_static, learn_kernels, share
from mrgpssm.static.law import StaticPart

_SAMPLES = 100


@dataclass(frozen=True)
class Judge:
    """A model, what it was trained on, and sequences it has not seen."""

    model: FittedModel
    trained_on: list[Sequence]
    unseen: list[Sequence]


@dataclass(frozen=True)
class Judged:
    """The model with its static part and bands, and its scores on unseen data without and with calibration."""

    model: FittedModel
    before: pd.DataFrame | None
    after: pd.DataFrame | None


def judged(model: FittedModel, training: list[Sequence], judges: list[Judge]) -> Judged:
    """Learn from what the judges have not seen; without judges the model stays as it is."""
    options = model.options
    if not judges:
        return Judged(model, None, None)
    if options.static:
        model, judges = _with_static(model, training, judges)
    pairs = [(j.model, j.unseen) for j in judges]
    before = scores_of(pairs, _SAMPLES, 0)
    if not options.calibrate:
        return Judged(model, before, before)
    if options.noise == "student":
        noise = learned_noise(pairs)
        model, pairs = replace(model, noise=noise), [(replace(m, noise=noise), s) for m, s in pairs]
    else:
        factors = calibration(pairs)
        model, pairs = (
            replace(model, calibration=factors),
            [(replace(m, calibration=factors), s) for m, s in pairs],
        )
    return Judged(model, before, scores_of(pairs, _SAMPLES, 0))


def _with_static(model: FittedModel, training: list[Sequence], judges: list[Judge]) -> tuple[FittedModel, list[Judge]]:
    """Everybody gets a static part from its own training data; the judges' errors say what share it has.

    The kernels, a few dozen numbers, are learned once from all training data.
    """
    kernels = learn_kernels(*_table(model, training), model.options.seed)
    own = _static(model, training, kernels)
    parts = [own if j.model is model else _static(j.model, j.trained_on, kernels) for j in judges]
    shares = _shares(judges, parts)
    whole = replace(model, static=replace(own, shares=shares))
    return whole, [
        replace(j, model=whole if j.model is model else replace(j.model, static=replace(part, shares=shares)))
        for j, part in zip(judges, parts, strict=True)
    ]


def _static(model: FittedModel, sequences: list[Sequence], kernels: list[Kernel]) -> StaticPart:
    return fit_static(*_table(model, sequences), kernels, model.options.static, model.options.seed)


def _table(model: FittedModel, sequences: list[Sequence]) -> tuple[np.ndarray, np.ndarray]:
    """What drove the row before, (T, D_u), and outputs (T, D_y), over all sequences, scaled."""
    drives = [_before(model.drive(s)) for s in sequences]
    return np.concatenate(drives), np.concatenate([model.scaling.outputs(s.outputs) for s in sequences])


def _shares(judges: list[Judge], parts: list[StaticPart]) -> np.ndarray:
    errors: list[tuple[np.ndarray, np.ndarray]] = []
    for judge, part in zip(judges, parts, strict=True):
        for s, mean in zip(judge.unseen, free_means(judge.model, judge.unseen), strict=True):
            y = judge.model.scaling.outputs(s.outputs)
            errors.append((mean - y, part(_before(judge.model.drive(s))) - y))
    return np.array([share((a[:, c], b[:, c]) for a, b in errors) for c in range(errors[0][0].shape[1])])


def _before(drive: np.ndarray) -> np.ndarray:
    return np.concatenate([drive[:1], drive[:-1]])
