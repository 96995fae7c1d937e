"""Short fits decide where training starts, and a linear model that is better in the end is what people get."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from recordings import recording
from scipy.signal import lfilter

from mrgpssm import MRGPSSM, Bands, Sequence, Training, load
from mrgpssm.advice.automatic import choose
from mrgpssm.errors import DataError, FitError, Interrupted
from mrgpssm.estimator import trials
from mrgpssm.estimator.fitting import Field
from mrgpssm.estimator.judges import Judge
from mrgpssm.estimator.trials import LINEAR, left_out_error, settle
from mrgpssm.file import make_directory, read_json, write_json
from mrgpssm.spec import Spec
from mrgpssm.training.progress import reporter
from mrgpssm.training.runs import RunDirectory

pytestmark = pytest.mark.once
SMALL = Training(samples=2, windows=2, window=10, buffer=2, cycles=2, steps=5, restarts=1)


def linear_data(rows: int = 320, noise: float = 0.02, seed: int = 0) -> Sequence:
    """A resonance of order two: a linear model has all there is to learn."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(rows)
    y = np.asarray(lfilter([0, 0.1, 0.08], [1, -1.6, 0.8], u))
    return Sequence(u[:, None], (y + noise * rng.standard_normal(rows))[:, None], name="linear")


def judge_by(monkeypatch, error: Callable[[], float]) -> None:
    """Trials that train nothing and have these errors."""
    monkeypatch.setattr(trials, "train_some", lambda *_: (None, None))
    monkeypatch.setattr(trials, "FleetFit", SimpleNamespace(of=lambda _: None))
    monkeypatch.setattr(trials, "list_judges", lambda *_: (None, []))
    monkeypatch.setattr(trials, "trial_error", lambda _: error())


def watch(spec: Spec, label: str):
    return reporter(False, spec.structure.resolutions, label)


@pytest.mark.parametrize(
    ("preset", "linear", "winner"),
    [
        (0.3, 0.27, "preset"),
        (0.3, 0.2, "linear"),
        (0.8, 0.79, "linear"),
        (0.8, 0.81, "preset"),
        (0.3, np.inf, "preset"),
    ],
)
def test_a_preset_start_that_explains_most_is_given_up_for_a_clearly_better_one(preset, linear, winner, monkeypatch):
    data, errors = [linear_data()], iter((preset, linear))
    found = choose(MRGPSSM(training=SMALL).spec, data, validated=False)
    judge_by(monkeypatch, lambda: np.log(next(errors)))
    settled = settle(found, Field(data, None, None), watch)
    assert settled.spec.training.start == winner
    assert (settled.rivals, settled.linear) == ((), found.linear)
    assert settled.reasons[-1].startswith(
        f"a {winner} start: short fits leave {100 * preset:.2g} % from the preset start"
    )


@pytest.mark.parametrize(
    ("linear", "integrator", "winner"),
    [(0.7, 0.6, 1), (0.7, 0.75, 1), (0.7, 0.8, 0), (0.7, np.inf, 0), (0.78, 0.81, 1), (0.85, 0.79, 1)],
)
def test_an_integrator_is_given_up_for_a_clearly_better_model_that_fades(linear, integrator, winner, monkeypatch):
    """A mode that hardly fades asks for it; short fits alone can seldom tell the two apart."""
    data, errors = [linear_data()], iter((0.8, linear, integrator))
    found = choose(MRGPSSM(training=SMALL).spec, data, validated=False)
    ((_, fading),) = found.rivals
    third = fading._replace(spec=fading.spec.change(integrators=1))
    judge_by(monkeypatch, lambda: np.log(next(errors)))
    settled = settle(found._replace(rivals=(("linear", fading), ("integrator", third))), Field(data, None, None), watch)
    assert settled.spec.structure.integrators == winner
    title = "linear start with an integrator" if winner else "linear start"
    assert settled.reasons[-1].startswith(
        f"a {title}: short fits leave 80 % from the preset start, {100 * linear:.2g} % from the linear start and "
    )


@pytest.mark.parametrize(
    ("errors", "winner"),
    [
        ((0.8, 0.7, 0.75, 0.5, 0.54), "low integrator"),
        ((0.8, 0.7, 0.75, 0.5, 0.56), "low"),
        ((0.8, 0.5, 0.9, 0.6, 0.9), "linear"),
        ((0.4, 0.9, 0.9, 0.35, 0.9), "preset"),
    ],
)
def test_a_low_order_wins_by_the_rules_of_the_others(errors, winner):
    names = ("preset", "linear", "integrator", "low", "low integrator")
    assert trials._pick(dict(zip(names, np.log(errors), strict=True))) == winner


