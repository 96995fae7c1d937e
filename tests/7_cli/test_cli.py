"""The command line as people use it: files in, models out, and one sentence for everything that cannot work."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from places import GOLDEN
from recordings import recording
from untrained import untrained

from mrgpssm.cli import main
from mrgpssm.cli.main import COMMANDS, find_command
from mrgpssm.estimator.costs import time_stages
from mrgpssm.estimator.judges import Judge
from mrgpssm.training.runs import RunDirectory

pytestmark = pytest.mark.once
TINY = [
    "--resolutions", "3,1", "--inducing", "4", "--samples", "2", "--windows", "3", "--window", "6", "--buffer", "1",
    "--cycles", "2", "--steps", "5", "--folds", "0",
]  # fmt: skip


def frame(seed: int) -> pd.DataFrame:
    s = recording(seed)
    columns = {"t": 0.1 * np.arange(len(s)), "speed": s.inputs[:, 0], "load": s.inputs[:, 1]}
    return pd.DataFrame(columns | {"NOx": s.outputs[:, 0], "Temp": s.outputs[:, 1]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three recordings, a fourth with shuffled columns, a model, and many files with something wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MRGPSSM_DATA", str(tmp_path / "data"))
    for index, name in enumerate("abc"):
        frame(index).to_csv(f"{name}.csv", index=False)
    frame(3)[["Temp", "load", "t", "NOx", "speed"]].to_csv("d.csv", index=False)
    shutil.copy(GOLDEN, "m.mrgpssm")
    spoil(tmp_path)
    return tmp_path


def spoil(root: Path) -> None:
    """The files of the table below."""
    good = frame(0)

    def edited(name, **columns):
        good.assign(**columns).to_csv(root / name, index=False)

    text = (root / "a.csv").read_text()
    (root / "empty.csv").write_text("")
    (root / "header.csv").write_text(text.splitlines()[0] + "\n")
    (root / "utf16.csv").write_bytes(text.encode("utf-16"))
    (root / "latin.csv").write_bytes(text.replace("speed", "gr\xf6\xdfe").encode("latin-1"))
    (root / "ragged.csv").write_text(text.replace("\n", "\n1,2,3,4,5,6,7\n", 2))
    (root / "words.csv").write_text(text.replace("\n", "\n0.05,fast,1,2,3\n", 1))
    (root / "twice.csv").write_text(text.replace("load", "speed", 1))
    (root / "table.xlsx").write_bytes(b"PK")
    (root / "broken.npz").write_bytes(b"PK\x03\x04 no")
    (root / "broken.mat").write_bytes(b"no MATLAB file at all")
    (root / "broken.parquet").write_bytes(b"PAR1 no PAR1")
    (root / "v73.mat").write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + b"\x89HDF\r\n\x1a\n")
    np.savez(root / "pickled.npz", speed=np.array([{"a": 1}], dtype=object))
    edited("noinput.csv", speed=good.speed.where(good.index != 7))
    edited("infinite.csv", load=good.load.where(good.index != 9, np.inf))
    edited("infout.csv", NOx=good.NOx.where(good.index != 9, np.inf))
    edited("constant.csv", load=1.0)
    edited("unmeasured.csv", Temp=np.nan)
    edited("backwards.csv", t=good.t.where(good.index != 5, 0.0))
    edited("repeated.csv", t=good.t.where(good.index != 5, 0.4))
    edited("notime.csv", t=good.t.where(good.index != 5))
    edited("badtime.csv", t=good.t.astype(object).where(good.index != 5, "noon"))
    edited("jitter.csv", t=good.t + 0.02 * np.sin(good.index))
    edited("gap.csv", t=good.t + np.where(good.index > 80, 3.0, 0.0))
    edited("slow.csv", t=10 * good.t)
    good.head(12).to_csv(root / "short.csv", index=False)
    good.head(1).to_csv(root / "one.csv", index=False)
    (root / "empty_folder").mkdir()
    (root / "shown").mkdir()
    (root / "shown" / "test.csv").write_text(text)
    (root / "unreadable.toml").write_text("[data\nfiles = 3")
    (root / "sections.toml").write_text("[modle]\nseed = 1\n")
    (root / "keys.toml").write_text("[model]\nresolution = [1]\n")
    (root / "place.toml").write_text("[training]\nlatent_dim = 2\n")
    (root / "datakeys.toml").write_text("[data]\nfile = ['a.csv']\n")
    (root / "types.toml").write_text("[data]\nfiles = [1]\ninputs = ['speed']\noutputs = ['NOx']\n")
    (root / "value.toml").write_text("data = 3\n")
    (root / "binary.toml").write_bytes(b"\xff\xfe\x00")
    damaged = bytearray((root / "m.mrgpssm").read_bytes())
    damaged[-3] ^= 1
    (root / "damaged.mrgpssm").write_bytes(damaged)
    (root / "cut.mrgpssm").write_bytes(damaged[:500])
    (root / "text.mrgpssm").write_text("not a model")


def call(capsys, *arguments) -> tuple[int, str, str]:
    """The command in this process: exit code, output, error output."""
    before, sys.argv = sys.argv, ["mrgpssm", *map(str, arguments)]
    try:
        with mock.patch.dict(os.environ), pytest.raises(SystemExit) as stopped:
            main()
    finally:
        sys.argv = before
    shown = capsys.readouterr()
    code = stopped.value.code
    return (code if isinstance(code, int) else 0), shown.out, shown.err


def fit(*more, data="a.csv", inputs="speed,load", outputs="NOx,Temp", time="t"):
    return ["fit", "--data", data, "--inputs", inputs, "--outputs", outputs, "--time", time, "--run-dir", "run", "--quiet",
            *TINY, *more]  # fmt: skip


def untimed(*more, data="a.csv"):
    return [
        "fit",
        "--data",
        data,
        "--inputs",
        "speed,load",
        "--outputs",
        "NOx",
        "--run-dir",
        "run",
        "--quiet",
        *TINY,
        *more,
    ]


SIM = ["simulate", "m.mrgpssm", "d.csv", "--time", "t"]
BAD = [
    # files
    (fit(data="none.csv"), "none.csv"),
    (fit(data="*.tsv"), "*.tsv"),
    (fit(data="empty_folder"), "empty_folder"),
    (fit(data="empty.csv"), "empty.csv"),
    (fit(data="header.csv"), "header.csv"),
    (fit(data="utf16.csv"), "UTF-8"),
    (fit(data="latin.csv"), "latin.csv"),
    (fit(data="ragged.csv"), "line 2"),
    (fit(data="words.csv"), "'fast'"),
    (fit(data="twice.csv"), "speed"),
    (fit(data="table.xlsx"), ".csv"),
    (fit(data="broken.npz"), "broken.npz"),
    (fit(data="broken.mat"), "broken.mat"),
    (fit(data="broken.parquet"), "broken.parquet"),
    (fit(data="v73.mat"), "-v7"),
    (fit(data="pickled.npz"), "pickled.npz"),
    # columns
    (fit(inputs="speed,laod"), "'load'"),
    (fit(outputs="NOX"), "'NOx'"),
    (fit(time="time"), "'time'"),
    (fit(inputs="speed,NOx"), "NOx"),
    (fit(inputs="speed,speed"), "speed"),
    (fit(inputs="t,speed"), "'t'"),
    (fit(inputs=","), "--inputs"),
    (untimed("--dt", "0"), "dt"),
    (untimed("--dt", "-1"), "dt"),
    # values
    (fit(data="noinput.csv"), "row 7"),
    (fit(data="infinite.csv"), "row 9"),
    (fit(data="infout.csv"), "row 9"),
    (fit(data="constant.csv"), "'load' is constant"),
    (fit(data="unmeasured.csv"), "'Temp' has no measured value"),
    (fit(data="short.csv"), "needs 22 rows at resolution 3"),
    (fit(data="one.csv"), "one.csv"),
    # time
    (fit(data="backwards.csv"), "row 5"),
    (fit(data="repeated.csv"), "row 5"),
    (fit(data="notime.csv"), "row 5"),
    (fit(data="badtime.csv"), "noon"),
    (fit(data="jitter.csv"), "irregular"),
    (fit("--gaps", "refuse", data="gap.csv"), "row 81"),
    (fit("--data", "slow.csv"), "dt = 1 s"),
    (fit("--dt", "0.2"), "0.2"),
    (fit("--gaps", "fill"), "split, irregular, refuse"),
    # options
    (fit("--resolutions", "3,x"), "30,5,1"),
    (fit("--resolutions", "0"), "at least 1; got 0"),
    (fit("--inducing", "0"), "inducing"),
    (fit("--samples", "many"), "--samples"),
    (fit("--learning-rate", "-1"), "learning_rate"),
    (fit("--anneal", "2"), "anneal"),
    (fit("--preset", "papr"), "stable, paper"),
    (fit("--precision", "half"), "float32, float64"),
    (fit("--window-start", "zero"), "window_start"),
    (fit("--order", "random"), "fast-first, given"),
    (fit("--joint", "--latent-dim", "1"), "latent_dim must be at least 2"),
    (fit("--checkpoint-seconds", "-0.5"), "checkpoint_seconds"),
    (fit("--validation", "none.csv"), "none.csv"),
    (fit("--colour", "red"), "--colour"),
    # configurations
    (["fit", "none.toml"], "none.toml"),
    (["fit", "a.csv"], "a configuration ends in .toml"),
    (["fit", "unreadable.toml"], "not valid TOML"),
    (["fit", "sections.toml"], "'model'"),
    (["fit", "keys.toml"], "did you mean 'resolutions'?"),
    (["fit", "place.toml"], "latent_dim stands in [training]; it belongs in [model]"),
    (["fit", "datakeys.toml"], "did you mean 'files'?"),
    (["fit", "types.toml"], "data.files must be a list of texts"),
    (["fit", "value.toml"], "must be a section [data]"),
    (["fit", "binary.toml"], "UTF-8"),
    (["fit"], "--data"),
    (["resume", "nowhere"], "there is no run here"),
    (["resume", "empty_folder"], "start one with mrgpssm fit"),
    # models and their use
    (["evaluate", "none.mrgpssm", "d.csv"], "no such file"),
    (["evaluate", "damaged.mrgpssm", "d.csv"], "checksum does not match"),
    (["evaluate", "cut.mrgpssm", "d.csv"], "cut.mrgpssm"),
    (["evaluate", "text.mrgpssm", "d.csv"], "not a safetensors file"),
    (["evaluate", "empty_folder", "d.csv"], "holds no finished model"),
    (["evaluate", "m.mrgpssm", "none.csv"], "none.csv"),
    (["evaluate", "m.mrgpssm", "slow.csv", "--time", "t"], "dt is 1 s, the model's 0.1 s"),
    (["evaluate", "m.mrgpssm", "unmeasured.csv", "--time", "t"], "'Temp' has no measured value"),
    ([*SIM, "--out", "sim.xlsx"], ".csv or .parquet"),
    ([*SIM, "--out", "sim.csv", "--samples", "1"], "--samples"),
    ([*SIM, "--out", "sim.csv", "--stride", "0"], "--stride"),
    ([*SIM, "--out", "sim.csv", "--gaps", "fill"], "--gaps"),
    ([*SIM, "--out", "sim.csv", "--warmup-rows", "500"], "leaves 0 of 160 to simulate"),
    (SIM, "--out"),
    (["suggest", "a.csv", "--inputs", "speed", "--outputs", "None"], "None"),
    (["suggest", "a.csv", "--inputs", "speed", "--outputs", "NOx", "--plot", "p.gif"], ".png"),
    (["suggest", "short.csv", "--inputs", "speed", "--outputs", "NOx"], "50 rows"),
    (["data", "describe", "gengin2"], "gengine2"),
    (["data", "fetch", "../etc"], "../etc"),
    (["data", "example", "shown"], "test.csv is there already"),
    (["demo", "--set", "X"], "--set must be M1 or M2"),
    (["report-card"], "report-card"),
]  # fmt: skip


def digests(root: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*")) if p.is_file()}


def test_every_bad_input_is_one_sentence_and_exit_code_2(folder, capsys):
    """No traceback, the place named, nothing written, nothing changed."""
    assert len(BAD) >= 60
    before = digests(folder)
    for arguments, says in BAD:
        code, out, err = call(capsys, *arguments)
        shown = f"{arguments}: {code} {out!r} {err!r}"
        assert code == 2, shown
        assert says in err, shown
        assert err.startswith("mrgpssm: "), shown
        assert err.count("\n") == 1, shown
        assert len(err) < 600, shown
        assert not out, shown
        assert "Traceback" not in err, shown
    assert digests(folder) == before


def test_fit_simulate_evaluate_from_a_shell(folder):
    """Three files train, a fourth with shuffled columns is simulated and scored; flags and file agree."""

    def shell(*arguments) -> str:
        command = [sys.executable, "-m", "mrgpssm", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    fitted = shell("fit", "--data", "a.csv", "--data", "b.csv", "--data", "c.csv", "--validation", "d.csv", "--inputs",
                   "speed,load", "--outputs", "NOx,Temp", "--time", "t", "--run-dir", "run", *TINY)  # fmt: skip
    assert "Wrote run/model.mrgpssm" in fitted
    assert "NOx" in fitted
    simulated = json.loads(
        shell("simulate", "run", "d.csv", "--time", "t", "--out", "sim.csv", "--samples", "20", "--json")
    )
    assert simulated["rows"] == 160
    table = pd.read_csv("sim.csv")
    assert {"sequence", "time", "NOx.mean", "Temp.std", "Temp.q0.95", "NOx.component_1_R3"} <= set(table.columns)
    np.testing.assert_allclose(table["time"], 0.1 * np.arange(160), atol=1e-9)
    scores = json.loads(shell("evaluate", "run", "d.csv", "--time", "t", "--samples", "20", "--json"))["scores"]
    error = np.sqrt(np.mean((table["NOx.mean"] - frame(3)["NOx"]) ** 2))
    assert scores["NOx"]["rmse"] == pytest.approx(error, rel=1e-5)
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["validation"].keys() == {"NOx", "Temp"}


def test_a_run_knows_its_clock_and_says_how_it_read_the_time(folder, capsys):
    """A gap of 20 s is a gap in use as it was in training; without a clock, and with bands as they are, `fit` says so."""
    late = frame(3).assign(t=lambda table: table["t"] + 20.0 * (table.index >= 80))
    late.to_csv("late.csv", index=False)
    code, out, err = call(capsys, *[part for part in fit(data="late.csv") if part != "--quiet"])
    assert code == 0
    assert "Cut at gaps in time: late.csv, part 1, late.csv, part 2." in err
    assert "The bands are not calibrated" in out
    for more in ((), ("--time", "t")):
        code, out, _ = call(capsys, "evaluate", "run", "late.csv", "--samples", "5", "--json", *more)
        assert json.loads(out)["sequences"] == 2
    code, out, _ = call(capsys, "evaluate", "run/model.mrgpssm", "late.csv", "--samples", "5", "--json")
    assert json.loads(out)["sequences"] == 1
    again = [part if part != "run" else "untimed" for part in untimed() if part != "--quiet"]
    assert "Rows count as 1 s apart" in call(capsys, *again)[2]


def test_without_a_command_the_help_is_shown_as_it_is(capsys):
    code, out, err = call(capsys)
    assert code == 2
    assert len((out + err).splitlines()) > 10


def test_the_runs_configuration_is_complete_and_trains_the_same_model(folder, capsys):
    assert call(capsys, *fit())[0] == 0
    text = (folder / "run" / "config.toml").read_text()
    assert "learning_rate = 0.05" in text
    assert f'files = ["{folder}/a.csv"]' in text
    code, out, _ = call(capsys, "fit", folder / "run" / "config.toml", "--run-dir", "again", "--quiet", "--json")
    assert code == 0
    assert json.loads(out)["model"] == "again/model.mrgpssm"
    assert (folder / "again" / "model.mrgpssm").read_bytes() == (folder / "run" / "model.mrgpssm").read_bytes()
    code, _, err = call(capsys, *fit())
    assert (code, "finished run" in err) == (2, True)
    (folder / "run" / "model.mrgpssm").unlink()
    code, _, err = call(capsys, *fit())
    assert (code, "mrgpssm resume run" in err) == (2, True)
    code, out, _ = call(capsys, "resume", "run", "--quiet", "--json")
    assert code == 0
    assert (folder / "again" / "model.mrgpssm").read_bytes() == (folder / "run" / "model.mrgpssm").read_bytes()
    code, _, err = call(capsys, "resume", "run")
    assert (code, "this run is finished" in err) == (2, True)


def stop_by(number: signal.Signals):
    """What a stage does when somebody presses Ctrl-C in it, or kills the process politely."""

    def stop(*_, **__):
        os.kill(os.getpid(), number)

    return stop


def test_every_stage_of_a_fit_says_how_to_go_on_when_it_is_stopped(folder, capsys, monkeypatch):
    """In training and after it; a second process is refused in both, and the end is the same."""
    more = ("--validation", "b.csv")
    assert call(capsys, *fit(*more))[0] == 0
    (folder / "run").rename("whole")
    says = "mrgpssm: Stopped; a checkpoint was written, go on with: mrgpssm resume run\n"
    with monkeypatch.context() as patch:
        patch.setattr("mrgpssm.training.runs.RunDirectory.note", stop_by(signal.SIGINT))
        assert call(capsys, *fit(*more)) == (130, "", says)
    with monkeypatch.context() as patch:
        patch.setattr("mrgpssm.training.runs.RunDirectory.note", stop_by(signal.SIGTERM))
        assert call(capsys, "resume", "run", "--quiet") == (143, "", says)

    def meanwhile(*_):
        code, _, err = call(capsys, "resume", "run", "--quiet")
        assert (code, err.count("\n"), "another process is working in this folder" in err) == (2, 1, True)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr("mrgpssm.estimator.fitting.calibrate_model", meanwhile)
        assert call(capsys, "resume", "run", "--quiet") == (143, "", says)
    with monkeypatch.context() as patch:
        patch.setattr("mrgpssm.training.runs.RunDirectory.note", stop_by(signal.SIGKILL))  # no step is taken again
        assert call(capsys, "resume", "run", "--quiet")[0] == 0
    for name in ("model.mrgpssm", "metrics.json"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_a_fit_that_is_refused_has_written_nothing(folder, capsys):
    """Another process has claimed the folder, and has not yet said who it is."""
    run = RunDirectory(folder / "run")
    with run.claim():
        run.config.write_text("of the other one")
        before = digests(folder)
        code, _, err = call(capsys, *fit())
        assert (code, "another process is working in this folder" in err) == (2, True)
        assert digests(folder) == before


@pytest.mark.parametrize(
    ("words", "inside", "says"),
    [
        (["demo"], "mrgpssm.cli.demo.run_demo", "It keeps no checkpoints"),
        (["sweep", "s.toml"], "mrgpssm.cli.sweep.read_sweep", "Finished runs are kept: the same command goes on"),
        (["tune", "t.toml"], "mrgpssm.cli.tune.read_toml", "Finished trials are kept: the same command goes on"),
        (["reproduce", "grid"], "mrgpssm.cli.reproduce.run", "Finished pieces are kept"),
        (["report", "run"], "mrgpssm.cli.report.gather", "Stopped."),
        (["data", "fetch", "ballbeam"], "mrgpssm.cli.data.fetch", "Whole files are kept"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_every_command_says_what_a_stop_leaves(capsys, monkeypatch, words, inside, says, number):
    monkeypatch.setattr(inside, stop_by(number))
    code, _, err = call(capsys, *words)
    assert code == 128 + number
    assert err.startswith("mrgpssm: Stopped.")
    assert says in err
    assert err.count("\n") == 1


def test_an_estimate_before_a_long_fit(folder, capsys):
    """Rows are those of the recordings, and every stage has a time: a file that is cut into folds counts once."""
    learned = ["--folds", "2", "--noise", "student"]
    code, out, _ = call(capsys, *fit("--dry-run", "--json", *learned, outputs="NOx"))
    cost = json.loads(out)
    assert code == 0
    assert cost["rows"] == 160
    assert cost["steps"] == 2 * 2 * 5
    assert cost["members"] == 1 + 2
    assert set(cost["stages"]) == {"training", "free runs", "noise", "runs after warm-ups", "trajectories", "scores"}
    assert all(seconds > 0 for seconds in cost["stages"].values())
    assert cost["seconds"] == pytest.approx(sum(cost["stages"].values()))
    assert cost["megabytes"] > 100
    assert not (folder / "run").exists()


def test_later_stages_grow_by_their_rules(monkeypatch):
    """The growth from a few rows to all: by rows that are simulated."""
    model = untrained().fitted_
    monkeypatch.setattr("mrgpssm.estimator.costs._ROWS", 40)
    clock = iter(range(100))
    monkeypatch.setattr("mrgpssm.estimator.costs.time", SimpleNamespace(perf_counter=lambda: next(clock)))

    def told(model, judges, tell):
        for stage in ("free runs", "noise", "runs after warm-ups", "scores", "scores"):
            tell(stage, "somebody")

    monkeypatch.setattr("mrgpssm.estimator.costs.calibrate_model", told)
    training, validation = [recording(0), recording(1)], [recording(2, rows=80)]
    seconds = time_stages(model, training, validation, lambda seen, other: [Judge(model, other or [], "")])
    assert seconds == {
        "free runs": 80 / 40,
        "noise": 80 / 40,
        "runs after warm-ups": 2 * 26 / (2 * 13),  # thirds of the rows, but for the first, which has no warm-up
        "scores": 2 * 80 / 40,
    }
    assert time_stages(model, training, None, lambda seen, other: []) == {}


@pytest.mark.usefixtures("folder")
def test_simulating_needs_no_outputs_and_warm_up_uses_them(capsys):
    frame(3)[["speed", "load"]].to_csv("inputs.csv", index=False)
    assert call(capsys, "simulate", "m.mrgpssm", "inputs.csv", "--out", "cold.csv", "--samples", "8")[0] == 0
    assert len(pd.read_csv("cold.csv")) == 160
    code, *_ = call(capsys, *SIM, "--out", "warm.csv", "--samples", "8", "--warmup-rows", "40", "--stride", "2")
    assert code == 0
    assert len(pd.read_csv("warm.csv")) == 60
    assert call(capsys, *SIM, "--out", "warm.parquet", "--samples", "8")[0] == 0
    assert len(pd.read_parquet("warm.parquet")) == 160


def test_suggest_and_data_speak_to_people_and_machines(folder, capsys):
    code, out, _ = call(capsys, "suggest", "a.csv", "b.csv", "--inputs", "speed,load", "--outputs", "NOx", "--time", "t",
                        "--json", "--plot", "why.png")  # fmt: skip
    assert code == 0
    assert json.loads(out)["resolutions"] == [1]
    assert (folder / "why.png").stat().st_size > 5000
    code, out, _ = call(capsys, "suggest", "a.csv", "--inputs", "speed,load", "--outputs", "NOx", "--time", "t")
    assert code == 0
    assert "use these by themselves: --resolutions 1 --window 40 --buffer 10\n" in out
    code, out, _ = call(capsys, "data", "list", "--json")
    assert json.loads(out)["gengine2"]["files"] == 22
    code, out, _ = call(capsys, "data", "describe", "ballbeam")
    assert "Ball and beam" in out
    assert call(capsys, "--help")[0] == 0


def test_help_loads_nothing_heavy_and_lists_commands_that_exist():
    code = (
        "import contextlib, sys; from mrgpssm.cli import main; sys.argv = ['mrgpssm', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "print(sorted({'jax', 'pandas', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("\n[]\n")
    for name, (_, line) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", out, re.MULTILINE)
        assert find_command(name).registered_commands


def test_the_shell_completes_commands():
    asked = {"_MRGPSSM_COMPLETE": "complete_bash", "COMP_WORDS": "mrgpssm si", "COMP_CWORD": "1"}
    command = [str(Path(sys.executable).parent / "mrgpssm")]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["simulate"]
