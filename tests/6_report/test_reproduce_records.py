"""From records to tables, claims, page and figures: no training here."""

import json
import time

import numpy as np
import pytest
from clusters import Cluster, put_on_cluster
from typer.testing import CliRunner

from mrgpssm.cli.main import app
from mrgpssm.errors import ConfigError, DataError, FitError
from mrgpssm.file.record import digest
from mrgpssm.paper import batches, costs, run, semisynthetic
from mrgpssm.paper.config import EXPERIMENTS, SCALES, load_experiment, slug
from mrgpssm.paper.evaluation import METRICS
from mrgpssm.paper.page import published
from mrgpssm.paper.page.claims import claims, look_in, look_in_paper, relative_errors, targets
from mrgpssm.paper.page.results import Cell, Results
from mrgpssm.paper.page.tables import ROWS, best, show, side_by_side
from mrgpssm.paper.page.text import make_page
from mrgpssm.paper.problems import Problem, engine_problem, halves_problem, measurement
from mrgpssm.paper.records import agree, is_done, numbers, read_records, save_record
from mrgpssm.paper.run import reproduce_on
from mrgpssm.spec import make_spec
from mrgpssm.sweep.engine import Workers

pytestmark = pytest.mark.once


def method_of(experiment, name):
    """The method of that name."""
    return next(method for method in experiment.methods if method.name == name)


def fake(what, name, outputs, folds=2, rmse=lambda output, fold: 1.0, **more):
    """A record of a method, as a run would have written it."""
    experiment = load_experiment(what, "paper")
    config = experiment.config(method_of(experiment, name))
    who = [(f, o, r) for f in range(folds) for o in outputs for r in range(2)]
    members = {
        "fold": [f for f, _, _ in who],
        "output": [o for _, o, _ in who],
        "restart": [r for _, _, r in who],
        "chosen": [r for _, _, r in who],  # the second restart
        "alive": [1 for _ in who],
        "output_sd": [2.0 for _ in who],
    }
    members |= {metric: [rmse(o, f) + (1 - r) for f, o, r in who] for metric in METRICS}
    return {
        "experiment": what, "scale": "paper", "name": name, "config": config, "config_sha256": digest(config),
        "data": {"name": "fake", "sha256": "0", "rows": 10}, "work": 1.0, "failure": None, "members": members,
        "seconds": {"all": 60.0, "fit": 50.0, "evaluation": 10.0, "step_ms": 1.0},
    } | more  # fmt: skip


def test_configs_hold_the_papers_methods():
    for what in EXPERIMENTS:
        for scale in SCALES:
            experiment = load_experiment(what, scale)
            assert len({slug(m.name) for m in experiment.methods}) == len(experiment.methods)
    for what, table in published.TABLES.items():
        names = {m.name for m in load_experiment(what, "paper").methods}
        for row in table["rmse"].values():
            assert set(row) <= names
    engine, grid = (load_experiment(what, "paper") for what in ("engine", "grid"))
    for name in ("GPSSM R=1", "GPSSM R=5", "GPSSM R=30"):
        assert engine.config(method_of(engine, name)) == grid.config(method_of(grid, name))
        options = method_of(grid, name).spec
        assert (
            options.structure.latent_dim,
            options.training.cycles * options.training.steps,
            options.training.restarts,
        ) == (6, 3000, 3)
    as_published = method_of(engine, "MR-GPSSM R=[30,5,1], as published").spec
    assert as_published.structure.preset == "paper"
    how = as_published.training
    assert (how.window_start, how.order, how.anneal) == ("initial", "given", 1.0)
    synthetic = load_experiment("semi-synthetic", "paper")
    assert synthetic.repeats == 5
    assert all(m.observation_sd == 0.1 for m in synthetic.methods)
    with pytest.raises(ConfigError, match="no experiment 'motor'"):
        load_experiment("motor", "paper")


