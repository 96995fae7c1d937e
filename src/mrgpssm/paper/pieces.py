"""A piece of an experiment: one method as one fleet, trained, judged, and put into a record."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling
from mrgpssm.errors import FitError
from mrgpssm.file.record import digest
from mrgpssm.paper.config import Evaluation, Experiment, Method
from mrgpssm.paper.evaluation import METRICS, Outcome, evaluate, lay_out_runs
from mrgpssm.paper.fleet import ProblemFleet, choose_restarts, make_problem_fleet
from mrgpssm.paper.problems import Problem
from mrgpssm.paper.records import numbers
from mrgpssm.spec import Spec
from mrgpssm.training import FleetFit, Progress, begin, fit_fleet
from mrgpssm.training.progress import reporter

POINTS = 240  # of a free run in a record


@dataclass(frozen=True)
class ExperimentPiece:
    """One record's worth of work: its name, what its hash is of, how much work it is, and how to do it.

    `product` is a file that it leaves beside its record; a piece without it is not done. The pieces after one that is
    `needed` cannot run before it.
    """

    experiment: Experiment
    name: str
    config: dict[str, Any]
    data: dict[str, Any]
    run: Callable[[], dict[str, Any]]
    work: float = 0.0
    product: Path | None = None
    needed: bool = False

    def describe(self) -> dict[str, Any]:
        """What its record says of it, beside the results."""
        return {
            "experiment": self.experiment.what,
            "scale": self.experiment.scale,
            "name": self.name,
            "config": self.config,
            "config_sha256": digest(self.config),
            "data": self.data,
            "work": self.work,
        }


def fleet_work(spec: Spec, members: int) -> float:
    """A measure of training: latent states moved. Only ratios between pieces are used."""
    how = spec.training
    steps = how.cycles * how.steps * len(spec.structure.resolutions) * (how.window + how.buffer)
    return float(steps * (0.3 + 0.7 * members / 60) * (0.5 + 0.5 * spec.structure.latent_dim / 2))


def run_method(method: Method, problem: Problem, evaluation: Evaluation, *, show: bool, traces: bool) -> dict[str, Any]:
    """Train a fleet of one method over all folds and outputs and judge every member; a fleet that dies is a result."""
    spec, laps = method.spec, Laps()
    with floating_point(spec.structure.precision), reporter(show, spec.structure.resolutions, method.name) as report:
        fleet = make_problem_fleet(spec, problem, method.observation_sd)
        try:
            fitted = fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), laps.watch(report.steps))
        except FitError as error:
            return _all_diverged(fleet, problem, str(error), laps.seconds())
        trained = laps.seconds()
        best = choose_restarts(fleet, fitted.bounds)
        keep = best[0].tolist() if traces else []
        ssm = fitted.state.ssm
        outcome = evaluate(ssm, fleet, lay_out_runs(fleet, problem), evaluation, seed=spec.training.seed, keep=keep)
        result = _result(fleet, problem, fitted, best, outcome)
        if all(fold.before for fold in problem.folds):
            layout = lay_out_runs(fleet, problem, through=True)
            again = evaluate(ssm, fleet, layout, evaluation, seed=spec.training.seed)
            result["through"] = {name: numbers(again.metrics[name]) for name in METRICS}
        if traces:
            result["traces"] = _traces(problem, outcome, best[0])
    return result | {"seconds": laps.summary(trained), "peak_megabytes": peak_megabytes()}


class Laps:
    """When a fit reported what: seconds in all, and milliseconds per step without compilation."""

    def __init__(self):
        self.began = time.perf_counter()
        self.stamps: list[tuple[float, int]] = []

    def watch(self, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """The report, with a stop-watch."""

        def note(progress: Progress) -> None:
            self.stamps.append((time.perf_counter(), progress.done))
            report(progress)

        return note

    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.began

    def summary(self, trained: float) -> dict[str, float | None]:
        """What a record says of a fit that took so many seconds, and of what came after it."""
        everything, laps = self.seconds(), self._step_ms()
        parts = {"all": everything, "fit": trained, "evaluation": everything - trained}
        step_ms = round(float(np.median(laps)), 3) if laps else None
        return {name: round(seconds, 1) for name, seconds in parts.items()} | {"step_ms": step_ms}

    def _step_ms(self) -> list[float]:
        """Milliseconds a step in every chunk; those with a sweep or a compilation before them are rare enough."""
        return [1e3 * (b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(self.stamps) if b[1] > a[1]]


def peak_megabytes() -> int | None:
    """Largest use of the device's memory so far in this process, where the device counts it."""
    statistics = jax.devices()[0].memory_stats() or {}
    peak = statistics.get("peak_bytes_in_use")
    return None if peak is None else round(peak / 1e6)


