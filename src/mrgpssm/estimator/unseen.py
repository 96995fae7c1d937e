"""What is learned from data that training has not seen: how much to trust instantaneous parts, how wide bands are."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mrgpssm.blend.boost import fit_trees
from mrgpssm.blend.noise import Runs, fit_noise
from mrgpssm.blend.static import fit_static, learn_kernels
from mrgpssm.blend.weigh import shares
from mrgpssm.data import Sequence, fill
from mrgpssm.prediction import metrics
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.predict import FreeRuns, Piece, Table, keep_runs, score_runs
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import Measurements
from mrgpssm.runtime.part import Blend, row_before
from mrgpssm.runtime.static import StaticPart
from mrgpssm.runtime.trees import TreesPart

_SAMPLES = 100
_TEMPERATURE_ROWS, _NOISE_ROWS = 5_000, 20_000
_LEVELS = (np.arange(20) + 0.5) / 20  # whose quantiles choose a temperature
_GROUPS = 4

AnyPart = StaticPart | TreesPart
Parts = dict[str, AnyPart]
Stage = Callable[[str, str], None]  # hears what is under way, and whose it is
Tell = Callable[[Piece, Measurements, np.ndarray], Table]


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


def judged(model: FittedModel, training: list[Sequence], judges: list[Judge], stage: Stage) -> Judged:
    """Learn from what the judges have not seen; without judges the model stays as it is.

    Their free runs are simulated once. Instantaneous parts, temperature and noise law, and the scores before and after
    are all made from these. `stage` hears what is under way.
    """
    spec = model.spec
    if not judges:
        return Judged(model, None, None)
    runs = []
    for judge in judges:
        stage("free runs", judge.name)
        runs.append(keep_runs(judge.model, judge.unseen, _SAMPLES, 0))
    if spec.structure.static or spec.structure.trees:
        model, runs = _with_parts(model, training, judges, runs, stage)
    over = judges[0].name if len(judges) == 1 else f"{len(judges)} folds"
    stage("scores", over)
    before = score_runs(runs)
    if not spec.bands.calibrate:
        return Judged(model, before, before)
    stage("noise", over)
    if spec.bands.noise != "gaussian":
        model = replace(model, noise=learn_noise(runs, spec.bands.noise == "boosted"))
    else:
        model = replace(model, calibration=learn_temperature(runs))
    after = [replace(r, law=replace(r.law, calibration=model.calibration, noise=model.noise)) for r in runs]
    stage("scores", f"{over}, calibrated")
    return Judged(model, before, score_runs(after))


def learn_noise(runs: list[FreeRuns], boosted: bool) -> StudentNoise:
    """The law of measurements around free runs over sequences that training has not seen; trees may help."""

    def tell(piece: Piece, found: Measurements, measured: np.ndarray) -> Table:
        return {"measured": measured, "mean": found.mean, "deviation": found.std, "drive": piece.drive}

    tables = _gather_all(runs, _NOISE_ROWS, tell)
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return fit_noise(Runs(**columns, groups=_groups([len(t["mean"]) for t in tables])), boosted)


def learn_temperature(runs: list[FreeRuns]) -> np.ndarray:
    """One factor per output on the width of the bands, (D_y,)."""

    def tell(_: Piece, found: Measurements, measured: np.ndarray) -> Table:
        return {"measured": measured, "mean": found.mean, "bands": found.quantiles(_LEVELS).swapaxes(0, 1)}

    tables = _gather_all(runs, _TEMPERATURE_ROWS, tell)
    measured, mean, bands = (np.concatenate([t[name] for t in tables]) for name in ("measured", "mean", "bands"))
    return runs[0].law.calibration * metrics.best_temperature(measured, mean, bands.swapaxes(0, 1))


def _gather_all(runs: list[FreeRuns], most: int, tell: Tell) -> list[Table]:
    """What `tell` says of every sequence of all runs, thinned to at most so many rows."""
    thin = -(-sum(len(s) for some in runs for s in some.sequences) // most)
    return [table for some in runs for table in some.gather(tell, thin)]


def _groups(lengths: list[int]) -> np.ndarray:
    """Four groups of whole sequences, or of stretches where there are fewer, a number for every row."""
    if len(lengths) >= _GROUPS:
        return np.repeat(np.arange(len(lengths)) % _GROUPS, lengths)
    return np.concatenate([np.arange(n) * _GROUPS // n for n in lengths])


def _with_parts(
    model: FittedModel, training: list[Sequence], judges: list[Judge], runs: list[FreeRuns], stage: Stage
) -> tuple[FittedModel, list[FreeRuns]]:
    """Everybody gets instantaneous parts from its own training data; the judges' errors say what shares they have."""
    own = _learn_parts(model, training, "the model", stage)
    parts = [own if j.model is model else _learn_parts(j.model, j.trained_on, j.name, stage) for j in judges]
    weighed = dict(zip(own, _shares(runs, parts), strict=True))

    def share(parts: Parts) -> Parts:
        return {name: replace(part, shares=weighed[name]) for name, part in parts.items()}

    blends = [Blend.of(len(model.output_names), **share(some)) for some in parts]
    pieces = [[piece.blend(blend).add_up() for piece in r.pieces] for r, blend in zip(runs, blends, strict=True)]
    return replace(model, **share(own)), [replace(r, pieces=some) for r, some in zip(runs, pieces, strict=True)]


def _learn_parts(model: FittedModel, sequences: list[Sequence], whose: str, stage: Stage) -> Parts:
    """The instantaneous parts that the options ask for, from these sequences and from nothing else."""
    spec, (drive, outputs), found = model.spec, _table(model, sequences), {}
    if spec.structure.static:
        stage("kernels", whose)
        kernels = learn_kernels(drive, outputs, spec.training.seed)
        stage("static part", whose)
        found["static"] = fit_static(drive, outputs, kernels, spec.structure.static, spec.training.seed)
    if spec.structure.trees:
        stage("trees", whose)
        found["trees"] = fit_trees(drive, outputs, spec.structure.trees, spec.training.seed)
    return found


def _table(model: FittedModel, sequences: list[Sequence]) -> tuple[np.ndarray, np.ndarray]:
    """What drove the row before, (T, D_u), and outputs (T, D_y), over all sequences, scaled."""
    drives = [_drive_before(model, s) for s in sequences]
    return np.concatenate(drives), np.concatenate([model.scaling.outputs(s.outputs) for s in sequences])


def _drive_before(model: FittedModel, sequence: Sequence) -> np.ndarray:
    """What drove the last step to every row, (T, D_u): over a gap averages go on, with the input held."""
    filled = fill(sequence)
    return row_before(model.follow(filled)[0])[filled.rows]


def _shares(runs: list[FreeRuns], parts: list[Parts]) -> np.ndarray:
    """(K, D_y) that make the errors of the blended means least, on runs of the components alone."""
    errors: list[tuple[np.ndarray, np.ndarray]] = []
    for some, told in zip(runs, parts, strict=True):
        tables = some.gather(
            lambda piece, found, measured, told=told: {
                "ours": found.mean - measured,
                "theirs": np.stack([part(piece.before) - measured for part in told.values()], axis=1),
            }
        )
        errors.extend((table["ours"], table["theirs"].swapaxes(0, 1)) for table in tables)
    columns = range(errors[0][0].shape[1])
    return np.stack([shares((a[:, c], b[:, :, c]) for a, b in errors) for c in columns], axis=1)
