"""What is learned from data that training has not seen: how wide bands are."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mrgpssm.estimator.horizon import learn_horizon, start_anywhere
from mrgpssm.estimator.judges import Judge
from mrgpssm.estimator.noise import Runs, fit_noise, group_rows
from mrgpssm.estimator.paths import learn_paths
from mrgpssm.estimator.territory import grow, learn_growth
from mrgpssm.prediction import metrics
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.predict import FreeRuns, Piece, score_runs
from mrgpssm.prediction.scores import Table
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.output import Measurements

RUNS, WARM_RUNS = "free runs", "runs after warm-ups"  # stages
_TEMPERATURE_ROWS, _NOISE_ROWS = 5_000, 20_000
_BAND = np.array([0.05, 0.95])  # the levels of the band that a temperature is chosen by

Stage = Callable[[str, str], None]  # hears what is under way, and whose it is
Tell = Callable[[Piece, Measurements, np.ndarray], Table]


@dataclass(frozen=True)
class Judged:
    """The model with its bands, its scores on unseen data without and with calibration, and the folds by number."""

    model: FittedModel
    before: pd.DataFrame | None
    after: pd.DataFrame | None
    folds: dict[int, FittedModel] = field(default_factory=dict)


def calibrate_model(model: FittedModel, judges: list[Judge], stage: Stage) -> Judged:
    """Learn from what the judges have not seen; without judges the model stays as it is.

    Growth in new territory, temperature or noise law, the law of trajectories, and the scores before and after are all
    made from the same free runs. What a warm-up tells is learned on further, short runs. `stage` hears what is under
    way.
    """
    spec = model.spec
    if not judges:
        return Judged(model, None, None)
    runs = run_all(judges, stage)
    over = judges[0].name if len(judges) == 1 else f"{len(judges)} folds"
    stage("scores", over)
    before = score_runs(runs)
    if not spec.bands.calibrate:
        return Judged(model, before, before)
    stage("noise", over)
    growth = learn_growth(runs, _thin(runs, _NOISE_ROWS))
    runs = [replace(r, law=replace(r.law, territory=grow(r.law.territory, growth))) for r in runs]
    model = replace(model, territory=grow(model.territory, growth))
    if spec.bands.noise != "gaussian":
        model = replace(model, noise=learn_noise(runs))
    else:
        model = replace(model, calibration=learn_temperature(runs))
    after = [replace(r, law=replace(r.law, calibration=model.calibration, noise=model.noise)) for r in runs]
    stage(WARM_RUNS, over)
    model = replace(model, horizon=learn_horizon(_run_anywhere(judges, after)))
    after = [replace(r, law=replace(r.law, horizon=model.horizon)) for r in after]
    stage("trajectories", over)
    model = replace(model, paths=learn_paths(after))
    stage("scores", f"{over}, calibrated")
    return Judged(model, before, score_runs(after))


def _run_anywhere(judges: list[Judge], runs: list[FreeRuns]) -> list[FreeRuns]:
    """Short runs of the same judges after warm-ups, with the laws that their runs have."""
    pairs = ((start_anywhere(judge), own.law) for judge, own in zip(judges, runs, strict=True))
    return [replace(judge.runs, law=law) for judge, law in pairs if judge is not None]


def run_all(judges: list[Judge], stage: Stage) -> list[FreeRuns]:
    """The free runs of all judges; those that were simulated before are taken as they are."""
    for judge in judges:
        if "runs" not in vars(judge):
            stage(RUNS, judge.name)
            judge.runs  # noqa: B018
    return [judge.runs for judge in judges]


def learn_noise(runs: list[FreeRuns]) -> StudentNoise:
    """The law of measurements around free runs over sequences that training has not seen."""

    def tell(piece: Piece, found: Measurements, measured: np.ndarray) -> Table:
        deviation = found.std / found.stretch
        return {"measured": found.narrow(measured), "mean": found.mean, "deviation": deviation, "drive": piece.drive}

    tables = _gather_all(runs, _NOISE_ROWS, tell)
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return fit_noise(Runs(**columns, groups=group_rows([len(t["mean"]) for t in tables])))


def learn_temperature(runs: list[FreeRuns]) -> np.ndarray:
    """One factor per output on the width of the bands, (D_y,)."""

    def tell(_: Piece, found: Measurements, measured: np.ndarray) -> Table:
        low, high = found.quantiles(_BAND)
        return {"measured": measured, "mean": found.mean, "low": low, "high": high}

    tables = _gather_all(runs, _TEMPERATURE_ROWS, tell)
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return runs[0].law.calibration * metrics.best_temperature(**columns)


def _gather_all(runs: list[FreeRuns], most: int, tell: Tell) -> list[Table]:
    """What `tell` says of every sequence of all runs, thinned to at most so many rows."""
    return [table for some in runs for table in some.gather(tell, _thin(runs, most))]


def _thin(runs: list[FreeRuns], most: int) -> slice:
    """At most about so many of all rows."""
    return slice(None, None, -(-sum(len(s) for some in runs for s in some.sequences) // most))