def test_problems_keep_training_and_test_apart():
    problem = engine_problem("smoke", None)
    for fold in problem.folds:
        assert not set(fold.train) & set(fold.test)
    other = Problem(problem.name, problem.sequences, problem.folds[:1])
    assert problem.fingerprint() != other.fingerprint()
    source = measurement("smoke", None)
    halves = halves_problem("halves", source, 3)
    assert len(halves.folds) == 3
    np.testing.assert_array_equal(np.concatenate([s.outputs for s in halves.sequences]), source.outputs)
    narrow = batches.only_set(halves, "NOx")
    np.testing.assert_array_equal(narrow.sequences[1].outputs[:, 0], halves.sequences[1].outputs[:, 2])


def test_the_semi_synthetic_sets_are_sums_of_latents(tmp_path):
    experiment = load_experiment("semi-synthetic", "smoke")
    source = measurement("smoke", None)
    config, data = semisynthetic.latents_mark(experiment, source)
    with pytest.raises(DataError, match="--only latents"):
        semisynthetic.ready_sets(experiment, None, tmp_path)
    rng = np.random.default_rng(0)
    latents = {name: rng.standard_normal(len(source)).astype(np.float32) for name in source.output_names}
    path = semisynthetic.latents_path(tmp_path, "smoke")
    semisynthetic.save_latents(path, latents, config, data["sha256"])
    problem = semisynthetic.ready_sets(experiment, None, tmp_path)
    assert problem.outputs == ("F", "M1", "M2", "S")
    sets = np.concatenate([s.outputs for s in problem.sequences])
    x = {name: np.asarray(values, float) for name, values in latents.items()}
    expected = [x["HC"] + x["NOx"], x["Temp"] + x["HC"], x["NOx"] + x["Temp"], x["PN"] + x["Temp"]]
    np.testing.assert_allclose(sets, np.stack(expected, axis=1))
    np.testing.assert_array_equal(np.concatenate([s.inputs for s in problem.sequences]), source.inputs)
    semisynthetic.save_latents(path, latents, config, "other data")
    with pytest.raises(DataError, match="other data"):
        semisynthetic.ready_sets(experiment, None, tmp_path)


def test_records_are_found_by_config_and_data(tmp_path):
    record = fake("engine", "GPSSM R=5", ("PN",))
    path = save_record(tmp_path, record)
    assert path == tmp_path / "paper" / "engine" / "gpssm-r5.json"
    (path.parent / "note.json").write_text("no record")
    (back,) = read_records(tmp_path, "paper")
    assert back["environment"]["versions"]["mrgpssm"]
    config = record["config"]
    assert is_done([back], config, "0")
    assert not is_done([back], config, "1")
    assert not is_done([back], config | {"observation_sd": 0.1}, "0")
    older = json.loads(json.dumps(config))
    del older["options"]["anneal"]  # an option that came later has its default
    assert agree(older, config)
    older["options"]["steps"] = 1
    assert not agree(older, config)
    assert numbers(np.array([[1.23456789, np.nan], [np.inf, -2.0]]), 3) == [[1.23, None], [None, -2.0]]


CUT = [("data", {}), ("seconds", {}), ("environment", None), ("work", None), ("name", 3), ("experiment", "motor"),
       ("members", {"rmse": [1.0]}), ("format", 2)]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), CUT, ids=[key for key, _ in CUT])
def test_a_record_that_is_not_whole_counts_as_none(tmp_path, key, value):
    path = save_record(tmp_path, fake("engine", "GPSSM R=5", ("PN",)))
    whole = json.loads(path.read_text())
    for record in (whole | {key: value}, {k: v for k, v in whole.items() if k != key}):
        path.write_text(json.dumps(record))
        assert read_records(tmp_path, "paper") == []


def test_a_piece_whose_task_is_lost_is_left(tmp_path, monkeypatch):
    """The scheduler ends after the first piece: its records count, not its futures."""
    made = {"members": {}, "failure": None, "seconds": {"all": 1.0}}
    monkeypatch.setattr(run, "run_method", lambda *_, **__: made)
    put_on_cluster(monkeypatch, Cluster(1))
    setting, lines = run.Setting("smoke", None, tmp_path, show=False), []
    done = reproduce_on("engine", setting, Workers(address="tcp://here"), lines.append)
    assert (len(done.ran), len(done.skipped), len(done.left)) == (1, 0, 8)
    assert done.left[0].endswith("the task was cancelled, as when the scheduler ends")
    runner = CliRunner()
    words = ["reproduce", "engine", "--out", str(tmp_path), "--cluster", "tcp://here"]
    said = runner.invoke(app, words).exception
    assert isinstance(said, FitError)
    assert str(said).startswith("engine: 8 of 9 pieces have no record (")
    put_on_cluster(monkeypatch, Cluster(9))
    assert runner.invoke(app, words).stdout == "engine: 8 pieces run, 1 were there.\n"


