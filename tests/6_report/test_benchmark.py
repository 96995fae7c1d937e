"""The official protocol: what is scored, that test outputs reach no fit, records, and the command."""

import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM
from mrgpssm.cli import main
from mrgpssm.data.classic import BenchmarkRecording
from mrgpssm.data.nonlinear import BenchmarkSplit
from mrgpssm.sweep.benchmark import record_benchmark, tabulate_benchmarks

pytestmark = pytest.mark.once
SPLIT = BenchmarkSplit(
    [recording(0), recording(1)], [BenchmarkRecording(recording(2), 30), BenchmarkRecording(recording(3), 20)]
)


def pretend(seen: list) -> mock._patch:
    def fit(model, sequences, validation=None, progress=True, *, run_dir):
        seen.append((model.spec.training.seed, [s.name for s in sequences]))
        model.fitted_ = untrained(resolutions=(3, 1)).fitted_
        model.chosen_, model.validation_scores_ = ("something",), None
        run_dir.mkdir()
        model.save(run_dir / "model.mrgpssm")
        return model

    return mock.patch.object(MRGPSSM, "fit", fit)


def test_the_first_rows_set_the_state_and_are_not_scored():
    model, test = untrained(resolutions=(3, 1)), recording(2)
    run = model.simulate(test.take(slice(30, None)), warmup=test.take(slice(None, 30)), samples=50)
    error = np.sqrt(np.mean((run.mean - test.outputs[30:]) ** 2, axis=0))
    found = model.score(test, samples=50, warmup_rows=30)
    np.testing.assert_allclose(found["rmse"], error, rtol=1e-6)
    assert not np.allclose(found["rmse"], model.score(test, samples=50)["rmse"], rtol=1e-3)
    poisoned = replace(test, outputs=np.where(np.arange(len(test))[:, None] < 30, np.nan, test.outputs))
    blind = model.score(poisoned, samples=50, warmup_rows=30)
    assert not np.allclose(found["rmse"], blind["rmse"], rtol=1e-6)  # the first rows were looked at


def test_a_record_is_made_once_and_holds_every_score(tmp_path):
    seen: list = []
    with pretend(seen):
        first = record_benchmark("tanks", SPLIT, False, 3, tmp_path, progress=False)
        again = record_benchmark("tanks", SPLIT, False, 3, tmp_path, progress=False)
        other = record_benchmark("tanks", SPLIT, False, 4, tmp_path, progress=False)
    assert seen == [(3, ["seed 0", "seed 1"]), (4, ["seed 0", "seed 1"])]
    assert first == again
    assert first["warmup_rows"] == {"seed 2": 30, "seed 3": 20}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"tanks-{seed}.{end}" for seed in (3, 4) for end in ("json", "mrgpssm")
    }
    assert first["scores"]["seed 2"]["NOx"].keys() == {"rmse", "nll", "crps", "coverage_50", "coverage_90"}
    other["scores"]["seed 2"]["NOx"]["rmse"] = 2 + first["scores"]["seed 2"]["NOx"]["rmse"]
    rows = tabulate_benchmarks([first, other])
    assert [(r["test"], r["output"], r["seeds"]) for r in rows[:2]] == [("seed 2", "NOx", 2), ("seed 2", "Temp", 2)]
    assert rows[0]["most"] == pytest.approx(rows[0]["least"] + 2)
    assert rows[0]["rmse"] == pytest.approx(rows[0]["least"] + 1)


def test_a_stop_while_tests_are_scored_loses_no_fit(tmp_path):
    seen: list = []
    with (
        pretend(seen),
        mock.patch.object(MRGPSSM, "score", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        record_benchmark("tanks", SPLIT, False, 0, tmp_path, progress=False)
    with pretend(seen):
        found = record_benchmark("tanks", SPLIT, False, 0, tmp_path, progress=False)
    assert len(seen) == 1
    assert found["chosen"] == ["something"]
    assert not (tmp_path / "run-tanks-0").exists()


def command(*words: str) -> int:
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_the_command_runs_what_is_there(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = {name: rng.standard_normal(120) for name in ("uEst", "yEst", "uVal", "yVal")}
    pd.DataFrame(table).to_csv(tmp_path / "cascaded_tanks.csv", index=False)
    root, out = ["--data-root", str(tmp_path)], ["--out", str(tmp_path / "out"), "--quiet"]
    assert command("benchmark", "f16", *root, *out) == 2
    assert "f16: F16Data_FullMSine_Level1.mat is nowhere" in capsys.readouterr().err
    assert command("benchmark", "all", "tanks", *root, *out) == 2
    capsys.readouterr()

    seen: list = []
    with pretend(seen), mock.patch.object(MRGPSSM, "score", return_value=scores()):
        assert command("benchmark", "all", *root, *out, "--seeds", "2", "--json") == 0
    told = capsys.readouterr()
    (row,) = json.loads(told.out)["scores"]
    assert (row["set"], row["seeds"], row["unit"]) == ("tanks", 2, "V")
    assert told.err.count("left out: ") == 7
    with pretend(seen):
        assert command("benchmark", "tanks", *root, *out, "--seeds", "2") == 0
    assert len(seen) == 2
    assert "0.5 to 0.5" in " ".join(capsys.readouterr().out.split())


def scores() -> pd.DataFrame:
    columns = ["rmse", "nll", "crps", "coverage_50", "coverage_90"]
    return pd.DataFrame([[0.5, 1.0, 0.2, 0.5, 0.9]], index=["y1"], columns=columns)
