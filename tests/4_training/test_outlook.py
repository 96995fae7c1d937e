"""The time left of a fit, against stages whose times are known."""

import pytest

from mrgpssm.spec import make_spec
from mrgpssm.training.outlook import Outlook, step_work


class Clock:
    """A clock that moves when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def walk(outlook: Outlook, clock: Clock, *, work: int, pace: float, before: float, after: float):
    """A stage of so many units of work; what was expected at every mark, and when."""
    clock.now += before
    for left in range(work, -1, -1):
        outlook.note(float(left))
        yield clock.now, outlook.seconds()
        clock.now += pace if left else after


@pytest.mark.parametrize("paces", [(1.0, 1.0), (1.3, 1.1)])
def test_time_left_is_within_a_third_once_the_first_stage_is_half_way(paces):
    """Two trials, training and what follows; later stages may be somewhat faster than the ones before."""
    clock = Clock()
    outlook = Outlook({"one": 40.0, "two": 40.0, "fit": 120.0, "after": 10.0}, clock)
    seen = []
    for stage, work, pace in (("one", 40, paces[0]), ("two", 40, paces[1]), ("fit", 120, paces[1])):
        outlook.begin(stage)
        seen += walk(outlook, clock, work=work, pace=pace, before=8.0, after=4.0)
    outlook.begin("after")
    clock.now += 5
    assert outlook.seconds() == pytest.approx(10 * paces[1] - 5)
    end = clock.now + 10 * paces[1] - 5
    for now, seconds in seen[20:]:
        assert seconds == pytest.approx(end - now, rel=0.34, abs=9)


def test_nothing_is_said_before_anything_is_known():
    clock = Clock()
    outlook = Outlook({"fit": 10.0}, clock)
    outlook.begin("fit")
    assert outlook.seconds() is None
    outlook.note(10.0)
    assert outlook.seconds() is None


def test_a_resumed_stage_counts_only_what_is_left():
    clock = Clock()
    outlook = Outlook({"trial": 50.0, "fit": 100.0}, clock)
    outlook.begin("fit")
    outlook.note(30.0)
    clock.now += 5
    outlook.note(20.0)
    assert outlook.seconds() == pytest.approx(10)


def test_work_of_a_step_grows_with_every_size():
    base = {
        "resolutions": (1,),
        "latent_dim": 2,
        "inducing": 50,
        "samples": 20,
        "windows": 20,
        "window": 50,
        "buffer": 10,
    }
    work = lambda **other: step_work(make_spec(base | other).complete(), 1)  # noqa: E731
    assert work(samples=40) == 2 * work()
    assert work(windows=40) == 2 * work()
    assert work(latent_dim=4) > 2 * work()
    assert work(inducing=100) > 2 * work()