def test_pieces_are_skipped_timed_and_left(tmp_path, monkeypatch):
    def pretend(*_, **__):
        return {"members": {}, "failure": None, "seconds": {"all": 100.0}}

    monkeypatch.setattr(run, "run_method", pretend)
    setting = run.Setting("smoke", None, tmp_path, show=False)

    def go(what, seconds=None, only=None):
        deadline = None if seconds is None else time.monotonic() + seconds
        return run.reproduce(what, setting, deadline=deadline, only=only, tell=lambda line: None)

    first = go("engine", only="gpssm-r5")
    assert first.ran == ("GPSSM R=5",)
    second = go("engine", seconds=99)  # a hundred seconds were needed before
    assert (second.ran, len(second.skipped), len(second.left)) == ((), 1, 8)
    assert second.left[0].startswith("GPSSM R=1, about 130 s")
    assert len(go("engine").ran) == 8
    grid = go("grid")
    assert set(grid.skipped) == {"GPSSM R=1", "GPSSM R=5", "GPSSM R=30"}
    with pytest.raises(ConfigError, match="has no piece 'r5'"):
        go("engine", only="r5")


def test_the_command_says_what_is_wrong_and_shows_what_is_there(tmp_path):
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, ["reproduce", *arguments, "--out", str(tmp_path)])

    for arguments, message in (
        (("motor",), "no experiment 'motor'; choose all or one of semi-synthetic"),
        (("engine", "--scale", "huge"), "--scale must be one of smoke, paper"),
        (("engine", "--minutes", "0"), "--minutes must be positive"),
    ):
        assert message in str(call(*arguments).exception)
    save_record(tmp_path, fake("engine", "GPSSM R=5", ("PN", "HC", "NOx", "Temp")))
    shown = call("engine", "--scale", "paper", "--show").stdout
    assert "| GPSSM R=5 | **1.000 (0.000)** |" in shown
    assert "| GPSSM R=1 | not run |" in shown
    out = tmp_path / "docs" / "reproduction.md"
    assert "from 1 records" in call("all", "--scale", "paper", "--page", str(out)).stdout
    assert out.read_text().startswith("# Reproduction of the paper")


def test_equal_time_takes_as_many_steps_as_fit():
    options = make_spec({"cycles": 12, "steps": 50}).complete()
    assert batches.affordable(options, 2.2).training.steps == 2
    few = batches.affordable(options, 0.25)
    assert (few.training.cycles, few.training.steps) == (3, 1)
    experiment = load_experiment("batch-vs-resolution", "paper")
    cost = {m.name: {"step_seconds": 0.1 if "B=50" in m.name else 2.5} for m in experiment.methods if not m.as_long_as}
    timing = {"experiment": "batch-vs-resolution", "name": "timing", "timing": cost}
    method = batches.in_equal_time(experiment, method_of(experiment, "GPSSM R=1, B=1500, equal time"), [timing])
    assert (method.spec.training.cycles, method.spec.training.steps, method.spec.training.window) == (
        12,
        2,
        1500,
    )  # 50 / 25, as in the paper
    with pytest.raises(DataError, match="not measured yet"):
        batches.in_equal_time(experiment, experiment.methods[-1], [])


def test_exponents_of_power_laws():
    sizes = [1.0, 2.0, 4.0, 8.0]
    assert costs.exponent(sizes, [3 * n**1.7 for n in sizes]) == pytest.approx(1.7)


