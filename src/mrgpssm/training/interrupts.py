"""Ctrl-C and polite kills: put off while steps are under way, raised at once elsewhere, with one sentence each."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from mrgpssm.errors import Interrupted


class Stop:
    """A wish to stop. While `patient` the first one waits for `check`; otherwise, and the second time, it is raised."""

    def __init__(self, explain: Callable[[], str]):
        self.explain = explain
        self.patient = False
        self.asked: int | None = None  # the signal

    def check(self) -> None:
        """Raise `Interrupted` where somebody has asked to stop."""
        if self.asked is not None:
            raise Interrupted(self.explain(), self.asked)

    def hear(self, number: int, _frame: object = None) -> None:
        """What a signal does."""
        waits = self.patient and self.asked is None
        self.asked = number
        if not waits:
            self.check()


@contextlib.contextmanager
def listening(explain: Callable[[], str]) -> Iterator[Stop]:
    """Ctrl-C and SIGTERM raise `Interrupted` with that sentence; only the main thread may listen to signals."""
    stop = Stop(explain)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
