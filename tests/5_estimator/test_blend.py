"""Blend: shares against a grid, left-out data that reach nothing, files, folders, and simulators of a user's own."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, Blend, ConfigError, DataError, FitError, Forecast, ModelFileError, Sequence, load, runtime
from mrgpssm.baselines import StaticRegression
from mrgpssm.blend import Simulator, StaticGP, StaticTrees
from mrgpssm.blend.files import blend_bytes, parse_blend
from mrgpssm.blend.fitted import FittedBlend
from mrgpssm.blend.weigh import MOST_SHARE, RIDGE, find_shares
from mrgpssm.cli import main
from mrgpssm.data import Scaling, Seen, unseen_rows
from mrgpssm.errors import Interrupted
from mrgpssm.estimator.fitting import leave_model
from mrgpssm.estimator.noise import Runs, fit_law
from mrgpssm.estimator.unseen import Judged
from mrgpssm.file import pack, unpack
from mrgpssm.file.tensors import BLEND_KIND
from mrgpssm.runtime.paths import PathLaw
from mrgpssm.spec import Bands, Training, arrange

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 5, "samples": 3, "windows": 4, "window": 8, "buffer": 2, "cycles": 1, "steps": 5}


class Line:
    """A user's own simulator: outputs are a line of the inputs `lag` rows before. It has no bands."""

    fits: list[np.ndarray] = []  # what all of them have learned, in order  # noqa: RUF012

    def __init__(self, lag: int = 1):
        self.lag = lag

    def fit(self, sequences):
        x, y = np.concatenate([self._rows(s) for s in sequences]), np.concatenate([s.outputs for s in sequences])
        seen = ~np.isnan(y).any(axis=1)
        self.weights = np.linalg.lstsq(x[seen], y[seen], rcond=None)[0]
        Line.fits.append(self.weights)

    def simulate(self, inputs) -> Forecast:
        mean = self._rows(inputs) @ self.weights
        blank = np.full(mean.shape, np.nan)
        return Forecast(inputs.clock(), mean, blank, {}, {}, np.zeros(mean.shape[1]), inputs.output_names, {})

    def score(self, sequences) -> pd.DataFrame:
        raise NotImplementedError

    def _rows(self, s: Sequence) -> np.ndarray:
        at = np.maximum(np.arange(len(s)) - self.lag, 0)
        return np.column_stack([np.ones(len(s)), s.inputs[at]])