def test_cells_are_means_over_the_chosen_that_did_not_fail():
    errors = [0.5, 0.7, 3.2]
    record = fake("engine", "GPSSM R=1", ("PN", "HC"), 3, lambda o, f: errors[f])
    results = Results("paper", [record])
    cell = results.cell("engine", "GPSSM R=1", "PN", "rmse")
    assert cell is not None
    assert (cell.mean, cell.runs, cell.failed) == (pytest.approx(0.6), 3, 1)
    assert cell.error == pytest.approx(np.std([0.5, 0.7], ddof=1) / np.sqrt(2))
    assert show(cell) == "0.600 (0.100), 1 of 3 diverged"
    in_data = results.cell("engine", "GPSSM R=1", "PN", "rmse", unit="data")
    density = results.cell("engine", "GPSSM R=1", "PN", "nll", unit="data")
    assert in_data is not None
    assert density is not None
    assert in_data.mean == pytest.approx(1.2)
    assert density.mean == pytest.approx(0.6 + np.log(2))
    assert results.cell("grid", "GPSSM R=1", "PN", "rmse") == cell  # the same run
    assert results.cell("engine", "GPSSM R=5", "PN", "rmse") is None
    marks = best([Cell(1.0, 0.1, 5, 0), Cell(1.15, 0.1, 5, 0), Cell(1.3, 0.1, 5, 0), None, Cell(np.nan, 0, 5, 5)])
    assert marks == [True, True, False, False, False]


def test_the_papers_own_numbers_support_its_claims():
    verdicts = {claim.text: claim.holds for claim in claims(look_in_paper)}
    unknown = [text for text, holds in verdicts.items() if holds is None]
    assert [title[:27] for title in unknown] == ["Slow dynamics prevail in Te"]  # a figure, without a table
    assert all(holds for holds in verdicts.values() if holds is not None)
    ratios = relative_errors(look_in_paper)
    assert min(ratios, key=ratios.__getitem__) == "MR-GPSSM R=[30,5,1]"
    assert ratios["GPSSM R=5"] == pytest.approx(np.mean([0.37 / 0.41, 0.28 / 0.32, 0.13 / 0.14, 0.22 / 0.11]))


@pytest.fixture(scope="module")
def complete():
    """Records of all methods: the paper's means where it has them, else its pattern."""
    records = []
    for what, outputs in ROWS.items():
        table = published.TABLES.get(what, published.TABLES["engine"])["rmse"]
        for method in load_experiment(what, "paper").methods:

            def rmse(output, fold, table=table, name=method.name):
                resolution = int(name.split("=")[1].split(",")[0].strip("[]"))
                guess = 0.3 + 0.01 * abs(resolution - (40 if output == "Temp" else 1))
                known = table[output].get(name)
                return (known[0] if known else guess) + 0.002 * fold

            members = fake(what, method.name, outputs, 2, rmse)
            members["through"] = {m: members["members"][m] for m in METRICS}
            records.append(members | {"environment": {"device": "test", "versions": {"jax": "0"}, "date": "today"}})
    return Results("paper", records)


def test_claims_and_targets_from_records(complete):
    assert all(claim.holds for claim in claims(look_in(complete)))
    met = {claim.text: claim.holds for claim in targets(look_in(complete))}
    assert list(met.values()) == [True, True, True, True, True, True]
    nothing = Results("paper", [])
    assert {claim.verdict for claim in (*claims(look_in(nothing)), *targets(look_in(nothing)))} == {"not run"}


def test_the_page_says_what_was_not_run(complete):
    text = make_page(complete, ("engine",))
    assert "| MR-GPSSM R=[30,5,1] | 0.411 (0.001) |" in text.replace("**", "")
    assert "![engine](images/reproduction/engine.png)" in text
    assert "for 9 of 9 fleets on test" in text
    assert "13 of 22" in make_page(Results("paper", []), ())
    table = side_by_side(Results("paper", []), "engine", "rmse").splitlines()
    assert table[2] == (
        "| GPSSM R=1 | not run | not run | not run | not run "
        "| *0.39 (0.02)* | *0.31 (0.02)* | *0.14 (0.01)* | *1.19 (0.21)* |"
    )


def test_figures_are_drawn_from_records(complete, tmp_path):
    pytest.importorskip("matplotlib")
    from mrgpssm.paper.page.figures import draw_all, engine

    assert draw_all(Results("paper", []), tmp_path) == []
    assert engine(complete) is not None
