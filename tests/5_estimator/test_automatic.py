"""`MRGPSSM()` without arguments: what is chosen, what is kept, and that no test data can have a say in it."""

import hashlib
import re
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from recordings import recording, wiener_hammerstein
from scipy.signal import lfilter
from systems import make

from mrgpssm import MRGPSSM, DataWarning, Sequence
from mrgpssm.advice.automatic import LONG, choose, choose_drive
from mrgpssm.advice.suggest import suggest
from mrgpssm.cli import main
from mrgpssm.data.ranges import Recording
from mrgpssm.spec import Spec, arrange, make_spec
from mrgpssm.training.linear.deadtime import find_dead_times

pytestmark = pytest.mark.once
QUICK: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "cycles": 1, "steps": 4, "restarts": 2}


def long_data(count: int = 4, rows: int = 3000) -> list[Sequence]:
    """Lags of 8 and 400 rows, the fast one with a dead time."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        u = np.repeat(rng.uniform(-1, 1, (rows // 20, 1)), 20, axis=0)
        fast, slow = np.zeros(rows), np.zeros(rows)
        for t in range(1, rows):
            fast[t] = fast[t - 1] + (u[max(t - 5, 0), 0] - fast[t - 1]) / 8
            slow[t] = slow[t - 1] + (u[t - 1, 0] - slow[t - 1]) / 400
        found.append(Sequence(u, np.column_stack([fast + 5 * slow]), 0.1, name=f"long {seed}"))
    return found


def test_with_resolutions_the_rest_is_fixed():
    given = make_spec({"resolutions": (3, 1), "samples": 7})
    found = choose(given, [recording(0)], validated=True)
    assert found.reasons == ()
    assert found.spec == given.complete()


def test_with_resolutions_bands_have_folds_where_nothing_else_would_calibrate_them():
    given = make_spec({"resolutions": (3, 1), "window": 8, "buffer": 2})  # windows of 30 rows
    found = choose(given, [recording(0)], validated=False)
    assert found.spec == given.complete().change(folds=4)
    assert found.reasons == ("bands: learned on 4 folds, each leaving a part out",)
    for more in ({"folds": 0}, {"calibrate": False}):
        assert choose(given.change(**more), [recording(0)], validated=False).spec.bands.folds == 0
    one_is_long = [recording(0), *(recording(k, rows=24) for k in range(1, 4))]  # its fold would have no window
    assert choose(given, one_is_long, validated=False).spec.bands.folds == 0
    assert choose(given, [recording(0), *one_is_long], validated=False).spec.bands.folds == 4
    assert choose(given, [recording(0).take(slice(119))], validated=False).spec.bands.folds == 0  # stretches of 29 rows
    tiny = recording(0).take(slice(7))
    assert choose(given, [recording(0), tiny], validated=False).spec.bands.folds == 0


def test_long_data_get_their_time_constants_averages_and_folds():
    data = long_data()
    assert sum(map(len, data)) >= LONG
    options, reasons, *_ = choose(Spec(), data, validated=False)
    assert options.structure.resolutions == tuple(sorted(options.structure.resolutions, reverse=True))
    assert max(options.structure.resolutions) == 3000 // 600  # room for ten windows, although 400 rows ask for 20
    assert min(options.structure.resolutions) == 1
    assert options.structure.filters[0] == 10
    assert options.structure.filters[-1] == 10 * max(options.structure.resolutions)
    assert 1 <= options.structure.delays[0] <= 10
    assert (options.bands.folds, options.bands.noise, options.training.ensemble) == (4, "student", 4)
    assert any(reason.startswith("noise with heavy tails") for reason in reasons)
    assert choose_drive(data) == options.structure.drive
    assert any("holds 10 windows" in reason for reason in reasons)
    assert any(reason.startswith("resolutions ") and " s" in reason for reason in reasons)


def test_few_long_recordings_get_their_time_constants_and_nothing_that_needs_more():
    options = choose(Spec(), long_data(2), validated=False).spec
    assert (max(options.structure.resolutions), min(options.structure.resolutions)) == (5, 1)
    assert (
        options.structure.filters,
        options.structure.delays,
        options.bands.noise,
    ) == ((), (), "gaussian")
    assert choose_drive(long_data(2)) == options.structure.drive
    assert (options.structure.latent_dim, options.training.ensemble, options.bands.folds) == (2, 4, 4)
    assert (options.training.windows, options.training.samples) == (10, 16)


def test_short_data_get_small_models():
    options = choose(Spec(), [recording(0)], validated=False).spec
    assert (options.structure.inducing, options.training.ensemble, options.bands.folds, options.bands.noise) == (
        20,
        4,
        4,
        "gaussian",
    )
    assert (options.training.window + options.training.buffer) * max(options.structure.resolutions) * 2 <= 160


def test_a_few_recordings_have_a_rival_that_starts_from_a_linear_model():
    """Two filters of order three; a given emission or start, or more recordings, leave no room for it."""
    data = [wiener_hammerstein(0, 3000)]
    found = choose(Spec(), data, validated=False)
    assert found.spec.training.start == "preset"
    assert found.linear is not None
    ((name, (spec, reasons, *_)),) = found.rivals
    assert name == "linear"
    assert (spec.training.start, spec.training.window_start, spec.training.early_stopping) == (
        "linear",
        "filter",
        False,
    )
    assert (spec.structure.resolutions, spec.structure.emission) == ((1,), "linear")
    assert 5 <= spec.structure.latent_dim <= 8
    assert spec.structure.memory >= 100
    assert any("from a linear model on" in reason for reason in reasons)
    still = found.linear.spec
    assert (still.training.cycles, still.bands.folds) == (0, 4)
    assert 5 <= still.structure.latent_dim <= 8
    assert found.linear.errors.shape == (1,)
    assert choose(make_spec({"folds": 0}), data, validated=False).rivals == ()  # nothing would judge it
    for given in ({"emission": "identity"}, {"start": "preset"}, {"cascade": True}, {"joint": True}):
        assert choose(make_spec(given), data, validated=False)[2:] == ((), None, None)
    asked = choose(make_spec({"start": "linear"}), data, validated=False, rivals=False)
    assert (asked.spec.structure.emission, asked.spec.structure.latent_dim) == ("linear", spec.structure.latent_dim)
    assert asked.rivals == ()
    assert choose(Spec(), data, validated=False, rivals=False)[2:] == ((), None, None)
    many = choose(Spec(), [wiener_hammerstein(k, 800) for k in range(4)], False)
    assert many.rivals == ()
    assert many.linear is not None


def position(seed: int, rows: int) -> Sequence:
    """A mass that is pushed, and slows down: its position never forgets."""
    rng = np.random.default_rng(seed)
    u, x, v, y = rng.standard_normal(rows), 0.0, 0.0, np.empty(rows)
    for t in range(rows):
        y[t] = x
        v = 0.8 * v + u[t] - 0.02 * x
        x += 0.1 * v
    return Sequence(u[:, None], (y + 0.01 * rng.standard_normal(rows))[:, None])


def test_data_that_hold_many_time_constants_of_a_mode_tell_it_from_an_integrator():
    """A mode that fades in 150 rows: 1,500 rows could be of an integrator, 6,000 could not."""
    rng = np.random.default_rng(0)
    u, noise = rng.standard_normal((6000, 1)), 0.01 * rng.standard_normal((6000, 1))
    y = lfilter([0.0, 1.0], [1.0, -np.exp(-1 / 150)], u, axis=0) + noise
    names = lambda rows: [name for name, _ in choose(Spec(), [Sequence(u[:rows], y[:rows])], False).rivals]  # noqa: E731
    assert names(1500) == ["linear", "integrator"]
    assert names(6000) == ["linear"]


def test_a_mode_that_hardly_fades_brings_an_integrator_as_a_further_rival():
    u = np.random.default_rng(0).standard_normal((1500, 1))
    walk = Sequence(u, np.cumsum(u, axis=0) - u + 0.01 * np.random.default_rng(1).standard_normal((1500, 1)))
    found = choose(Spec(), [walk], validated=False)
    assert [name for name, _ in found.rivals] == ["linear", "integrator"]
    spec, reasons, *_ = found.rivals[1][1]
    assert spec.structure.integrators == 1
    assert any(reason.startswith("an integrator: a mode that does not oscillate fades in ") for reason in reasons)
    given = choose(make_spec({"integrators": 1}), [walk], validated=False)
    assert [(name, rival.spec.structure.integrators) for name, rival in given.rivals] == [("linear", 1)]
    many = choose(make_spec({"integrators": 3}), [walk], validated=False)
    assert many.linear is not None
    assert [s.structure.latent_dim for s in (many.spec, many.linear.spec)] == [4, 4]
    long = [Sequence(u, walk.outputs, name=f"{k}") for k in range(3)]
    assert (
        choose(make_spec({"integrators": 2}), [*long, *long], validated=False, rivals=False).spec.structure.latent_dim
        == 4
    )
    wide = Sequence(np.tile(u, (4, 1)), np.tile(walk.outputs, (4, 1)))
    assert choose(make_spec({"integrators": 2}), [wide], validated=False, rivals=False).spec.structure.latent_dim == 3
    assert [name for name, _ in choose(Spec(), [position(0, 1500)], validated=False).rivals] == ["linear"]


def test_a_low_order_is_a_rival_where_linear_models_of_any_order_lose_the_state():
    """A spring that hardens: linear models need many states, and two are enough; a linear system has no such rival."""
    hard = choose(Spec(), [make("resonance", 20, 3000)], validated=False)
    found = {name: rival.spec.structure for name, rival in hard.rivals}
    assert found["low"].latent_dim == 2 < found["linear"].latent_dim
    assert found["low"].integrators == 0
    drifting = choose(Spec(), [make("friction", 20, 3000)], validated=False)
    assert [name for name, _ in drifting.rivals] == ["linear", "integrator", "low", "low integrator"]
    assert drifting.rivals[-1][1].spec.structure.integrators == 1
    linear = choose(Spec(), [make("linear8", 20, 3000)], validated=False)
    assert [name for name, _ in linear.rivals] == ["linear"]


def test_a_dead_time_becomes_a_delay():
    rng = np.random.default_rng(0)
    switches = [np.sort(rng.choice(1600, 99, replace=False)) for _ in range(2)]
    u = np.stack([np.repeat(rng.uniform(-1, 1, 100), np.diff([0, *at, 1600])) for at in switches], axis=1)
    x = np.zeros(1600)
    for t in range(31, 1600):
        x[t] = x[t - 1] + 0.2 * (u[t - 31, 0] + u[t - 1, 1] - x[t - 1])
    data = Sequence(u, (x + 0.02 * rng.standard_normal(1600))[:, None])
    lags = find_dead_times([Recording(u, data.outputs)])
    np.testing.assert_array_equal(lags, [31, 1])
    spec, reasons, *_ = found = choose(Spec(), [data], validated=False)
    assert spec.structure.delays == (30,)
    assert all(rival.spec.structure.delays == (30,) for _, rival in found.rivals)
    assert found.rivals
    assert choose_drive([data]).delays == (30,)
    assert "inputs also with a delay, in rows: 30: they act no sooner" in reasons
    noise = Recording(u, rng.standard_normal((1600, 1)))
    np.testing.assert_array_equal(find_dead_times([noise]), [-1, -1])
    for rows in (2, 11, 15, 19, 21, 39):  # too short to say anything, alone or beside others
        short = noise.rows(slice(rows))
        np.testing.assert_array_equal(find_dead_times([short]), [-1, -1])
        np.testing.assert_array_equal(find_dead_times([Recording(u, data.outputs), short]), [31, 1])
    for value in rng.standard_normal(20):
        np.testing.assert_array_equal(find_dead_times([Recording(np.full((90, 1), value), data.outputs[:90])]), [-1])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, (4, 4, 4)),
        ({"cycles": 3}, (4, 4, 2)),
        ({"folds": 3, "fold_restarts": 2}, (6, 5, 4)),
        ({"refit": 1}, (4, 4, 1)),
        ({"refit": 0}, (5, 5, 0)),
        ({"restarts": 3}, (3, 3, 0)),
        ({"folds": 0}, (5, 5, 0)),
        ({"early_stopping": True}, (5, 5, 0)),
        ({"cycles": 0}, (5, 5, 0)),
    ],
)
def test_restarts_come_from_the_folds_unless_something_else_is_given(given, found):
    spec = choose(make_spec(given), [recording(0)], validated=False).spec
    spec.check_refit()
    assert (spec.training.restarts, spec.training.ensemble, spec.training.refit) == found
    assert choose(Spec(), [recording(0)], validated=True).spec.training.refit == 0


def test_an_ensemble_that_is_given_has_as_many_restarts():
    found = choose(make_spec({"ensemble": 4}), [wiener_hammerstein(0, 400)], validated=False)
    assert found.spec.training.restarts == 5
    assert {rival.spec.training.restarts for _, rival in found.rivals} == {4}


@pytest.mark.parametrize(
    ("noise", "window", "precision"), [(0.1, 50, "float32"), (1e-3, 100, "float32"), (0, 100, "float64")]
)
def test_quiet_data_get_long_windows_and_silent_data_more_digits(noise, window, precision):
    rng = np.random.default_rng(0)
    u = rng.standard_normal((3000, 1))
    y = lfilter([0, 0.3], [1, -0.7], u, axis=0) + noise * rng.standard_normal((3000, 1))
    spec = choose(Spec(), [Sequence(u, y)], validated=False).spec
    assert (spec.training.window, spec.structure.precision) == (window, precision)


@pytest.mark.parametrize(
    ("data", "says"),
    [(wiener_hammerstein(0, 3000), "try these against a start"), (recording(0), "use these by themselves")],
    ids=["long", "short"],
)
def test_suggest_says_what_a_fit_would_do(data, says, tmp_path, capsys):
    table = pd.DataFrame(np.hstack([data.inputs, data.outputs]), columns=[*data.input_names, *data.output_names])
    table.to_csv(tmp_path / "log.csv", index=False)
    names = ["--inputs", ",".join(data.input_names), "--outputs", ",".join(data.output_names)]
    command("suggest", str(tmp_path / "log.csv"), *names, "--dt", str(data.dt))
    assert says in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("data", [long_data(), long_data(2), [recording(0)]], ids=["many", "few", "short"])
def test_what_is_suggested_is_what_is_chosen(data):
    """One set of resolutions in the answer, the outputs' own reasons, and the fit."""
    found, settings = suggest(data), choose(Spec(), data, validated=False).spec.flat()
    assert found.resolutions == settings["resolutions"]
    if settings["window_start"] == "cache":  # quiet data get longer windows
        assert (found.window, found.buffer) == (settings["window"], settings["buffer"])
    for advice in found.per_output:
        assert set(advice.resolutions) <= set(found.resolutions)
        named = [int(r) for reason in advice.reasons for r in re.findall(r"resolution (\d+)", reason)]
        assert set(named) == set(advice.resolutions)
        covered = [float(s) for reason in advice.reasons for s in re.findall(r"windows of ([\d.]+) s", reason)]
        assert covered == pytest.approx([(found.window + found.buffer) * r * data[0].dt for r in named], rel=0.01)