def test_an_estimate_counts_trials_and_the_linear_model():
    cost = MRGPSSM(inducing=4, training=SMALL).estimate(linear_data())
    assert list(cost["stages"]) == [
        "trial, preset start",
        "trial, linear start",
        "training",
        "free runs",
        "scores",
        "noise",
        "runs after warm-ups",
        "trajectories",
        "a linear model beside it",
    ]
    assert all(seconds > 0 for seconds in cost["stages"].values())
    assert cost["seconds"] == pytest.approx(sum(cost["stages"].values()))
    alone = MRGPSSM((1,), inducing=4, training=SMALL, bands=Bands(folds=0)).estimate(linear_data())
    assert list(alone["stages"]) == ["training"]


@pytest.mark.parametrize("fault", [FitError, DataError])
def test_a_trial_that_fails_has_lost(fault, monkeypatch):
    data = [linear_data()]

    def learn(_, spec, *__):
        if spec.training.start == "linear":
            raise fault("no")
        return None, None

    judge_by(monkeypatch, lambda: 0.0)
    monkeypatch.setattr(trials, "train_some", learn)
    found = choose(MRGPSSM(training=SMALL).spec, data, validated=False)
    assert settle(found, Field(data, None, None), watch).spec.training.start == "preset"


def test_a_trial_is_judged_by_whole_stretches_and_by_short_pieces(monkeypatch):
    """Pieces come one after the other, each after as many rows before it; the first may have no past."""
    data = linear_data(rows=320)
    past, s = data.take(slice(50)), data.take(slice(50, 320))
    judge = Judge(None, [s, data], "two", 0, (past, None))  # pyright: ignore[reportArgumentType]
    short = judge.cut(100)
    assert [len(piece) for piece in short.unseen] == [100] * 5
    np.testing.assert_array_equal(short.unseen[1].outputs, s.outputs[100:200])
    np.testing.assert_array_equal(short.pasts[1].outputs, s.outputs[:100])  # pyright: ignore
    assert (short.pasts[0], short.pasts[2]) == (past, None)
    errors = iter((-1.0, -3.0, 100.0, -3.0))
    monkeypatch.setattr(trials, "left_out_error", lambda _: next(errors))
    assert trials.trial_error([judge]) == -2.0
    assert trials.trial_error([judge]) == 100.0  # a run that is not finite


def test_the_error_is_the_mean_log_over_runs_and_outputs():
    """By hand, from forecasts after the same warm-ups; what nobody has measured does not count."""
    data = recording(0)
    model = MRGPSSM((1,), inducing=4, training=SMALL, bands=Bands(calibrate=False)).fit(data, progress=False).fitted_
    outputs = np.array(data.outputs)
    outputs[100:, 1] = np.nan
    half = Sequence(data.inputs[80:], outputs[80:], 0.1, None, data.input_names, data.output_names)
    first = Sequence(data.inputs[:80], data.outputs[:80], 0.1, None, data.input_names, data.output_names)
    judge = Judge(model, [first, half], "two", 0, (None, first))
    expected = []
    fitted = MRGPSSM((1,), inducing=4)
    fitted.fitted_ = model
    for s, past in ((first, None), (half, first)):
        run = fitted.simulate(s, warmup=past, samples=100)
        expected.append(np.sqrt(np.nanmean((run.mean - s.outputs) ** 2, axis=0)) / model.scaling.output_sd)
    np.testing.assert_allclose(left_out_error([judge]), np.mean(np.log(expected)), rtol=1e-4)


def test_a_linear_model_that_is_better_in_the_end_is_shipped_with_bands(tmp_path, monkeypatch):
    """The short fit of this test learns little from a preset start; a linear model has all there is."""
    data, test = linear_data(), linear_data(seed=1)
    monkeypatch.setattr("mrgpssm.estimator.estimator.settle", lambda found, *_: found._replace(rivals=()))
    model = MRGPSSM(inducing=4, training=SMALL).fit(data, progress=False, run_dir=tmp_path / "run")
    assert model.chosen_[-1] == LINEAR
    spec = model.fitted_.spec
    assert (spec.training.cycles, spec.training.start, spec.structure.emission) == (0, "linear", "linear")
    run = model.simulate(test.inputs[20:], warmup=(test.inputs[:20], test.outputs[:20]))
    error = run.mean - test.outputs[20:]
    assert np.sqrt(np.mean(error**2)) < 0.03  # the noise is 0.02
    inside = (test.outputs[20:] >= run.quantile(0.05)) & (test.outputs[20:] <= run.quantile(0.95))
    assert 0.75 < inside.mean() <= 1.0
    again = load(tmp_path / "run").simulate(test.inputs[20:], warmup=(test.inputs[:20], test.outputs[:20]))
    np.testing.assert_allclose(again.mean, run.mean, rtol=1e-5, atol=1e-5)


