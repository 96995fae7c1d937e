"""From evidence to charts, figures for print and the page's text; the page in a browser is `test_report_browser`."""

import base64
import dataclasses
import gzip
import html
import itertools
import json
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from configurations import FAMILIES, as_oracle, random_component
from exhibits import call, evidence, small_run

from mrgpssm.cli import main
from mrgpssm.cli.demo import _report as demo_report
from mrgpssm.cli.report import open_page
from mrgpssm.errors import ConfigError
from mrgpssm.prediction import metrics
from mrgpssm.prediction.drift import most_relevant
from mrgpssm.prediction.mean import mean_drift
from mrgpssm.report.chart import Heat, Line, Panel, Points, Rule, Section
from mrgpssm.report.charts import CHAPTERS, sections
from mrgpssm.report.charts.simulation import timeline
from mrgpssm.report.describe import column_rows, verdicts
from mrgpssm.report.evidence import make_drawable
from mrgpssm.report.html import check_installed, render
from mrgpssm.report.palette import DARK, LIGHT
from mrgpssm.report.payload import BUDGET, Payload, collect
from mrgpssm.report.trace import from_history, read_trace
from mrgpssm.rollout import MeanDynamics

pytestmark = pytest.mark.once


def without(made, **fields):
    return dataclasses.replace(made, **fields)


def test_what_was_kept_is_what_is_called_kept():
    """One restart, or a mixture of the best; those with the best bounds are marked."""
    one = evidence(restarts=4)
    two = without(one, learned=without(one.learned, mixed=2))
    for made, count in ((one, 1), (two, 2)):
        section = by_key(made)["restarts"]
        assert ("was kept." in section.lead) == (count == 1)
        assert ("2 restarts with the best bounds" in section.lead) == (count == 2)
        (kept,) = (mark for mark in section.panels[0].marks if isinstance(mark, Points) and mark.name == "kept")
        bounds = one.learned.bounds
        expected = np.sort(bounds.max(axis=1, keepdims=True) - bounds, axis=1)[:, :count]
        np.testing.assert_array_equal(np.asarray(kept.x).reshape(expected.shape), expected)


def test_the_trace_that_is_drawn_is_that_of_the_best_restart_beside_folds():
    """A fleet holds the restarts and then the folds of every output."""
    made = evidence(restarts=2)
    groups, restarts, folds = 2, 2, 3
    assert made.trace is not None
    bound = np.arange(groups * (restarts + folds)) * np.ones((len(made.trace.done), 1))
    shown = without(made, trace=without(made.trace, bound=bound, kl=np.full_like(bound, np.nan)))
    for g, panel in enumerate(by_key(shown)["training"].panels):
        best = g * (restarts + folds) + int(made.learned.bounds[g].argmax())
        assert {float(v) for mark in panel.marks if isinstance(mark, Line) for v in mark.y} == {float(best)}


def test_the_density_of_a_gaussian_is_called_so():
    """`evaluate` calls the density of the predictive law nLL."""
    page = render(evidence(), [])
    assert "Gaussian nLL" in page
    assert ">nLL<" not in page


def test_bands_are_judged_by_the_alarm():
    """In the exhibit the alarm climbs from row to row, and errors have the deviation that the bands say."""
    made = evidence()
    alarm, bands = by_key(made)["territory"].panels
    assert "it rings on 62 % of the rows" in alarm.note
    assert [mark.value for mark in bands.marks if isinstance(mark, Rule)] == [90]
    lines = [mark for mark in bands.marks if isinstance(mark, Line)]
    edges = [[r.run.quantile(q) for q in (0.05, 0.95)] for r in made.recordings]
    pairs = zip(made.recordings, edges, strict=True)
    inside = np.concatenate([(r.measured >= low) & (r.measured <= high) for r, (low, high) in pairs])
    rows = np.tile(np.linspace(0.1, 2.5, 400), 2)
    bins = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 9.0]
    for k, line in enumerate(lines):
        shares = [100 * inside[(rows >= a) & (rows < b), k].mean() for a, b in itertools.pairwise(bins)]
        np.testing.assert_allclose(line.y, shares)
    quiet = without(made, recordings=tuple(without(r, run=without(r.run, alarm=None)) for r in made.recordings))
    assert by_key(quiet)["territory"].missing
    calm = [without(r, run=without(r.run, alarm=0.3 + 0 * r.elapsed)) for r in made.recordings]
    assert by_key(without(made, recordings=tuple(calm)))["territory"].panels[1].note == "it rings nowhere"


def uneven(made):
    return without(made, recordings=tuple(without(r, even=False) for r in made.recordings))


def by_key(made) -> dict[str, Section]:
    return {section.key: section for section in sections(made)}