def test_what_is_given_is_kept_and_not_explained():
    given = make_spec({"latent_dim": 3, "inducing": 9, "restarts": 2, "filters": (), "folds": 2})
    spec, reasons, *_ = choose(given, [recording(0)], validated=False)
    settings = spec.flat()
    assert (settings["latent_dim"], settings["inducing"], settings["folds"]) == (3, 9, 2)
    assert (settings["restarts"], settings["ensemble"], settings["filters"]) == (2, 2, ())
    assert not any("latent" in reason or "folds" in reason for reason in reasons)
    assert "the mixture of 2 restarts: better than one as a rule" in reasons


def test_what_is_said_is_what_was_done():
    """Of two settings in one sentence one may be given; and without unseen data there is nothing to learn from."""
    spec, reasons, *_ = choose(make_spec({"latent_dim": 3, "folds": 0}), long_data(), validated=False)
    settings = spec.flat()
    assert any(reason.startswith("3 latent dimensions, 50 inducing points") for reason in reasons)
    assert settings["noise"] == "gaussian"
    assert not any("tails" in reason for reason in reasons)
    MRGPSSM.from_spec(spec).check(long_data())


def test_validation_data_take_the_place_of_folds():
    spec, reasons, *_ = choose(Spec(), [recording(0)], validated=True)
    assert spec.bands.folds == 0
    assert "bands: learned on the validation sequences" in reasons


