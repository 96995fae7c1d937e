"""The demo: five models on a system with a fast and a slow component, and what each makes of a fresh recording.

It stands with the paper because it is the paper's comparison, GPSSM and MC-GPSSM against MR-GPSSM, on made-up data of
the paper's kind that need no download.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrgpssm.data.synthetic import TwoScales, two_scales
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.prediction.forecast import FINE_LEVELS, Forecast
from mrgpssm.report.evidence import OtherModel, RunEvidence
from mrgpssm.report.gather import assemble
from mrgpssm.report.trace import from_history
from mrgpssm.spec import arrange

SAMPLES = 50
SETTINGS: dict[str, Any] = {"inducing": 30, "windows": 12, "samples": 8, "cycles": 12}
_STEPS = 50
_FOLDS = 4  # of the multi-resolution model; its rivals are there for their errors
_FRESH = 1000  # the test recording has the seed of the training recording plus this


# As in the paper, a GPSSM has as many latent dimensions in all as the others, and as many updates.
CONTENDERS = {
    "GPSSM R=1": (1,),
    "GPSSM R=30": (30,),
    "MC-GPSSM R=[1,1]": (1, 1),
    "MC-GPSSM R=[30,30]": (30, 30),
    "MR-GPSSM R=[30,1]": (30, 1),
}
MULTI = "MR-GPSSM R=[30,1]"


@dataclass(frozen=True)
class Entry:
    """One contender after training: the model, scores on the fresh recording, seconds, and its free run."""

    model: MRGPSSM
    scores: dict[str, float]
    seconds: float
    forecast: Forecast


@dataclass(frozen=True)
class Demo:
    """Everything the demo's table, figure and record are made of."""

    kind: str
    seed: int
    train: TwoScales
    test: TwoScales
    entries: dict[str, Entry]
    correlations: dict[str, float]

    @property
    def ratio(self) -> float:
        """RMSE of the multi-resolution model over that of the best single-resolution one."""
        errors = {name: o.scores["rmse"] for name, o in self.entries.items()}
        return errors.pop(MULTI) / min(errors.values())

    def record(self) -> dict[str, Any]:
        """The demo as numbers."""
        rows = {
            name: o.scores | {"seconds": round(o.seconds, 1), "resolutions": list(CONTENDERS[name])}
            for name, o in self.entries.items()
        }
        return {
            "experiment": "demo",
            "data": {"set": self.kind, "seed": self.seed, "test_seed": self.seed + _FRESH},
            "settings": SETTINGS | {"steps": _STEPS},
            "models": rows,
            "ratio": self.ratio,
            "correlations": self.correlations,
        }


def run_demo(kind: str, seed: int, announce: Callable[[str], None], progress: bool) -> Demo:
    """Train every contender on one recording and let it run freely over a fresh one."""
    train, test = two_scales(kind, seed=seed), two_scales(kind, seed=seed + _FRESH)
    entries = {}
    for name, resolutions in CONTENDERS.items():
        announce(name)
        start = time.perf_counter()
        sizes = {"latent_dim": 4 // len(resolutions), "steps": 2 * _STEPS // len(resolutions), **SETTINGS}
        sizes["folds"] = _FOLDS if name == MULTI else 0
        model = MRGPSSM(resolutions, **arrange(**sizes)).fit(train.sequence, progress=progress)
        seconds = time.perf_counter() - start
        scores = model.score(test.sequence, samples=SAMPLES).iloc[0].to_dict()
        run = model.simulate(test.sequence, samples=SAMPLES, quantiles=FINE_LEVELS)
        entries[name] = Entry(model, {k: float(v) for k, v in scores.items()}, seconds, run)
    learned = entries[MULTI].forecast.components.values()
    correlations = {
        name: float(np.corrcoef(true[:, 0], part[:, 0])[0, 1])
        for (name, true), part in zip(test.components.items(), learned, strict=True)
    }
    return Demo(kind, seed, train, test, entries, correlations)


def gather_demo(demo: Demo, command: str) -> RunEvidence:
    """What a report shows of the multi-resolution model, beside its rivals; nothing is simulated again."""
    entry = demo.entries[MULTI]
    rivals = (
        OtherModel(name.split(" ")[0], CONTENDERS[name], {"y": other.scores["rmse"]})
        for name, other in demo.entries.items()
        if name != MULTI
    )
    return assemble(
        entry.model.fitted_,
        [demo.test.sequence],
        [entry.forecast],
        training=[demo.train.sequence],
        name=f"demo {demo.kind}",
        notes="A synthetic system with one fast and one slow part, measured with noise; the test is a fresh recording.",
        samples=SAMPLES,
        trace=from_history(entry.model.history_),
        rivals=tuple(rivals),
        commands=(command,),
    )
