"""Sweeps: what is run, what is skipped, and that a fleet gives every run what it gets alone."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clusters import Cluster, put_on_cluster
from recordings import recording
from typer.testing import CliRunner

from mrgpssm import MRGPSSM, ConfigError, FitError, read_sequences
from mrgpssm.cli.main import app
from mrgpssm.data.tables import Columns
from mrgpssm.errors import StorageError
from mrgpssm.file import write_json
from mrgpssm.spec import arrange, sort_options
from mrgpssm.sweep import engine
from mrgpssm.sweep.cluster import connect, worker_environments
from mrgpssm.sweep.config import SweepConfig, make_sweep, read_sweep
from mrgpssm.sweep.engine import Workers, run_sweep
from mrgpssm.sweep.results import results_table, write_results
from mrgpssm.sweep.runs import FORMAT, Pack, find_record, make_runs, packs, record_path

pytestmark = pytest.mark.once
TINY: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "window": 6, "buffer": 1, "cycles": 1, "steps": 5,
                        "latent_dim": 1}  # fmt: skip


def tables(**more) -> dict[str, Any]:
    dataset = {"name": "lags", "inputs": ["speed", "load"], "outputs": ["NOx", "Temp"], "time": "t",
               "split": [{"train": ["a.csv", "b.csv"], "test": ["c.csv"]}]}  # fmt: skip
    shared = sort_options({**TINY, "resolutions": [1]})
    return {"dataset": [dataset], **shared, "grid": {"seed": [0, 1]}, "sweep": {"samples": 10}} | more


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    for index, name in enumerate("abcd"):
        s = recording(index)
        columns = {"t": 0.1 * np.arange(len(s)), "speed": s.inputs[:, 0], "load": s.inputs[:, 1]}
        columns |= {"NOx": s.outputs[:, 0], "Temp": s.outputs[:, 1]}
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    return folder


def made(home: Path, **more) -> SweepConfig:
    return make_sweep(tables(**more), home, "test")


def scores_of(config: SweepConfig) -> dict[str, float]:
    runs, _ = make_runs(config)
    records = [find_record(config.directory, run) for run in runs]
    return {r["id"]: r["scores"]["rmse"] for r in records if r is not None}


def test_every_combination_is_a_run_and_equal_ones_are_one(home):
    grid = {"resolutions": [[3, 1], [1]], "seed": [0, 1, 2], "learning_rate": [0.05, 0.05]}
    runs, datasets = make_runs(made(home, grid=grid))
    assert len(runs) == 2 * 2 * 3
    assert len({r.id for r in runs}) == 12
    made_packs = packs(runs, datasets, fleet=4)
    assert [len(p.runs) for p in made_packs] == [3, 3, 3, 3]  # six of each kind, in two equal fleets
    assert all(len({r.spec.structure.resolutions for r in p.runs}) == 1 for p in made_packs)
    again, _ = make_runs(made(home, grid=grid, sweep={"samples": 10, "fleet": 2, "directory": "elsewhere"}))
    assert {r.id for r in again} == {r.id for r in runs}  # where and how it runs is not what it is
    other, _ = make_runs(made(home, grid=grid, **sort_options({**TINY, "inducing": 5})))
    assert not {r.id for r in other} & {r.id for r in runs}


def test_listed_runs_stand_beside_the_grid(home):
    listed = [{"resolutions": [3, 1], "seed": 7}, {"resolutions": [1], "seed": 8, "preset": "paper"}]
    assert len(made(home, run=listed).specs) == 4
    alone = tables(run=listed)
    del alone["grid"]
    assert [o.training.seed for o in make_sweep(alone, home, "test").specs] == [7, 8]


BAD = [
    ({"grids": {}}, "unknown section 'grids'"),
    ({"dataset": []}, "there is no [[dataset]]"),
    ({"dataset": [{"name": "x", "inputs": ["u"], "outputs": ["y"]}]}, "no [[dataset.split]]"),
    ({"dataset": [{"inputs": ["u"], "outputs": []}]}, "outputs must be a list of texts"),
    ({"dataset": [{"input": ["u"]}]}, "unknown key 'input'"),
    ({"grid": {"seed": 3}}, "[grid] seed must be a list"),
    ({"grid": {"speed": [1]}}, "unknown option 'speed'"),
    ({"grid": {"samples": [0]}}, "samples must be a whole number, at least 1"),
    ({"run": {"seed": 1}}, "write [[run]]"),
    ({"sweep": {"fleet": "all"}}, "fleet must be of type int"),
    ({"sweep": {"fleet": 0}}, "fleet must be at least 1"),
    ({"model": {"joint": True}}, "joint is not for sweeps"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), BAD, ids=[says[:30] for _, says in BAD])
def test_what_cannot_work_is_said_in_one_sentence(home, change, says):
    with pytest.raises(ConfigError) as caught:
        made(home, **change)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_sweep_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_sweep(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[sweep")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_sweep(tmp_path / "bad.toml")


def test_a_fleet_gives_every_run_what_it_gets_alone_and_finished_ones_are_skipped(home):
    dataset = tables()["dataset"][0] | {"outputs": ["Temp"]}
    config, lines = made(home, dataset=[dataset], sweep={"samples": 10, "directory": "serial"}), []
    done = run_sweep(config, Workers(serial=True), lines.append)
    assert (len(done.runs), done.skipped, done.missing, done.lost) == (2, 0, (), ())
    columns = Columns(("speed", "load"), ("Temp",), "t")
    train, test = (read_sequences([str(home / f"{n}.csv") for n in half], columns) for half in ("ab", "c"))
    alone = MRGPSSM((1,), **arrange(**TINY, seed=1, folds=0)).fit(train, progress=False)
    run = next(r for r in done.runs if r.output == "Temp" and r.spec.training.seed == 1)
    record = find_record(config.directory, run)
    assert record is not None
    for name, value in alone.score(test, samples=10).loc["Temp"].items():
        assert record["scores"][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
    before = {p: p.stat().st_mtime_ns for p in (config.directory / "runs").iterdir()}
    assert run_sweep(config, Workers(serial=True), lines.append).skipped == 2
    assert {p: p.stat().st_mtime_ns for p in (config.directory / "runs").iterdir()} == before
    table = results_table(config.directory, done.runs)
    assert set(table["option.seed"]) == {0, 1}
    written = write_results(config.directory, table)
    assert np.isfinite(pd.read_csv(written[0])["rmse"].to_numpy()).all()
    assert all(path.stat().st_size > 100 for path in written)


def write_fake(pack: Pack, directory: Path, samples: int, keep_models: bool) -> None:
    """What a fleet leaves, without training it."""
    for run in pack.runs:
        scores = {"rmse": 1.0, "nrmse": 0.5, "crps": 0.4, "coverage_90": 0.9}
        who = {"format": FORMAT, "id": run.id, "dataset": run.dataset, "split": run.split, "output": run.output}
        write_json(
            record_path(directory, run), who | {"options": run.spec.to_json(), "scores": scores, "failure": None}
        )


ENDS = [
    Cluster(1),
    Cluster(1, "lost"),
    Cluster(1, "error", ValueError("no memory")),
    Cluster(1, "gone", OSError("nobody answers")),
]


@pytest.mark.parametrize("ends", ENDS, ids=lambda c: c.status)
def test_anything_but_a_finished_future_is_lost_and_records_are_counted(home, tmp_path, monkeypatch, ends):
    """The scheduler ends after one of four fleets: 3 runs are missing, and the same command makes them."""
    monkeypatch.setattr(engine, "run_pack", write_fake)
    put_on_cluster(monkeypatch, ends)
    config, lines = replace(made(home, sweep={"samples": 10, "fleet": 1}), directory=tmp_path), []
    done = run_sweep(config, Workers(address="tcp://here"), lines.append)
    assert (len(done.runs), done.skipped, len(done.missing), len(done.lost)) == (4, 0, 3, 3)
    assert lines[-1].startswith("sweep: 1 of 4 runs, 3 fleets lost")
    assert done.lost[0].split(": ")[1].startswith(("the task was", "no memory", "nobody answers"))
    again = run_sweep(config, Workers(serial=True), lines.append)
    assert (again.skipped, again.missing, again.lost) == (1, (), ())


def test_a_finished_future_without_a_record_is_missing_and_the_command_fails(home, monkeypatch):
    monkeypatch.setattr(engine, "run_pack", lambda *_, **__: None)
    put_on_cluster(monkeypatch, Cluster(4))
    path = home / "silent.toml"
    lines = ['[sweep]\ndirectory = "silent"\n[model]\nresolutions = [1]', '[[dataset]]\nname = "lags"\ntime = "t"']
    lines += ['inputs = ["speed"]\noutputs = ["NOx", "Temp"]', '[[dataset.split]]\ntrain = ["a.csv"]\ntest = ["b.csv"]']
    path.write_text("\n".join(lines))
    done = CliRunner().invoke(app, ["sweep", str(path), "--cluster", "tcp://here"])
    assert isinstance(done.exception, FitError)
    assert str(done.exception).startswith("2 of 2 runs have no record (nothing was written to ")
    assert str(done.exception).endswith("give the same command again to go on with them.")


def test_a_record_that_is_not_whole_or_not_its_own_is_made_again(home, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "run_pack", write_fake)
    config = replace(made(home), directory=tmp_path)
    runs = run_sweep(config, Workers(serial=True), lambda _: None).runs
    path = record_path(tmp_path, runs[0])
    whole = find_record(tmp_path, runs[0])
    assert whole is not None
    changes = [{"format": 2}, {"id": "other"}, {"options": whole["options"] | {"inducing": 5}}, {"scores": {"rmse": 1.0}},
               {"scores": None}, {"scores": {}}, {"failure": 3, "scores": None}, {"dataset": None}]  # fmt: skip
    cut = [{k: v for k, v in whole.items() if k != key} for key in ("format", "split", "options", "scores")]
    texts = [json.dumps(record) for record in (*(whole | change for change in changes), *cut, [], 1)]
    for text in (*texts, "[" * 1000, ""):
        path.write_text(text)
        assert find_record(tmp_path, runs[0]) is None, text
        assert len(results_table(tmp_path, runs)) == 3
        assert run_sweep(config, Workers(serial=True), lambda _: None).skipped == 3
        assert find_record(tmp_path, runs[0]) is not None
    write_json(path, whole | {"scores": None, "failure": "Training diverged."})
    assert find_record(tmp_path, runs[0]) is not None


def test_records_are_not_written_through_a_link(home, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "run_pack", write_fake)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="it is a symbolic link"):
        run_sweep(replace(made(home), directory=tmp_path / "sweep"), Workers(serial=True), lambda _: None)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_workers_start_with_jax_told_how_to_use_memory():
    pytest.importorskip("distributed", reason="Dask is not installed (extra cluster)")
    assert worker_environments(2)[1]["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    code = (
        "from mrgpssm.sweep.cluster import connect\nimport os\n"
        "if __name__ == '__main__':\n"
        "    with connect(None, 1) as client:\n"
        "        print(client.submit(lambda: os.environ['XLA_PYTHON_CLIENT_PREALLOCATE']).result())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "false", done.stderr[-2000:]


def test_an_address_where_nobody_answers_is_named():
    pytest.importorskip("distributed", reason="Dask is not installed (extra cluster)")
    with pytest.raises(ConfigError, match="No Dask scheduler answers at 'nowhere'"), connect("nowhere", None):
        pass


@pytest.mark.slow
def test_the_papers_experiments_run_on_workers(tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed (extra cluster)")
    words = ["reproduce", "grid", "--scale", "smoke", "--out", str(tmp_path), "--workers", "2"]
    done = subprocess.run([sys.executable, "-m", "mrgpssm", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    count = len(list(tmp_path.glob("smoke/*/*.json")))
    assert f"{count} pieces run, 0 were there" in done.stdout
    assert count > 1


def start(config: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "mrgpssm", "sweep", str(config), "--workers", "2", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def workers_of(client: int) -> list[int]:
    """Processes below the client that run tasks, by what the kernel says."""
    found, level = [], [client]
    while level:
        parents = level
        level = [
            int(c) for p in parents for t in Path(f"/proc/{p}/task").glob("*/children") for c in t.read_text().split()
        ]
        found += level
    return [p for p in found if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()]


def wait_for(count: int, folder: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 600
    while len(list(folder.glob("*.json"))) < count:
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.2)


def shot(home: Path, name: str, splits: tuple[str, ...], seeds: int) -> Path:
    """A sweep's file: a split `ab` trains on a and b and tests on b."""
    lines = [f'[sweep]\ndirectory = "{name}"\nfleet = 3\nsamples = 10']
    for title, table in sort_options({**TINY, "resolutions": [1]}).items():
        lines += [f"[{title}]", *(f"{key} = {value}" for key, value in table.items() if key != "inducing")]
    lines += [f"[grid]\nseed = {list(range(seeds))}\ninducing = [4, 5]", '[[dataset]]\nname = "lags"\ntime = "t"']
    lines += ['inputs = ["speed", "load"]\noutputs = ["NOx", "Temp"]']
    lines += [f'[[dataset.split]]\ntrain = ["{a}.csv", "b.csv"]\ntest = ["{b}.csv"]' for a, b in splits]
    path = home / f"{name}.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