def test_data_without_time_constants_still_get_a_model():
    s = recording(0)
    still = Sequence(np.column_stack([s.inputs, np.ones(len(s))]), s.outputs, s.dt)
    spec, reasons, *_ = choose(Spec(), [still], validated=False)
    assert spec.structure.resolutions == (1,)
    assert any("no time constants could be found" in reason for reason in reasons)


def test_a_model_without_arguments_learns_says_why_and_calibrates(capsys):
    with pytest.warns(DataWarning, match="The folds are stretches of 40 rows, shorter than a window of 50 rows"):
        model = MRGPSSM(**arrange(**QUICK)).fit(recording(0))
    said = capsys.readouterr().err
    assert model.chosen_
    assert all(f"chosen: {reason}" in said for reason in model.chosen_)
    assert "fit: calibration: free runs of fold 2 of 4\n" in said
    assert model.validation_scores_ is not None
    assert np.isfinite(model.validation_scores_.to_numpy()).all()
    assert np.isfinite(model.simulate(recording(1).inputs, samples=4).mean).all()
    assert model.get_params()["resolutions"] is None


def write(path, s: Sequence, order: np.ndarray) -> None:
    columns = {"speed": s.inputs[:, 0], "load": s.inputs[:, 1], "NOx": s.outputs[order, 0], "Temp": s.outputs[order, 1]}
    pd.DataFrame(columns).to_csv(path, index=False)


def command(*words: str) -> None:
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code


def test_no_test_file_influences_any_choice(tmp_path, monkeypatch, capsys):
    """Shuffled test outputs change the scores, and not one bit of the model."""
    monkeypatch.chdir(tmp_path)
    rows, rng = np.arange(160), np.random.default_rng(0)
    for number in (0, 1):
        write(tmp_path / f"train-{number}.csv", recording(number), rows)
    found = []
    for number, order in enumerate((rows, rng.permutation(rows))):
        write(tmp_path / "test.csv", recording(5), order)
        flags = [word for key, value in QUICK.items() for word in (f"--{key}", str(value))]
        fit = ["fit", "--data", "train-*.csv", "--inputs", "speed,load", "--outputs", "NOx", "--dt", "0.1"]
        command(*fit, "--run-dir", f"run-{number}", "--quiet", *flags)
        capsys.readouterr()
        command("evaluate", f"run-{number}", "test.csv", "--json")
        model = (tmp_path / f"run-{number}" / "model.mrgpssm").read_bytes()
        found.append((hashlib.sha256(model).hexdigest(), capsys.readouterr().out))
    (first, scores), (second, others) = found
    assert first == second
    assert scores != others