def test_a_whole_run_shows_every_figure_and_says_what_each_shows():
    found = by_key(evidence())
    assert len(found) == len(CHAPTERS) == 15
    for section in found.values():
        assert section.panels
        assert section.lead
        assert not section.missing
        for panel in section.panels:
            assert panel.alt.endswith(".")
            assert panel.x_label
            assert panel.y_label
            assert {getattr(mark, "role", "model") for mark in panel.marks} <= set(LIGHT)
    assert set(LIGHT) == set(DARK)
    assert "NOx / ppm" in {p.y_label for p in found["simulation"].panels}


@pytest.mark.parametrize(
    ("made", "key", "words"),
    [
        (evidence(resolutions=(1,)), "components", "one component"),
        (evidence(restarts=1), "restarts", "one random start"),
        (evidence(rivals=()), "resolutions", "--compare"),
        (evidence(trace=None), "training", "no trace"),
        (evidence(training=None), "inputs", "not at hand"),
        (evidence(rows=60), "spectra", "at least 64"),
        (uneven(evidence()), "spectra", "unevenly"),
        (uneven(evidence()), "autocorrelation", "unevenly"),
        (uneven(evidence()), "cross-correlation", "unevenly"),
        (evidence(learned=without(evidence().learned, drifts=())), "drift", "stays finite"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(made, key, words):
    section = by_key(made)[key]
    assert not section.panels
    assert words in section.missing
    assert section.missing.count(".") == 1
    assert section.missing in render(made, [section]).replace("&#39;", "'")


def test_a_trace_without_kl_still_shows_the_bound():
    made = evidence()
    assert made.trace is not None
    old = without(made, trace=without(made.trace, kl=np.full_like(made.trace.kl, np.nan)))
    section = by_key(old)["training"]
    assert len(section.panels) == len(made.output_names)
    assert "no KL" in section.lead


def test_scores_are_those_of_the_metrics():
    made = evidence()
    measured = np.concatenate([r.measured for r in made.recordings])
    mean = np.concatenate([r.run.mean for r in made.recordings])
    for k, row in enumerate(made.scores):
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean((measured - mean)[:, k] ** 2)))
        assert row["fit_percent"] == pytest.approx(metrics.fit_percent(measured, mean)[k])
        assert row["coverage_90"] == pytest.approx(0.9, abs=0.03)
    assert {v.grade for v in verdicts(made).values()} == {"good"}
    assert {
        v.grade
        for v in verdicts(
            without(made, recordings=tuple(dataclasses.replace(r, seen=True) for r in made.recordings))
        ).values()
    } == {"doubtful"}


def test_an_error_that_follows_an_input_is_found_out():
    made = evidence()
    followed = tuple(without(r, measured=r.measured + 0.1 * r.inputs[:, :1]) for r in made.recordings)
    judged = verdicts(without(made, recordings=followed))
    assert {v.grade for v in judged.values()} == {"doubtful"}
    assert all("follows the input u1" in v.reason for v in judged.values())


def test_of_many_inputs_the_strongest_are_drawn():
    made = evidence(inputs=tuple(f"u{k}" for k in range(9)), names=("a",))
    followed = tuple(without(r, measured=r.measured + 0.05 * r.inputs[:, 7:8]) for r in made.recordings)
    section = by_key(without(made, recordings=followed))["cross-correlation"]
    lines = [mark.name for mark in section.panels[0].marks if isinstance(mark, Line)]
    assert len(lines) == 6
    assert "u7" in lines
    assert "Of 9 inputs the 6 strongest" in section.lead


def test_recordings_lie_end_to_end_and_never_touch():
    time, breaks = timeline(evidence(rows=50, names=("a", "b", "c")))
    assert breaks == (50, 100)
    assert np.all(np.diff(time) > 0)
    assert time[50] - time[49] > 0.15


def test_missing_measurements_are_counted_and_drawn_around():
    made = evidence()
    first = made.recordings[0].measured.copy()
    first[30:200, 0] = np.nan
    holed = without(made, recordings=(without(made.recordings[0], measured=first), made.recordings[1]))
    assert {row["name"]: row["missing"] for row in column_rows(holed)}["NOx"] == "170"
    assert len(by_key(holed)) == 15


@pytest.mark.parametrize(("bad", "first"), [(np.nan, 200), (np.inf, 200), (1e30, 200), (np.nan, 0)])
def test_a_run_that_runs_away_is_bad_and_still_drawn(bad, first):
    made = evidence()
    runs = []
    for r in made.recordings:
        mean, std = r.run.mean.copy(), r.run.std.copy()
        mean[first:, 1], std[first:, 1] = bad, abs(bad)
        levels = {q: np.where(np.isfinite(mean), values, bad) for q, values in r.run.quantiles.items()}
        parts = {name: np.where(np.isfinite(mean), values, bad) for name, values in r.run.components.items()}
        wild = without(r.run, mean=mean, std=std, quantiles=levels, components=parts)
        calm, lost = make_drawable(wild, r.measured)
        assert lost == (() if np.isfinite(bad) else (1,))
        np.testing.assert_array_equal(calm.mean[:, 0], r.run.mean[:, 0])
        runs.append(without(r, run=calm, lost=lost))
    away = without(made, recordings=tuple(runs))
    judged = verdicts(away)
    assert judged["NOx"].grade == "good"
    assert judged["Temp"].grade == "bad"
    page = render(away)
    assert "nan" not in page.split("<main>")[1].split("</main>")[0]
    assert ("not finite" in page) == (not np.isfinite(bad))


def test_figures_for_print_are_drawn_whatever_names_hold(tmp_path):
    figures = pytest.importorskip("mrgpssm.report.figures")
    made = evidence(inputs=("$\\frac{", "_u\n<b>"), outputs=("a$b$ 温度 🔥",), names=("a",), rows=100)
    paths = figures.write_figures(sections(made), tmp_path, "png")
    assert len(paths) == 15
    assert all(p.stat().st_size > 5000 for p in paths)


def unpacked(payload: Payload) -> dict:
    return json.loads(gzip.decompress(base64.b64decode(payload.to_text())))


def test_long_series_come_back_to_a_sixty_thousandth_of_their_range():
    rng = np.random.default_rng(0)
    x, y = np.arange(100.0), rng.standard_normal(100)
    y[40] = np.nan
    panel = Panel("t", "x", "y", (Line("a", x, y, "model"),), "alt.", long=True, breaks=(60,))
    payload = collect([Section("k", "t", "l", (panel,))])
    payload.add(panel)
    content = unpacked(payload)
    mark = content["panels"][0]["marks"][0]
    packed, time = content["arrays"][mark["v"]], content["arrays"][mark["t"]]
    steps = np.frombuffer(base64.b64decode(packed["u2"]), "<u2")
    values = np.where(steps == 65535, np.nan, packed["low"] + steps / 65534 * (packed["high"] - packed["low"]))
    expected = np.concatenate([y[:60], [np.nan], y[60:], [np.nan]])
    np.testing.assert_allclose(values, expected, atol=np.ptp(y[~np.isnan(y)]) / 65534)
    times = np.frombuffer(base64.b64decode(time["f8"]), "<f8")
    np.testing.assert_array_equal(times, np.concatenate([x[:60], [59], x[60:], [99]]))


def test_a_page_of_four_outputs_and_200000_rows_stays_under_eight_megabytes():
    made = evidence(rows=200_000, outputs=("a", "b", "c", "d"), names=("long.csv",), resolutions=(30, 5, 1))
    drawn = sections(made)
    assert collect(drawn).most * sum(len(p.marks) for s in drawn for p in s.panels if p.long) <= 2 * BUDGET
    assert len(render(made, drawn).encode()) < 8e6


def test_equal_evidence_gives_equal_pages_and_the_policy_names_the_scripts():
    made = evidence()
    page = render(made)
    assert page == render(evidence())
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert "unsafe-eval" not in page
    assert page.count("<script") == 3
    assert " src=" not in page.split("<script")[0]


@pytest.mark.parametrize(
    ("spoil", "words", "sentence"),
    [
        (None, ("--out", "r.pdf"), "--out must end in .html"),
        ("model.mrgpssm", (), "holds no finished model"),
        ("config.toml", (), "name the test data with --data"),
        ("metrics.json", ("--compare", "first run"), "trained with --validation"),
        (None, ("--data", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(tmp_path, monkeypatch, capsys, spoil, words, sentence):
    monkeypatch.chdir(tmp_path)
    run = small_run(tmp_path)
    if spoil:
        (run / spoil).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["mrgpssm", "report", "first run", *words])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_a_run_without_test_data_is_judged_on_its_training_data_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small_run(tmp_path)
    call("report", "first run", "--samples", "20", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["report"] == "report.html"
    assert {o["grade"] for o in found["outputs"].values()} <= {"doubtful", "bad"}
    page = html.unescape((tmp_path / "report.html").read_text())
    assert "training, tested on" in page
    lines = "mrgpssm fit 'first run/config.toml' --run-dir again\nmrgpssm report again --samples 20 --seed 0\n"
    assert lines in page  # what is fitted is what is reported


def test_missing_extras_are_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ConfigError, match=r"needs plotly, which is not installed; install mrgpssm\[report\]\."):
        check_installed()


def test_pages_open_only_where_somebody_looks(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    for name in ("CI", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not open_page(tmp_path / "r.html")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_page(tmp_path / "r.html")
    monkeypatch.setenv("CI", "true")
    assert not open_page(tmp_path / "r.html")
    assert len(opened) == 1


def test_the_demo_says_where_its_report_is_and_opens_it_on_a_terminal_only(monkeypatch, tmp_path, capsys):
    opened = []
    monkeypatch.setattr("mrgpssm.cli.demo.gather_demo", lambda result, command: None)
    monkeypatch.setattr("mrgpssm.cli.demo.write_html", lambda evidence, path: None)
    monkeypatch.setattr("mrgpssm.cli.demo.open_page", opened.append)
    demo_report(None, tmp_path / "report.html", "mrgpssm demo")
    assert capsys.readouterr().out.endswith(f"Report: {tmp_path / 'report.html'}\n")
    assert not opened
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    demo_report(None, tmp_path / "report.html", "mrgpssm demo")
    assert opened == [tmp_path / "report.html"]


def test_traces_are_read_up_to_a_line_cut_short(tmp_path):
    path = tmp_path / "trace.jsonl"
    assert read_trace(path) is None
    line = {"component": 2, "cycle": 1, "done": 5, "total": 10, "bound": [1.0, None], "kl": [2.0, 3.0]}
    path.write_text(json.dumps(line) + "\n" + json.dumps(line)[:30])
    found = read_trace(path)
    assert found is not None
    np.testing.assert_array_equal(found.bound, [[1.0, np.nan]])
    step = SimpleNamespace(
        component=1, cycle=0, done=5, total=10, bound=np.array([1.0, np.nan]), kl=np.array([2.0, 3.0])
    )
    again = from_history([step])
    assert again is not None
    for name in ("component", "cycle", "done", "bound", "kl"):
        np.testing.assert_array_equal(getattr(found, name), getattr(again, name))
    assert from_history([]) is None


def test_drift_and_mean_path_are_those_of_numpy_loops():
    """x' = x + h (A x + B u + b + f(z)) with f(z) = k(z, Z) L⁻ᵀ m, from the natural parameters."""
    rng = np.random.default_rng(8)
    family, dtype = FAMILIES[1], jax.numpy.zeros(()).dtype
    component = random_component(rng, family, dtype)
    dynamics, o = component.dynamics(), as_oracle(component, dtype.type)
    L = [np.linalg.cholesky(_matern(o, Z, Z) + o["sd"] ** 2 * o["jitter"] * np.eye(len(Z))) for Z in o["inducing"]]

    def drift(x, u):
        z = np.concatenate([x, u])[None]
        f = [
            (_matern(o, z, Z) @ np.linalg.inv(root).T @ m)[0]
            for Z, root, m in zip(o["inducing"], L, o["mean"], strict=True)
        ]
        return o["A"] @ x + o["B"] @ u + o["b"] + np.array(f)

    points = rng.standard_normal((6, family.d + family.u))
    expected = [drift(p[: family.d], p[family.d :]) for p in points]
    np.testing.assert_allclose(mean_drift(component, points), expected, rtol=2e-3, atol=2e-3)
    inputs, x, path = rng.standard_normal((12, family.u)), np.zeros(family.d), []
    for u in inputs:
        path.append(x)
        x = x + 0.2 * drift(x, u)
    given = (jax.numpy.asarray(values, dtype) for values in (np.zeros(family.d), inputs, np.full(12, 0.2)))
    end, found = MeanDynamics(dynamics).path(*given)
    np.testing.assert_allclose(found, path, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(end, x, rtol=5e-3, atol=5e-3)


def _matern(o, a, b):
    s = np.sqrt(3 * np.sum(((a[:, None] - b[None]) / o["lengthscales"]) ** 2, axis=-1))
    return o["sd"] ** 2 * (1 + s) * np.exp(-s)


def test_the_most_relevant_input_has_short_lengthscale_and_large_gain():
    assert most_relevant(np.array([5.0, 1.0]), np.zeros(2)) == 1
    assert most_relevant(np.array([1.0, 1.1]), np.array([0.1, 2.0])) == 1


def test_the_grid_of_resolutions_puts_single_ones_on_the_diagonal():
    heat = by_key(evidence())["resolutions"].panels[1].marks[0]
    assert isinstance(heat, Heat)
    assert heat.z.shape == (3, 3)  # 1, 5 and 30
    assert heat.z[0, 0] == 0.1
    assert heat.z[1, 1] == 0.3
    assert heat.z[0, 1] == 0.4
    assert np.isfinite(heat.z[0, 2])