def _who(fleet: ProblemFleet, problem: Problem) -> dict[str, list]:
    return {
        "output": [problem.outputs[i] for i in fleet.output],
        "fold": fleet.fold.tolist(),
        "restart": fleet.restart.tolist(),
        "seed": fleet.seed.tolist(),
        "output_sd": numbers(fleet.output_sd, 7),
    }


def _result(
    fleet: ProblemFleet, problem: Problem, fitted: FleetFit, best: np.ndarray, outcome: Outcome
) -> dict[str, Any]:
    """All members column by column; a member is chosen where it has the best bound of its fold and output."""
    variance = jax.vmap(lambda s: s.observation_variance())(fitted.state.ssm)[:, 0]
    members = _who(fleet, problem) | {
        "chosen": np.isin(np.arange(fleet.size), best).astype(int).tolist(),
        "alive": fitted.alive.astype(int).tolist(),
        "bound": numbers(fitted.bounds, 8),
        "skipped": np.asarray(fitted.state.health.skipped).tolist(),
        "noise_sd": numbers(np.sqrt(np.asarray(variance, float))),
    }
    members |= {name: numbers(outcome.metrics[name]) for name in METRICS}
    return {"members": members, "sequence_rmse": numbers(outcome.sequence_rmse[best.ravel()], 4), "failure": None}


def _all_diverged(fleet: ProblemFleet, problem: Problem, message: str, seconds: float) -> dict[str, Any]:
    """The record of a fleet none of whose members could be trained to the end."""
    first = fleet.restart == 0
    members = _who(fleet, problem) | {"chosen": first.astype(int).tolist(), "alive": [0] * fleet.size}
    members |= {name: [None] * fleet.size for name in ("bound", "skipped", "noise_sd", *METRICS)}
    return {
        "members": members,
        "failure": message,
        "seconds": {"all": round(seconds, 1), "fit": round(seconds, 1), "evaluation": 0.0, "step_ms": None},
    }


def _traces(problem: Problem, outcome: Outcome, members: np.ndarray) -> dict[str, Any]:
    """The first fold's free run over its first test sequence, per output: thinned out as a whole, and a close-up."""
    rows = len(problem.sequences[problem.folds[0].test[0]])
    whole, close = trace_rows(rows)
    scaling = Scaling.fit(problem.sequences[n] for n in problem.folds[0].train)
    runs = {
        name: {
            part: {
                "mean": numbers(outcome.mean[int(m)][0][at], 3),
                "std": numbers(outcome.std[int(m)][0][at], 2),
            }
            for part, at in (("whole", whole), ("close", close))
        }
        | {"offset": float(scaling.output_mean[index]), "scale": float(scaling.output_sd[index])}
        for index, (name, m) in enumerate(zip(problem.outputs, members, strict=True))
    }
    return {"rows": rows, "runs": runs}


def trace_rows(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """About `POINTS` rows over the whole of a sequence, and at most as many in a row before its middle."""
    whole = np.arange(0, rows, max(rows // POINTS, 1))
    first = max(rows // 2 - POINTS, 0)
    return whole, np.arange(first, min(first + POINTS, rows))