def made(seed: int, rows: int = 120) -> Sequence:
    """Outputs that are a line of the input before, with noise."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-2, 2, (rows, 2))
    y = 3 + np.concatenate([u[:1], u[:-1]]) @ [[1.0, -1.0], [0.5, 2.0]] + 0.1 * rng.standard_normal((rows, 2))
    return Sequence(u, y, 0.1, None, ("speed", "load"), ("NOx", "Temp"), {"Temp": "K"}, f"made {seed}")


def objective(s: np.ndarray, errors: list[tuple[np.ndarray, np.ndarray]]) -> float:
    total = []
    for a, b in errors:
        seen = ~np.isnan(a) & ~np.isnan(b).any(axis=0)
        mixed = (1 - s.sum()) * a[seen] + s @ b[:, seen]
        total.append(np.sum(mixed**2) / np.sum(a[seen] ** 2))
    return float(np.mean(total) + RIDGE * np.sum(s**2))


@pytest.mark.parametrize("seed", range(12))
def test_shares_of_two_parts_are_those_of_a_grid(seed):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(200)
    errors = [
        (
            size * (common + rng.standard_normal(200)),
            size * rng.uniform(0.05, 1.5, (2, 1)) * rng.standard_normal((2, 200)),
        )
        for size in (1.0, 100.0)
    ]
    if seed % 2:  # a part that is as the first, only worse, gets nothing; one without error as much as there is
        errors = [(a, np.stack([1.2 * a, 1e-3 * b[1] - 0.3 * a])) for a, b in errors]
    errors[0][0][::5] = np.nan
    found, steps = find_shares(errors), np.linspace(0, MOST_SHARE, 91)
    grid = [np.array(s) for s in itertools.product(steps, steps) if sum(s) <= MOST_SHARE + 1e-9]
    best = min(grid, key=lambda s: objective(s, errors))
    assert (found >= 0).all()
    assert found.sum() <= MOST_SHARE + 1e-12
    assert objective(found, errors) <= objective(best, errors) + 1e-12
    np.testing.assert_allclose(found, best, atol=0.02)


def test_shares_at_the_edges():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 500))
    (single,) = find_shares([(a, 0.5 * b[None])])
    tried = np.linspace(0, MOST_SHARE, 9001)
    assert single == pytest.approx(
        tried[np.argmin([objective(np.array([s]), [(a, 0.5 * b[None])]) for s in tried])], abs=1e-4
    )
    (loud,) = find_shares([(a, 0.5 * b[None]), (1000 * a, 500 * b[None])])  # a recording does not count for its size
    assert loud == pytest.approx(single, abs=1e-12)
    np.testing.assert_allclose(find_shares([(a, -0.5 * np.stack([a, a]))]).sum(), 2 * 1.5 / (0.2 + 2 * 1.5**2))
    np.testing.assert_allclose(find_shares([(a, np.zeros((2, 500)))]), MOST_SHARE / 2)  # both perfect
    assert (find_shares([(a, np.full((2, 500), np.nan))]) == 0).all()
    assert (find_shares([(a, 3 * np.stack([a, a]))]) == 0).all()
    assert find_shares([(a, np.zeros((0, 500)))]).shape == (0,)


@pytest.fixture(scope="module")
def blend():
    return Blend({"far": Line(7), "near": Line(1)}, folds=2).fit([made(k) for k in range(4)], progress=False)


def test_simulators_of_a_users_own_are_weighed_and_add_up(blend):
    assert isinstance(Line(), Simulator)
    assert (blend.shares_.loc["near"] > 0.7).all()
    np.testing.assert_allclose(blend.shares_.sum(), 1)
    new = made(9)
    run = blend.simulate(new)
    assert list(run.components) == ["far", "near"]
    np.testing.assert_allclose(sum(run.components.values()) + run.offset, run.mean)
    each = {name: part.simulate(new).mean for name, part in blend.parts_.items()}
    mixed = sum(blend.shares_.loc[name].to_numpy() * mean for name, mean in each.items())
    np.testing.assert_allclose(run.mean, mixed)
    np.testing.assert_allclose(blend.simulate(new, stride=3).mean, run.mean[::3])
    np.testing.assert_allclose(blend.simulate(new, stride=3).time, run.time[::3])
    assert run.units == {"Temp": "K"}


def test_bands_and_scores_of_a_blend_are_those_of_its_law(blend):
    new = made(9, 1000)
    run, scores = blend.simulate(new), blend.score(new)
    np.testing.assert_allclose(scores["rmse"], np.sqrt(np.mean((run.mean - new.outputs) ** 2, axis=0)))
    inside = (new.outputs >= run.quantile(0.05)) & (new.outputs <= run.quantile(0.95))
    np.testing.assert_allclose(scores["coverage_90"], inside.mean(axis=0))
    assert (abs(scores["coverage_90"] - 0.9) < 0.07).all()  # learned from 480 rows of four recordings
    assert list(scores.index) == ["NOx", "Temp"]
    assert np.isfinite(blend.validation_scores_.to_numpy()).all()


def test_trajectories_of_a_blend_follow_its_law(blend):
    new = made(9, 300)
    run = blend.simulate(new, samples=2000, keep_samples=True)
    assert run.samples is not None
    shares = np.mean((run.samples > run.quantile(0.05)) & (run.samples < run.quantile(0.95)), axis=(0, 1))
    assert (np.abs(shares - 0.9) < 4 * np.sqrt(0.09 / 2000)).all()  # as if a trajectory said everything once
    assert blend.simulate(new, samples=4).samples is None
    coarse = blend.simulate(new, samples=4, stride=3, keep_samples=True).samples
    assert coarse is not None
    assert coarse.shape == (4, 100, 2)
    assert blend.fitted_.paths is not None
    assert (blend.fitted_.paths.own == 0).all()


def test_the_parts_that_were_given_stay_untrained():
    given = Line(1)
    Blend([given, Line(2)], folds=2).fit([made(0), made(1)], progress=False)
    assert not hasattr(given, "weights")


def test_a_baseline_can_be_a_part():
    parts = [StaticRegression(degrees=(1,), ridges=(1e-4,), fold_count=2), Line(1)]
    blend = Blend(parts, folds=2).fit([made(k) for k in range(4)], progress=False)
    assert list(blend.shares_.index) == ["staticregression", "line"]
    assert (blend.score(made(8))["rmse"] < 0.7 * made(8).outputs.std(axis=0)).all()


def test_validation_recordings_take_the_place_of_folds():
    Line.fits.clear()
    blend = Blend([Line(7), Line(1)], folds=4).fit([made(0)], validation=[made(1)], progress=False)
    assert len(Line.fits) == 2  # each part once
    assert list(blend.shares_.index) == ["line", "line_2"]
    assert (blend.shares_.loc["line_2"] > 0.7).all()


@pytest.mark.parametrize(("count", "folds"), [(3, 3), (2, 3)], ids=["recordings", "stretches"])
def test_poison_in_what_a_fold_leaves_out_changes_nothing_in_it(count, folds):
    data, fold = [made(k) for k in range(count)], 1
    rows = np.split(unseen_rows(data, folds, fold), np.cumsum([len(s) for s in data])[:-1])
    bad = [replace(s, outputs=np.where(r[:, None], 1e6, s.outputs)) for s, r in zip(data, rows, strict=True)]
    learned = []
    for some in (data, bad):
        Line.fits.clear()
        with np.errstate(all="ignore"), mock.patch("mrgpssm.blend.blend.warn_of"):
            Blend([Line(1)], folds=folds).fit(some, progress=False)
        learned.append(list(Line.fits))
    clean, dirty = learned
    assert len(clean) == folds + 1
    np.testing.assert_array_equal(clean[fold], dirty[fold])
    for k in {*range(folds + 1)} - {fold}:
        assert not np.array_equal(clean[k], dirty[k])


def test_a_fold_whose_inputs_do_not_vary_is_left_out_and_an_output_must_be_measured():
    still = [replace(s, inputs=s.inputs * [1.0, 0.0]) for s in (made(1), made(3))]
    with pytest.warns(UserWarning, match="Fold 1 of 2 is left out: Input 'load'"):
        blend = Blend([Line(1)], folds=2).fit([made(0), still[0], made(2), still[1]], progress=False)
    assert np.isfinite(blend.simulate(made(7)).mean).all()
    blank = [replace(s, outputs=s.outputs * [1.0, np.nan]) for s in (made(1), made(2), made(3))]
    for data in (([made(0), *blank],), ([made(0)], blank)):
        with (
            pytest.raises(DataError, match="Output 'Temp' is measured in no recording that can be left out"),
            mock.patch("warnings.warn"),
        ):
            Blend([Line(1)], folds=2).fit(*data, progress=False)


class Lost(Line):
    """One that runs away."""

    def simulate(self, inputs) -> Forecast:
        run = super().simulate(inputs)
        return replace(run, mean=run.mean / 0.0)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"parts": []}, ConfigError, "needs at least one part"),
        ({"parts": [3]}, ConfigError, "Part 'int' is no simulator: it needs the methods fit, simulate and score"),
        ({"parts": [Line]}, ConfigError, "is no simulator"),
        ({"parts": {"a/b": Line()}}, ConfigError, "Names of parts are letters, digits and _"),
        ({"parts": [Line()], "folds": 1}, ConfigError, "folds must be a whole number, at least 2"),
        ({"parts": [Line()], "folds": 99}, ConfigError, "folds = 99 would cut 120 rows"),
        ({"parts": [MRGPSSM((3, 1), training=Training(early_stopping=True))]}, ConfigError, "early_stopping"),
        ({"parts": [MRGPSSM((60, 1))]}, DataError, "Each window needs"),
        ({"parts": [Lost()], "folds": 2}, FitError, "Part 'lost' gave no finite mean"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(given, error, says):
    with pytest.raises(error, match=says), np.errstate(all="ignore"):
        Blend(**given).fit([made(0), made(1)], progress=False)


def test_a_blend_says_what_it_lacks(blend, tmp_path):
    with pytest.raises(ConfigError, match="not fitted yet"):
        Blend().simulate(made(0))
    with pytest.raises(ConfigError, match="Part 'far' is a Line, which cannot be saved"):
        blend.save(tmp_path / "b.mrgpssm")
    with pytest.raises(ConfigError, match="Part 'line' is a Line, which cannot be saved"):
        Blend([Line()]).fit([made(0), made(1)], progress=False, run_dir=tmp_path / "run")
    assert not list(tmp_path.iterdir())
    assert Blend([Line()], folds=3).get_params()["folds"] == 3
    assert Blend().set_params(folds=5).folds == 5


def by_hand() -> Blend:
    """A fitted blend of one part of each kind that can be saved; nothing was trained for long."""
    data, rng = [recording(0), recording(1)], np.random.default_rng(0)
    with mock.patch("mrgpssm.blend.process.KERNEL_ROWS", 50):
        gp = StaticGP((4,), (3,), inducing=20).fit(data)
    parts = {"mrgpssm": untrained(resolutions=(3, 1)), "gp": gp, "trees": StaticTrees((4,), (), rounds=5).fit(data)}
    mean, deviation, drive = (rng.standard_normal((200, 2)) for _ in range(3))
    measured = mean + 0.3 * rng.standard_t(4.0, mean.shape)
    noise = fit_law(Runs(measured, mean, np.abs(deviation), drive, np.arange(200) // 100))
    weights = np.array([[0.5, 0.2], [0.3, 0.8], [0.2, 0.0]])
    found = Blend(parts)
    found.fitted_ = FittedBlend(
        parts, weights, noise, ("speed", "load"), ("NOx", "Temp"), 0.1, Scaling.fit(data), {"Temp": "K"}, Seen.of(data)
    )
    paths = PathLaw(np.zeros(2), np.array([0.7, 0.2]), np.array([30.0, 2.0]), np.array([[1.0, 0.4], [0.4, 1.0]]))
    found.fitted_ = replace(found.fitted_, paths=paths)
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[Blend, Path]:
    found, path = by_hand(), tmp_path_factory.mktemp("blend") / "b.mrgpssm"
    found.save(path)
    return found, path


def test_what_is_saved_is_what_is_loaded(saved):
    found, path = saved
    again = load(path)
    assert isinstance(again, Blend)
    assert [type(part) for part in again.parts_.values()] == [MRGPSSM, StaticGP, StaticTrees]
    warm = (recording(5).inputs, recording(5).outputs)
    ours, theirs = (b.simulate(recording(7), warmup=warm, samples=4, keep_samples=True) for b in (found, again))
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    np.testing.assert_array_equal(ours.samples, theirs.samples)
    np.testing.assert_array_equal(ours.quantile(0.95), theirs.quantile(0.95))
    assert blend_bytes(again.fitted_) == path.read_bytes()
    with pytest.warns(UserWarning, match="Seen in training"):
        again.score(recording(0), samples=4)


def test_a_blend_is_refused_where_a_state_space_model_is_needed(saved, tmp_path, capsys):
    _, path = saved
    with pytest.raises(ModelFileError, match="holds a blend, which is not what is needed here; take the state-space"):
        runtime.load(path)
    assert command("export", str(path), "--out", str(tmp_path / "m.c")) == 2
    assert capsys.readouterr().err.count("\n") == 1
    load(path).parts_["mrgpssm"].save(tmp_path / "m.mrgpssm")
    assert isinstance(load(tmp_path / "m.mrgpssm"), MRGPSSM)


def put(index: Any, value: Any):
    def change(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return change


WRONG = [
    ("shares", put((0, 0), 2.0), "the shares of the parts must be at least 0 and add up to 1"),
    ("shares", lambda x: x[:1], "tensor shares is"),
    ("noise.dof", put(0, 1.0), "more than 2 degrees of freedom"),
    ("paths.lasting", put(0, 2.0), "must be from 0 to 1"),
    ("paths.ties", put((0, 1), 0.9), "must be a matrix of correlations"),
    ("scaling.output_sd", put(0, 0.0), "deviations must be positive"),
    ("parts.1.lengthscales", put((0, 0), 0.0), "lengthscales must be positive"),
    ("parts.1.inducing", lambda x: x[:, :1], "part gp: tensor inducing is"),
    ("parts.1.noise_sd", put(0, -1.0), "noise_sd must be positive"),
    ("parts.2.roots", put((0, 0), -1), "the roots of the trees must be among their nodes"),
    ("parts.2.roots", lambda x: x[:1], "part trees: tensor roots is"),
    ("parts.2.children", put(0, 0), "the children of a tree's node must come after it"),
    ("parts.2.children", lambda x: x.astype(np.int64), "it must hold whole numbers of 32 bits"),
    ("parts.2.features", put(0, 4), "the trees must ask for features from 0 to 3"),
    ("parts.2.values", put(0, np.nan), "tensor values holds values that are not finite"),
    ("parts.0.calibration", put(0, -1.0), "part mrgpssm: "),
]


@pytest.mark.parametrize(("key", "change", "says"), WRONG)
def test_a_damaged_blend_is_refused_in_one_sentence(saved, key, change, says):
    content, tensors = unpack(saved[1].read_bytes(), BLEND_KIND, "good")
    data = pack(BLEND_KIND, content, tensors | {key: change(tensors[key].copy())})
    with pytest.raises(ModelFileError, match=r"odd\.mrgpssm") as caught:
        parse_blend(data, "odd.mrgpssm")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "Update mrgpssm"),
        ({"odd": 1}, "the metadata key 'odd' is missing or unknown"),
        ({"parts": [{"name": "a", "kind": "os.system", "content": {}}]}, "the parts must be a list"),
        ({"parts": [{"name": "a", "kind": "static-gp", "content": {}}] * 3}, "parts has a name twice"),
        ({"units": 3}, "units must map names to texts"),
        ({"dt": -1}, "dt must be a positive number"),
        ({"inputs": ["speed"]}, "tensor noise.weights is"),
    ],
)
def test_odd_metadata_are_refused_in_one_sentence(saved, change, says):
    content, tensors = unpack(saved[1].read_bytes(), BLEND_KIND, "good")
    with pytest.raises(ModelFileError) as caught:
        parse_blend(pack(BLEND_KIND, content | change, tensors), "odd.mrgpssm")
    assert says in str(caught.value)


class Pretend:
    """In place of `MRGPSSM.fit`: untrained models of the whole and of all folds, left in the folder."""

    def __init__(self, lost: tuple[int, ...] = ()):
        self.lost, self.calls = lost, []

    def __call__(self, model, sequences, validation=None, progress=True, run_dir=None):
        self.calls.append((model.spec, [s.name for s in sequences]))
        fitted = untrained(resolutions=(3, 1)).fitted_
        folds = {k: fitted for k in range(model.bands.folds) if k not in self.lost}
        model.fitted_, model.folds_ = fitted, folds
        if run_dir is not None:
            run_dir.root.mkdir(parents=True)
            leave_model(run_dir, Judged(fitted, None, None, folds))
        return model

    def fit(self, blend: Blend, *data: Any, **given: Any) -> Blend:
        def fit(model, sequences, validation=None, progress=True, run_dir=None):
            return self(model, sequences, validation, progress, run_dir)

        with mock.patch.object(MRGPSSM, "fit", fit):
            return blend.fit(*data, progress=False, **given)


def small_blend() -> Blend:
    model = MRGPSSM((3, 1), **arrange(**SMALL, restarts=2, folds=3, noise="student"))
    return Blend([model, StaticTrees((), (), rounds=3)], folds=2)


def test_a_model_in_a_blend_has_no_bands_and_trains_its_folds_along():
    pretend = Pretend()
    pretend.fit(small_blend(), [recording(k) for k in range(4)])
    ((spec, names),) = pretend.calls
    assert names == [f"seed {k}" for k in range(4)]
    assert spec.bands == Bands(folds=2, fold_restarts=2, noise="gaussian", calibrate=False)
    pretend.fit(small_blend(), [recording(0)], validation=recording(1))
    assert pretend.calls[1][0].bands.folds == 0


def test_a_fold_without_a_model_is_left_out_and_said():
    data = [recording(k) for k in range(4)]
    with pytest.warns(UserWarning, match="Fold 2 of 2 is left out: a part could not be trained in it"):
        found = Pretend(lost=(1,)).fit(small_blend(), data)
    assert np.isfinite(found.shares_.to_numpy()).all()
    with pytest.raises(FitError, match="No fold could be trained"), pytest.warns(UserWarning, match="is left out"):
        Pretend(lost=(0, 1)).fit(small_blend(), data)


def test_a_blend_that_was_cut_short_goes_on_and_another_one_is_refused(tmp_path):
    data, root = [recording(k) for k in range(4)], tmp_path / "run"
    whole = Pretend().fit(small_blend(), data)
    first, second = Pretend(), Pretend()
    with (
        mock.patch.object(StaticTrees, "fit", side_effect=Interrupted("somebody said stop")),
        pytest.raises(Interrupted, match="finished are kept, go on by calling fit again with the same data"),
    ):
        first.fit(small_blend(), data, run_dir=root)
    with pytest.raises(ConfigError, match="holds another run: its data differs"):
        second.fit(small_blend(), data[:3], run_dir=root)
    found = second.fit(small_blend(), data, run_dir=root)
    assert (len(first.calls), len(second.calls)) == (1, 0)
    assert {path.relative_to(root).as_posix() for path in root.rglob("*.mrgpssm")} == {
        "model.mrgpssm",
        "parts/mrgpssm/folds/1.mrgpssm",
        "parts/mrgpssm/folds/2.mrgpssm",
        "parts/mrgpssm/model.mrgpssm",
    }
    np.testing.assert_array_equal(found.shares_, whole.shares_)
    np.testing.assert_array_equal(load(root / "model.mrgpssm").shares_, whole.shares_)
    with pytest.raises(ConfigError, match="holds a finished run"):
        second.fit(small_blend(), data, run_dir=root)


def command(*words: str) -> int:
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_the_commands_fit_use_and_score_a_blend(tmp_path, capsys, monkeypatch):
    for seed in range(5):
        s = recording(seed)
        table = np.column_stack([s.inputs, s.outputs])
        np.savetxt(tmp_path / f"{seed}.csv", table, delimiter=",", header="speed,load,NOx,Temp", comments="")
    run, files = str(tmp_path / "run"), [w for k in range(4) for w in ("--data", str(tmp_path / f"{k}.csv"))]
    words = ["fit", *files, "--inputs", "speed,load", "--outputs", "NOx,Temp", "--dt", "0.1", "--resolutions", "3,1",
             "--folds", "2", "--window", "8", "--buffer", "2", "--blend", "--run-dir", run]  # fmt: skip
    monkeypatch.setattr("mrgpssm.blend.process.KERNEL_ROWS", 30)
    assert command(*words, "--dry-run") == 2
    pretend = Pretend()
    monkeypatch.setattr(MRGPSSM, "fit", lambda model, *given, **named: pretend(model, *given, **named))
    assert command(*words, "--quiet", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["shares"]) == ["mrgpssm", "staticgp", "statictrees"]
    assert "blend = true" in (tmp_path / "run" / "config.toml").read_text()
    test = str(tmp_path / "4.csv")
    assert command("simulate", run, test, "--out", str(tmp_path / "out.csv"), "--warmup-rows", "20") == 0
    assert "NOx.staticgp" in pd.read_csv(tmp_path / "out.csv").columns
    assert command("evaluate", run, test, "--json", "--samples", "4") == 0
    capsys.readouterr()
    assert command("report", run, "--out", str(tmp_path / "r.html")) == 2
    said = capsys.readouterr().err
    assert "holds a blend, and a report is about a state-space model" in said
    assert said.count("\n") == 1


def test_trees_take_over_what_jumps():
    """A real fit: the state-space model has five steps, and the outputs jump with the input before."""

    def jumps(seed: int) -> Sequence:
        s = made(seed, 200)
        before = np.concatenate([s.inputs[:1], s.inputs[:-1]])
        return replace(s, outputs=np.round(before) + 0.05 * s.outputs)

    blend = Blend([MRGPSSM((3, 1), **arrange(**SMALL)), StaticTrees((), (), rounds=60)])
    blend.fit([jumps(0), jumps(1), jumps(2)], validation=jumps(3), progress=False)
    assert (blend.shares_.loc["statictrees"] > 0.5).all()
    ours, theirs = (m.score(jumps(9))["rmse"].to_numpy() for m in (blend, blend.parts_["mrgpssm"]))
    assert (ours < 0.7 * theirs).all()
