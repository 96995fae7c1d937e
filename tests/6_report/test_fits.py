"""`mrgpssm bench fit`: whole fits from files, beside baselines, as one record."""

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pandas as pd
import pytest
from recordings import recording

from mrgpssm.cli import main
from mrgpssm.data.sequence import take_outputs
from mrgpssm.errors import FitError
from mrgpssm.sweep import fits
from mrgpssm.sweep.fits import AGAIN, CASES, OURS, FitCase, find_cases, time_fits

pytestmark = pytest.mark.once
QUICK = [
    "--resolutions",
    "1",
    "--inducing",
    "3",
    "--samples",
    "2",
    "--windows",
    "2",
    "--window",
    "6",
    "--buffer",
    "1",
    "--cycles",
    "1",
    "--steps",
    "2",
]
CASE = FitCase([take_outputs(recording(i), ["NOx"]) for i in (0, 1)], [take_outputs(recording(2), ["NOx"])], 20)


def run_quickly(command: list[str], **_) -> SimpleNamespace:
    """What the command does, in this process and with few steps; other options are those that were given."""
    assert command[:3] == [sys.executable, "-m", "mrgpssm"]
    return SimpleNamespace(returncode=call(*command[3:], *QUICK), stderr="")


def call(*words: str) -> int:
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_every_method_is_timed_and_scored_on_the_same_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fits, "subprocess", SimpleNamespace(run=run_quickly))
    monkeypatch.setitem(CASES, "tanks", lambda _: CASE)
    out = tmp_path / "fits.json"
    assert call("bench", "fit", "--cases", "tanks", "--rivals", "oe,arx", "--out", str(out)) == 0
    shown, record = capsys.readouterr().out, json.loads(out.read_text())
    assert [row["method"] for row in record["fits"]] == [OURS, AGAIN, "oe", "arx"]
    assert all(row["seconds"] >= 0 and set(row["rmse"]) == {"NOx"} for row in record["fits"])
    assert record["fits"][0]["rmse"] == record["fits"][1]["rmse"]  # the same files, options and seed
    assert "times ours" in shown


def test_a_baseline_has_the_same_warm_up(monkeypatch):
    ours = SimpleNamespace(score=lambda *_, **__: pd.DataFrame({"rmse": [1.0]}, ["NOx"]))
    monkeypatch.setattr(fits, "_fit_files", lambda *_: (ours, 1.0))
    warm, cold = (time_fits("a", c, ["oe"], lambda _: None)[-1] for c in (CASE, replace(CASE, warmup_rows=0)))
    assert warm["rmse"] != cold["rmse"]


def test_what_cannot_be_timed_is_one_sentence(tmp_path, capsys, monkeypatch):
    assert call("bench", "fit", "--cases", "boat") == 2
    assert "There is no case 'boat'; choose from recording, tanks, engine." in capsys.readouterr().err
    assert call("bench", "fit", "--cases", "engine", "--rivals", "", "--data-root", str(tmp_path)) == 2
    assert "No case has data here" in capsys.readouterr().err
    stopped = subprocess.CompletedProcess([], 1, "", "a line\nmrgpssm: The disk is full.\n")
    monkeypatch.setattr(fits, "subprocess", SimpleNamespace(run=lambda *_, **__: stopped))
    with pytest.raises(FitError, match=r"mrgpssm fit stopped: mrgpssm: The disk is full\."):
        time_fits("a", CASE, (), lambda _: None)


def test_the_recording_of_the_bench_has_6000_rows():
    case = find_cases(["recording"], None)["recording"]
    assert [len(s) for s in case.train] == [6000]
    assert (case.train[0].outputs != case.test[0].outputs).any()
