"""Showing people how a fit goes: a live bar on a terminal, plain lines elsewhere, nothing when asked."""

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mrgpssm.file.words import printable
from mrgpssm.training import Progress as Report

_LINE_SECONDS = 10.0


class Reporter(NamedTuple):
    """Two callbacks: `steps` takes the reports of `fit_fleet`, `stage` a few words on what is done after training."""

    steps: Callable[[Report], None]
    stage: Callable[[str], None]


@contextmanager
def reporter(show: bool, resolutions: tuple[int, ...], label: str = "fit"):
    """Callbacks that show a fit, where that is wanted."""
    if not show:
        yield Reporter(_ignore, _ignore)
    elif sys.stderr.isatty():
        with _bar(label) as bar:
            yield _live(bar, resolutions)
    else:
        yield _lines(resolutions, label)


def line_stages(show: bool, label: str) -> Callable[[str], None]:
    """A callback that shows every stage as a line, where that is wanted."""

    def name(stage: str) -> None:
        print(printable(f"{label}: {stage}"), file=sys.stderr, flush=True)

    return name if show else _ignore


def tell_all(*listeners: Callable[[Report], None]) -> Callable[[Report], None]:
    """One callback that tells all of them, in order."""

    def tell(report: Report) -> None:
        for listener in listeners:
            listener(report)

    return tell


def announce(reasons: Iterable[str]) -> None:
    """What was chosen from the data, a line each."""
    for reason in reasons:
        print(printable(f"chosen: {reason}"), file=sys.stderr, flush=True)


def _ignore(_: object) -> None:
    pass


def describe(report: Report, resolutions: tuple[int, ...]) -> str:
    """Component, cycle, bound and window RMSE of the best member, in one line."""
    place = f"cycle {report.cycle + 1}, R={resolutions[report.component]}"
    if not np.isfinite(report.bound).any():
        return f"{place}, no finite step"
    best = int(np.nanargmax(report.bound))
    skipped = f", {int(report.skipped.sum())} skipped" if report.skipped.sum() else ""
    return f"{place}, bound {report.bound[best]:.0f}, window RMSE {report.rmse[best]:.3f}{skipped}"


def _bar(label: str) -> Progress:
    columns = (TextColumn(label, markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    description = TextColumn("{task.description}", markup=False)
    return Progress(*columns, description, console=Console(stderr=True), transient=True)


def _live(bar: Progress, resolutions: tuple[int, ...]) -> Reporter:
    task = bar.add_task("compiling", total=None)

    def show(report: Report) -> None:
        bar.update(task, total=report.total, completed=report.done, description=describe(report, resolutions))

    later: list[TaskID] = []

    def name(stage: str) -> None:
        if not later:
            bar.update(task, visible=False)
            later.append(bar.add_task("", total=None))  # how long it takes is not known
        bar.update(later[0], description=printable(stage))

    return Reporter(show, name)


def _lines(resolutions: tuple[int, ...], label: str) -> Reporter:
    last = time.monotonic()
    begun: tuple[float, int] | None = None  # speed counts from the first report on: compiling and resumed steps do not

    def show(report: Report) -> None:
        nonlocal last, begun
        now = time.monotonic()
        begun = begun or (now, report.done)
        if now - last < _LINE_SECONDS and report.done < report.total:
            return
        last = now
        line = f"{label}: {100 * report.done / report.total:3.0f}%, {describe(report, resolutions)}"
        if report.done > begun[1]:
            line += f", {(now - begun[0]) * (report.total - report.done) / (report.done - begun[1]):.0f} s left"
        print(printable(line), file=sys.stderr, flush=True)

    return Reporter(show, line_stages(True, label))