def test_a_fit_that_is_stopped_in_a_trial_goes_on_there(tmp_path, monkeypatch):
    data, root = linear_data(), tmp_path / "run"
    whole = MRGPSSM(inducing=4, training=SMALL).fit(data, progress=False)
    note = RunDirectory.note
    seen = []

    def stop_in_second(self, progress):
        note(self, progress)
        seen.append(self.root.name)
        if self.root.name == "linear" and self.stop is not None:
            self.stop.asked = 2

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "note", stop_in_second)
        with pytest.raises(Interrupted, match="a checkpoint was written, go on by calling fit again"):
            MRGPSSM(inducing=4, training=SMALL).fit(data, progress=False, run_dir=root)
    assert set(seen) == {"preset", "linear"}
    seen.clear()
    monkeypatch.setattr(RunDirectory, "note", lambda self, p: (note(self, p), seen.append(self.root.name))[0])
    model = MRGPSSM(inducing=4, training=SMALL).fit(data, progress=False, run_dir=root)
    assert "preset" not in seen  # it was finished
    assert read_json(root / "trials" / "choice.json").keys() == {"preset", "linear"}
    assert model.chosen_ == whole.chosen_
    np.testing.assert_array_equal(model.simulate(data).mean, whole.simulate(data).mean)


def test_a_run_that_goes_on_keeps_the_winner_of_its_trials(tmp_path, monkeypatch):
    data, root = [linear_data()], tmp_path / "run"
    found = choose(MRGPSSM(training=SMALL).spec, data, validated=False)
    make_directory(root / "trials")
    write_json(root / "trials" / "choice.json", {"preset": -1.0, "linear": -3.0})
    tried: list[str] = []
    monkeypatch.setattr(trials, "train_some", lambda field, spec, *_: (tried.append(spec.training.start), None))
    assert settle(found, Field(data, None, RunDirectory(root)), watch).spec.training.start == "linear"
    assert tried == ["linear"]  # it goes on from the last checkpoint of its trial


def test_the_winner_goes_on_from_its_trial(monkeypatch):
    """What is learned is the same as without a trial; nothing is trained twice."""
    data, counts = linear_data(), []
    errors = iter((0.4, 0.04))
    monkeypatch.setattr(trials, "trial_error", lambda _: np.log(next(errors)))
    monkeypatch.setattr("mrgpssm.estimator.estimator.prefer_linear", lambda *_: None)
    training = replace(SMALL, cycles=4, restarts=None)
    tried = MRGPSSM(inducing=4, training=training)
    tried.fit(data, progress=False, callbacks=[lambda p: counts.append(p.done)])
    spec = tried.fitted_.spec
    alone = MRGPSSM.from_spec(spec).fit(data, progress=False)
    assert (spec.training.start, spec.training.refit, trials.count_cycles(spec)) == ("linear", 2, 4)
    assert counts[0] > 4 * training.steps
    np.testing.assert_array_equal(tried.bounds_, alone.bounds_)


def test_a_run_that_turns_out_not_finite_has_lost():
    data = recording(0)
    model = MRGPSSM((1,), inducing=4, training=SMALL, bands=Bands(calibrate=False)).fit(data, progress=False).fitted_
    broken = replace(model, ensemble=jax.tree.map(lambda x: x * np.nan, model.ensemble))
    assert left_out_error([Judge(broken, [data], "")]) == 100.0


def test_cycles_of_zero_leave_a_model_where_it_starts():
    data = linear_data()
    model = MRGPSSM((1,), 2, 1, emission="linear", training=Training(start="linear", cycles=0, window=10, buffer=2))
    model.fit(data, progress=False)
    assert model.history_ == ()
    run = model.simulate(data.inputs[20:], warmup=(data.inputs[:20], data.outputs[:20]))
    assert np.sqrt(np.mean((run.mean - data.outputs[20:]) ** 2)) < 0.03
    assert model.estimate(data)["step_seconds"] == 0.0
