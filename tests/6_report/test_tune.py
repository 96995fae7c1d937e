"""Tuning: what is searched, what is refused, and that a journal is never run twice."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from recordings import recording

from mrgpssm import ConfigError, FitError
from mrgpssm.sweep import tune
from mrgpssm.sweep.tune import BestTrial, make_tune

pytestmark = pytest.mark.once


def tables(folder: Path, **more) -> dict[str, Any]:
    data = {"files": [str(folder / "a.csv")], "validation": [str(folder / "b.csv")], "inputs": ["speed"],
            "outputs": ["NOx"], "time": "t"}  # fmt: skip
    search = {"trials": 5, "resolutions": [[1], [3, 1]], "range": {"inducing": [4, 9], "learning_rate": [0.01, 0.1]}}
    return {"data": data, "training": {"steps": 4}, "run": {"directory": str(folder / "search")}, "tune": search | more}


@pytest.fixture
def folder(tmp_path) -> Path:
    for index, name in enumerate("ab"):
        s = recording(index)
        columns = {"t": 0.1 * np.arange(len(s)), "speed": s.inputs[:, 0], "NOx": s.outputs[:, 0]}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


class Pretender:
    """A model whose error is known: least at 7 inducing points and with two components."""

    fitted: list[dict[str, Any]] = []  # noqa: RUF012  # one list for all, on purpose

    def __init__(self, **options: Any):
        self.options = options

    def fit(self, *_, **__):
        if self.options["inducing"] == 4:
            raise FitError("Training diverged.")
        self.fitted.append(self.options)
        return self

    def score(self, _):
        error = abs(self.options["inducing"] - 7) + (len(self.options["resolutions"]) == 1) + 0.5
        return pd.DataFrame({"nrmse": [error]}, index=["NOx"])


def test_trials_that_no_worker_ended_are_missed(folder, monkeypatch):
    """The workers are killed before their first trial: nothing is in the journal."""
    study = SimpleNamespace(trials=[], user_attrs={}, set_user_attr=lambda *_: None)
    process = SimpleNamespace(start=lambda: None, join=lambda: None, exitcode=-9)
    monkeypatch.setattr(tune, "_study", lambda *_: study)
    monkeypatch.setattr(tune.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=lambda **_: process))
    with pytest.raises(FitError, match=r"5 of 5 trials are not in .*the same command again"):
        tune.tune(make_tune(tables(folder), "t"), 2, lambda _: None)


def test_trials_go_on_where_the_journal_ends_and_the_best_is_found(folder, monkeypatch):
    pytest.importorskip("optuna", reason="Optuna is not installed (extra tune)")
    monkeypatch.setattr(tune, "MRGPSSM", Pretender)
    Pretender.fitted.clear()
    lines: list[str] = []
    first = tune.tune(make_tune(tables(folder), "t"), 1, lines.append)
    assert isinstance(first, BestTrial)
    assert first.trials == 5
    count = len(Pretender.fitted)
    again = tune.tune(make_tune(tables(folder), "t"), 1, lines.append)
    assert (again, len(Pretender.fitted)) == (first, count)
    more = tune.tune(make_tune(tables(folder, trials=25), "t"), 1, lines.append)
    assert more.trials == 25
    assert more.value == 0.5
    assert more.options["inducing"] == 7
    assert more.options["resolutions"] == [3, 1]
    assert more.options["steps"] == 4
    assert all(0.01 <= o["learning_rate"] <= 0.1 for o in Pretender.fitted)
    with pytest.raises(ConfigError, match="belongs to another search"):
        tune.tune(make_tune(tables(folder, metric="crps"), "t"), 1, lines.append)


@pytest.mark.slow
def test_two_workers_share_a_journal(folder):
    """Real fits in two spawned processes: all trials are there, each with options and an error of its own."""
    pytest.importorskip("optuna", reason="Optuna is not installed (extra tune)")
    given = tables(folder, trials=4, range={"inducing": [3, 6]})
    given["model"] = {"samples": 2, "windows": 3, "window": 8, "buffer": 2, "cycles": 1, "steps": 4}
    best = tune.tune(make_tune(given, "t"), 2, lambda _: None)
    assert best.trials >= 4  # the other worker may be in the middle of one more
    assert np.isfinite(best.value)
    assert 3 <= best.options["inducing"] <= 6


def test_a_stop_ends_all_workers(folder, monkeypatch):
    """Without this a stopped search waits for its workers."""
    ended: list[int] = []

    class Worker:
        def __init__(self, target, args):
            self.number = args[1]
            assert target is tune._work_aside

        def start(self):
            pass

        def join(self):
            raise KeyboardInterrupt

        def terminate(self):
            ended.append(self.number)

    monkeypatch.setattr(tune.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=Worker))
    with pytest.raises(KeyboardInterrupt):
        tune._share(make_tune(tables(folder), "t"), 0, 3)
    assert ended == [0, 1, 2]


def test_a_search_where_nothing_fits_says_so(folder, monkeypatch):
    pytest.importorskip("optuna", reason="Optuna is not installed (extra tune)")

    def fails(*_, **__):
        raise FitError("Training diverged.")

    monkeypatch.setattr(tune, "MRGPSSM", lambda **_: SimpleNamespace(fit=fails))
    with pytest.raises(FitError, match="No trial could be fitted"):
        tune.tune(make_tune(tables(folder, trials=2), "t"), 1, lambda _: None)


BAD = [
    ({"trials": 0}, "tune.trials must be a whole number"),
    ({"metric": "beauty"}, "tune.metric must be one of"),
    ({"resolutions": []}, "tune.resolutions must be a list of lists"),
    ({"resolutions": [[0]]}, "at least 1; got 0"),
    ({"range": {"preset": [1, 2]}}, "tune.range.preset is not a numeric option"),
    ({"range": {"inducing": [5, 5]}}, "tune.range.inducing must be [lowest, highest]"),
    ({"range": {"inducing": [2.5, 5]}}, "tune.range.inducing must be [lowest, highest]"),
    ({"speed": 1}, "[tune] knows trials, metric, resolutions and range"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), BAD, ids=[says[:30] for _, says in BAD])
def test_what_cannot_work_is_said_in_one_sentence(folder, change, says):
    with pytest.raises(ConfigError) as caught:
        make_tune(tables(folder, **change), "t")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_trials_need_something_to_be_judged_on(folder):
    given = tables(folder)
    given["data"]["validation"] = []
    with pytest.raises(ConfigError, match=r"data\.validation is empty"):
        make_tune(given, "t")
