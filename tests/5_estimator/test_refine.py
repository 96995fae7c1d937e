"""Resolutions refined by the bound: neighbours, ranking, what is left out, the command."""

import json
from typing import Any

import numpy as np
import pytest
from recordings import recording

from mrgpssm import MRGPSSM, DataError
from mrgpssm.advice.refine import neighbours, refine
from mrgpssm.cli import main
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 5}


def test_neighbours_are_coarser_finer_fewer_and_slower():
    assert neighbours((30, 1)) == ((30, 1), (60, 2), (15, 1), (1,), (180, 30, 1))
    assert neighbours((1,)) == ((1,), (2,), (6, 1))
    assert neighbours((5, 5)) == ((5,), (10,), (2,), (30, 5))


def test_candidates_are_ranked_by_the_bounds_of_their_fits():
    data = [recording(0), recording(1)]
    found = refine(data, [(3, 1), (2,), (1000, 1)], **SMALL)  # the last one's windows do not fit
    assert sorted(r.resolutions for r in found) == [(2,), (3, 1)]
    assert found[0].total > found[1].total
    for ranked in found:
        alone = MRGPSSM(ranked.resolutions, **arrange(**SMALL, calibrate=False)).fit(data, progress=False)
        np.testing.assert_array_equal(ranked.bounds, alone.bounds_[:, 0])
        assert ranked.total == pytest.approx(alone.bounds_.sum())


def test_nothing_that_fits_is_one_sentence():
    with pytest.raises(DataError, match="1000"):
        refine(recording(0), [(1000,)], **SMALL)
    with pytest.raises(DataError, match="no candidate"):
        refine(recording(0), [], **SMALL)


def test_the_command_prints_what_short_training_says(tmp_path, monkeypatch, capsys):
    s = recording(0, rows=400)
    table = np.column_stack([np.arange(len(s)) * s.dt, s.inputs, s.outputs])
    names = ["t", *s.input_names, *s.output_names]
    np.savetxt(tmp_path / "a.csv", table, delimiter=",", header=",".join(names), comments="")
    monkeypatch.setattr("mrgpssm.advice.refine._SHORT", SMALL | {"calibrate": False})
    given = ["--inputs", ",".join(s.input_names), "--outputs", ",".join(s.output_names), "--time", "t", "--refine"]
    monkeypatch.setattr("sys.argv", ["mrgpssm", "suggest", str(tmp_path / "a.csv"), *given, "--json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    found = json.loads(capsys.readouterr().out)
    totals = [r["bound"] for r in found["refined"]]
    assert len(totals) >= 2
    assert totals == sorted(totals, reverse=True)
    monkeypatch.setattr("sys.argv", ["mrgpssm", "suggest", str(tmp_path / "a.csv"), *given])
    with pytest.raises(SystemExit):
        main()
    assert "lower bound" in capsys.readouterr().out