def test_a_killed_scheduler_ends_in_a_failure_that_counts_the_missing_records(home):
    pytest.importorskip("distributed", reason="Dask is not installed (extra cluster)")
    path, folder, address = shot(home, "headless", ("ac",), 3), home / "headless" / "runs", "tcp://127.0.0.1:18786"
    dask = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "18786",
        "--no-dashboard",
    ]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
              "--no-dashboard", "--death-timeout", "60"]  # fmt: skip
    sweep = [sys.executable, "-m", "mrgpssm", "sweep", str(path), "--cluster", address]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(dask, **quiet) as scheduler, subprocess.Popen(worker, **quiet) as hand:
        try:
            time.sleep(10)
            with subprocess.Popen(sweep, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
                wait_for(1, folder, client)
                scheduler.kill()
                _, err = client.communicate(timeout=600)
        finally:
            scheduler.kill()
            hand.kill()
    said = err.strip().splitlines()[-1]
    there = len(list(folder.glob("*.json")))
    assert client.returncode == 1
    assert said.startswith("mrgpssm: ")
    missing, every = (int(word) for word in said.split()[1:4:2])
    assert (every, 0 < missing < 12) == (12, True)
    assert there >= every - missing  # a worker may still have written one after the client had counted


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_48_runs_survive_a_killed_worker_and_a_killed_client(home):
    """Two workers; one is killed, then the client; the same command completes the rest, with a serial run's numbers."""
    pytest.importorskip("distributed", reason="Dask is not installed (extra cluster)")
    path, folder = shot(home, "shot", ("ac", "cd"), 6), home / "shot" / "runs"
    client = start(path)
    wait_for(3, folder, client)
    os.kill(workers_of(client.pid)[-1], signal.SIGKILL)
    wait_for(12, folder, client)
    client.kill()
    client.communicate()
    left = len(list(folder.glob("*.json")))
    assert 12 <= left < 48
    again = start(path)
    out, err = again.communicate(timeout=1200)
    assert again.returncode == 0, err[-2000:]
    said = json.loads(out)
    assert (said["runs"], said["records"], said["lost"]) == (48, 48, [])
    assert left <= said["skipped"] < 48
    assert len(list(folder.glob("*.json"))) == 48
    killed = read_sweep(path)
    serial = SweepConfig(home / "calm", 48, 10, False, killed.datasets, killed.specs)
    run_sweep(serial, Workers(serial=True), lambda _: None)
    ours, theirs = scores_of(killed), scores_of(serial)
    assert ours.keys() == theirs.keys()
    np.testing.assert_allclose([ours[k] for k in theirs], list(theirs.values()), rtol=2e-3)
