"""Runs an experiment piece by piece, here or on workers: finished pieces are skipped.

Here, none is begun that would not end in time. Every piece is a fleet already, so that on workers a piece is a task.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.errors import ConfigError
from mrgpssm.file.record import device_name
from mrgpssm.paper import batches, costs, semisynthetic
from mrgpssm.paper.config import Experiment, load_experiment, slug
from mrgpssm.paper.pieces import ExperimentPiece, fleet_work, run_method
from mrgpssm.paper.problems import Problem, engine_problem, measurement
from mrgpssm.paper.records import is_done, read_records, save_record
from mrgpssm.sweep.cluster import connect, run_tasks
from mrgpssm.sweep.engine import Workers

_MARGIN = 1.3  # pieces are never quite alike


@dataclass(frozen=True)
class Setting:
    """Where an experiment runs: its scale, the root of the data, the folder of the records, and whether to show how."""

    scale: str
    root: str | None
    out: Path
    show: bool = True


@dataclass(frozen=True)
class Summary:
    """What became of the pieces, by name."""

    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    left: tuple[str, ...]


def reproduce(
    what: str, setting: Setting, *, deadline: float | None, only: str | None, tell: Callable[[str], None]
) -> Summary:
    """Run the pieces of one experiment that have no record yet; `deadline` is on the clock of `time.monotonic`."""
    ran, skipped, left, names = [], [], [], []
    wanted = None if only is None else slug(only)
    for piece in pieces(what, setting, tell):
        names.append(slug(piece.name))
        if wanted not in (None, names[-1]):
            continue
        records = read_records(setting.out, setting.scale)
        seconds = _estimate(piece, records)
        if is_finished(piece, records):
            skipped.append(piece.name)
        elif left or (deadline is not None and time.monotonic() + seconds > deadline):
            left.append(f"{piece.name}, about {seconds:.0f} s")
            if piece.needed:
                break
        else:
            tell(f"{what}: {piece.name} ..." + (f" (about {seconds:.0f} s)" if seconds else ""))
            save_record(setting.out, piece.describe() | piece.run())
            ran.append(piece.name)
        if wanted is not None:
            break
    if wanted is not None and wanted not in names:
        raise ConfigError(f"{what} has no piece {only!r}; choose one of {', '.join(names)}.")
    return Summary(tuple(ran), tuple(skipped), tuple(left))


def reproduce_on(what: str, setting: Setting, workers: Workers, tell: Callable[[str], None]) -> Summary:
    """Run the pieces of an experiment on workers; those that others wait for run here, first.

    What counts in the end is the records on the disk: a piece without one is left.
    """
    every, skipped, tasks, reasons = [], [], [], {}
    with connect(workers.address, workers.count) as client:
        for piece in pieces(what, setting, tell):
            every.append(piece)
            if is_finished(piece, read_records(setting.out, setting.scale)):
                skipped.append(piece.name)
            elif piece.needed:
                _run_piece(piece.name, what, setting)
            else:
                tasks.append(piece.name)
        for name, reason in run_tasks(client, partial(_run_piece, what=what, setting=setting), tasks):
            reasons[name] = reason or "its task ended without a record"
            tell(f"{what}: {name} {'done' if reason is None else f'lost ({reason})'}")
    records = read_records(setting.out, setting.scale)
    left = [piece.name for piece in every if not is_finished(piece, records)]
    ran = [piece.name for piece in every if piece.name not in (*left, *skipped)]
    return Summary(tuple(ran), tuple(skipped), tuple(f"{name}: {reasons[name]}" for name in left))


def _run_piece(name: str, what: str, setting: Setting) -> None:
    reproduce(what, setting, deadline=None, only=name, tell=lambda _: None)


def is_finished(piece: ExperimentPiece, records: list[dict[str, Any]]) -> bool:
    """Whether a piece has a record, and the file that it leaves beside it."""
    made = piece.product is None or piece.product.exists()
    return made and is_done(records, piece.config, piece.data["sha256"])


def pieces(what: str, setting: Setting, tell: Callable[[str], None]) -> Iterator[ExperimentPiece]:
    """The pieces of an experiment, in the order in which they can run."""
    experiment = load_experiment(what, setting.scale)
    if experiment.problem == "cost":
        data = costs.cost_problem(experiment.more["rows"]).describe()
        yield ExperimentPiece(experiment, "cost", experiment.more, data, partial(costs.measure, experiment, tell))
        return
    if experiment.problem == "engine":
        problem = engine_problem(setting.scale, setting.root)
    else:
        sets = load_experiment("semi-synthetic", setting.scale)
        yield _latents(sets, setting)
        problem = semisynthetic.ready_sets(sets, setting.root, setting.out)
    if experiment.problem == "set S":
        problem = batches.only_set(problem, "S")
        config = {"methods": [experiment.config(m) for m in experiment.methods]}
        run = partial(batches.measure, experiment, problem)
        yield ExperimentPiece(experiment, batches.TIMING, config, problem.describe(), run, needed=True)
    yield from _methods(experiment, problem, setting)


def _methods(experiment: Experiment, problem: Problem, setting: Setting) -> Iterator[ExperimentPiece]:
    data, how = problem.describe(), {"show": setting.show, "traces": experiment.problem == "semi-synthetic"}
    for asked in experiment.methods:
        method = batches.in_equal_time(experiment, asked, read_records(setting.out, setting.scale))
        members = len(problem.folds) * len(problem.outputs) * method.spec.training.restarts
        run = partial(run_method, method, problem, experiment.evaluation, **how)
        work = fleet_work(method.spec, members)
        yield ExperimentPiece(experiment, method.name, experiment.config(method), data, run, work)


def _latents(experiment: Experiment, setting: Setting) -> ExperimentPiece:
    source = measurement(setting.scale, setting.root)
    config, data = semisynthetic.latents_mark(experiment, source)
    path = semisynthetic.latents_path(setting.out, setting.scale)
    run = partial(semisynthetic.make_latents, experiment, source, path, show=setting.show)
    return ExperimentPiece(experiment, "latents", config, data, run, product=path, needed=True)


def _estimate(piece: ExperimentPiece, records: list[dict[str, Any]]) -> float:
    """Seconds by the middle rate of what was done on a device of this kind; 0 where nothing was."""
    device = device_name()
    rates = [
        r["seconds"]["all"] / r["work"]
        for r in records
        if r["work"] > 0 and r["failure"] is None and r["environment"]["device"] == device
    ]
    return _MARGIN * float(np.median(rates)) * piece.work if rates else 0.0
