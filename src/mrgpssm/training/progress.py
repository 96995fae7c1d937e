"""Showing people how a fit goes: a live bar on a terminal, plain lines elsewhere, nothing when asked."""

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from mrgpssm.file.words import printable
from mrgpssm.training import Progress as Report
from mrgpssm.training.outlook import Outlook

_LINE_SECONDS = 10.0
FIT = "fit"  # the stage of an outlook that trains to the end
AFTER = "after training"  # the last stage of an outlook


class Reporter(NamedTuple):
    """Two callbacks: `steps` takes the reports of `fit_fleet`, `stage` a few words on what is done after training."""

    steps: Callable[[Report], None]
    stage: Callable[[str], None]


@contextmanager
def reporter(
    show: bool, resolutions: tuple[int, ...], label: str = FIT, outlook: Outlook | None = None, each: float = 1.0
):
    """Callbacks that show a fit, where that is wanted.

    Training is the stage `label` of the outlook, which other stages may follow; a step of it is so much work `each`.
    """
    if not show:
        yield Reporter(_ignore, _ignore)
        return
    if outlook is None:
        outlook = Outlook({})
    outlook.begin(label)
    if sys.stderr.isatty():
        with _bar(label) as bar:
            yield _live(bar, resolutions, outlook, each)
    else:
        yield _lines(resolutions, label, outlook, each)


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
    columns = (TextColumn(label, markup=False), BarColumn(), TaskProgressColumn())
    description = TextColumn("{task.description}", markup=False)
    return Progress(*columns, description, console=Console(stderr=True), transient=True)


def _live(bar: Progress, resolutions: tuple[int, ...], outlook: Outlook, each: float) -> Reporter:
    task = bar.add_task("compiling", total=None)

    def show(report: Report) -> None:
        outlook.note(each * (report.total - report.done))
        line = describe(report, resolutions) + _left(outlook)
        bar.update(task, total=report.total, completed=report.done, description=line)

    later: list[TaskID] = []

    def name(stage: str) -> None:
        if not later:
            outlook.begin(AFTER)
            bar.update(task, visible=False)
            later.append(bar.add_task("", total=None))
        bar.update(later[0], description=printable(stage) + _left(outlook))

    return Reporter(show, name)


def _lines(resolutions: tuple[int, ...], label: str, outlook: Outlook, each: float) -> Reporter:
    last, after, tell = time.monotonic(), False, line_stages(True, label)

    def show(report: Report) -> None:
        nonlocal last
        outlook.note(each * (report.total - report.done))
        now = time.monotonic()
        if now - last < _LINE_SECONDS and report.done < report.total:
            return
        last = now
        tell(f"{100 * report.done / report.total:3.0f}%, {describe(report, resolutions)}{_left(outlook)}")

    def name(stage: str) -> None:
        nonlocal after
        if not after:
            outlook.begin(AFTER)
        after = True
        tell(stage + _left(outlook))

    return Reporter(show, name)


def _left(outlook: Outlook) -> str:
    """The end of a line: the time until the whole fit is done, where that is known."""
    seconds = outlook.seconds()
    return "" if seconds is None else f", {seconds:.0f} s left"
