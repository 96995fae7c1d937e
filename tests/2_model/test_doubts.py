"""Doubts about data, one sentence each, where there is reason and nowhere else; and training data known by content."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhibits import call
from places import DATA
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, DataWarning, Sequence, load
from mrgpssm.data import Seen
from mrgpssm.data.datasets import load_dataset
from mrgpssm.data.doubts import (
    Asked,
    doubt_amount,
    doubt_folds,
    doubt_inputs,
    doubt_scores,
    doubt_training,
    doubt_validation,
    doubt_values,
)
from mrgpssm.data.engine import fixed_splits, load_engine
from mrgpssm.data.seen import hash_rows
from mrgpssm.data.synthetic import SETS, engine_like, two_scales
from mrgpssm.errors import DataError, ModelFileError
from mrgpssm.estimator.config import DataConfig, RunConfig
from mrgpssm.file import pack, unpack
from mrgpssm.prediction.fitted import parse_model
from mrgpssm.spec import arrange
from mrgpssm.training.runs import RunDirectory

pytestmark = pytest.mark.once
SMALL: dict[str, Any] = {"inducing": 4, "samples": 2, "windows": 3, "window": 6, "buffer": 1, "cycles": 1, "steps": 2,
                         "folds": 0}  # fmt: skip
PLENTY = Asked(window=1, inducing=1, folds=0)


def column(values, name="valve") -> Sequence:
    values = np.asarray(values, float)
    y = np.random.default_rng(1).standard_normal(len(values))
    return Sequence(values, y, 1.0, None, (name,), ("y",), {}, "a.csv")


def spoilt(s: Sequence, row: int, value: float, kind: str = "inputs") -> Sequence:
    values = np.array(getattr(s, kind))
    values[row, 0] = value
    return replace(s, **{kind: values})


# Values that are far from all others


def test_a_wild_value_is_named_with_its_file_column_and_row():
    a, b = recording(0), recording(1)
    assert doubt_values([a, b]) == []
    [text] = doubt_values([a, spoilt(b, 17, 1e6)])
    assert text.startswith("Input 'speed' has a value 1e+06 in row 17 of seed 1, ")
    assert "robust standard deviations from its median" in text
    [text] = doubt_values([spoilt(a, 3, -500.0, "outputs"), b])
    assert text.startswith("Output 'NOx' has a value -500 in row 3 of seed 0, ")


def test_one_percent_of_spikes_is_one_sentence_that_counts_them():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(5000)
    values[rng.choice(5000, 50, replace=False)] += 70
    [text] = doubt_values([column(values)])
    assert "Input 'valve' has 50 values, such as" in text


@pytest.mark.parametrize(
    "values",
    [
        np.arange(2000) % 100 == 7,  # a switch that is rarely on
        np.where(np.arange(2000) == 900, 1.0, 0.0),  # one pulse
        np.where(np.arange(2000) % 20 == 0, 50.0, 0.0) + 0.01 * np.random.default_rng(0).standard_normal(2000),
        np.where(np.arange(2000) < 1900, 0.0, np.random.default_rng(0).exponential(1.0, 2000)),  # rain
        np.random.default_rng(0).lognormal(0, 1, 2000),
        np.random.default_rng(0).standard_t(3, 2000),
        np.linspace(0, 1, 50),
    ],
)
def test_switches_pulses_valves_and_skewed_columns_are_ordinary(values):
    assert doubt_values([column(values)]) == []


def test_missing_outputs_hide_no_wild_value():
    s = recording(0)
    outputs = np.array(s.outputs)
    outputs[5:50] = np.nan
    outputs[60, 1] = 1e4
    [text] = doubt_values([replace(s, outputs=outputs)])
    assert "'Temp'" in text
    assert "row 60" in text


@pytest.mark.parametrize("kind", SETS)
def test_the_synthetic_sets_raise_no_doubt(kind):
    made = [two_scales(kind, seed=s, length=6000).sequence for s in range(2)]
    assert doubt_training(made, [], Asked(600, 50, 4)) == ()
    assert doubt_inputs(Seen.of(made[:1]), made[1:]) == []


def test_the_example_engine_raises_no_doubt():
    made = [engine_like(seed=s, length=2000) for s in range(5)]
    assert doubt_training(made[:3], made[3:4], Asked(360, 10, 0)) == ()
    seen = Seen.of(made[:3])
    assert doubt_inputs(seen, made[3:]) == doubt_scores(seen, made[3:]) == []


def test_measured_sets_raise_no_needless_doubt():
    """The engine's emissions are skewed by up to 18 robust deviations: that is how engines are."""
    try:
        for split in fixed_splits()[::3]:
            train, test = (load_engine("gengine2", part, None, DATA) for part in (split.train, split.test))
            assert doubt_training(train, [], Asked(1800, 50, 4)) == ()
            seen = Seen.of(train)
            assert doubt_inputs(seen, test) == doubt_scores(seen, test) == []
            assert len(doubt_scores(seen, train)) == 1
        for name in ("ballbeam", "dryer", "gas_furnace"):
            assert doubt_values(load_dataset(name, DATA)["train"]) == []
    except DataError as missing:
        pytest.skip(str(missing))


# Amount


def test_too_little_data_for_what_is_asked():
    s = recording(0)
    assert doubt_amount([s], Asked(window=80, inducing=32, folds=0)) == []
    [text] = doubt_amount([s], Asked(window=81, inducing=20, folds=0))
    assert "has 160 measured rows and 162 are needed for 20 inducing points and windows of 81 rows" in text
    assert "scores and bands cannot be trusted" in text
    outputs = np.array(s.outputs)
    outputs[::2, 1] = np.nan
    [text] = doubt_amount([replace(s, outputs=outputs)], Asked(window=45, inducing=1, folds=0))
    assert text.startswith("Output 'Temp' has 80 measured rows")


# Folds


def test_folds_that_are_not_apart():
    s = recording(0)
    assert doubt_folds([s], Asked(window=40, inducing=1, folds=4)) == []
    [text] = doubt_folds([s], Asked(window=41, inducing=1, folds=4))
    assert "stretches of 40 rows, shorter than a window of 41 rows" in text
    four = [recording(k) for k in range(4)]
    assert doubt_folds(four, Asked(41, 1, 4)) == []
    copied = [*four[:2], replace(four[0], name="again"), four[3]]
    [text] = doubt_folds(copied, Asked(41, 1, 4))
    assert text.startswith("again repeats seed 0 (100% of its rows), and they are in different folds")
    cut = replace(four[0], inputs=four[0].inputs[40:120], outputs=four[0].outputs[40:120], name="cut")
    assert len(doubt_folds([*four, cut], Asked(1, 1, 5))) == 1
    assert doubt_folds([*four, cut], Asked(1, 1, 4)) == []  # both in the first fold
    assert doubt_folds(copied, Asked(41, 1, 0)) == []


def test_validation_data_that_were_given_for_training():
    a, b = recording(0), recording(1)
    assert doubt_validation([a], [b]) == []
    [text] = doubt_validation([a], [b, replace(a, name="same.csv")])
    assert "given for training (same.csv)" in text


# Known by content


def test_training_data_are_known_by_content_whole_or_in_pieces():
    training = [engine_like(seed=s, length=3000) for s in range(3)]
    seen, s = Seen.of(training), training[1]
    piece = slice(700, 1400)
    cut = replace(s, inputs=s.inputs[piece], outputs=s.outputs[piece], name="other name")
    assert len(seen.hashes) == 2000
    assert seen.share(s) == seen.share(cut) == 1.0
    fresh = engine_like(seed=9, length=3000)
    assert seen.share(fresh) == 0.0
    half = replace(s, **{k: np.vstack([getattr(s, k)[:1500], getattr(fresh, k)[:1500]]) for k in ("inputs", "outputs")})
    assert 0.4 < seen.share(half) < 0.6  # 600 hashes of it are in the sample: five deviations are 0.1
    nudged = replace(s, outputs=s.outputs + 1e-9)
    assert seen.share(nudged) == 0.0
    assert seen.share(replace(s, inputs=s.inputs[:, ::-1])) == 0.0


def test_constant_stretches_and_the_sign_of_zero_say_nothing():
    flat = Sequence(np.zeros((50, 2)), np.zeros((50, 1)))
    assert len(hash_rows(flat)) == 0
    s = column([0.0, 1.0] * 20)
    np.testing.assert_array_equal(hash_rows(s), hash_rows(replace(s, inputs=np.where(s.inputs == 0, -0.0, 1.0))))
    assert len(hash_rows(column([1.0, 2.0]))) == 0


def test_what_was_seen_goes_into_the_model_file_and_comes_back(tmp_path):
    model = untrained(resolutions=(3, 1))
    training = [recording(0), recording(1)]
    model.fitted_ = replace(model.fitted_, seen=Seen.of(training, ("A doubt.",)))
    model.save(tmp_path / "m.mrgpssm")
    back = load(tmp_path / "m.mrgpssm")
    assert back.fitted_.seen is not None
    assert back.doubts_ == ("A doubt.",)
    assert back.fitted_.seen.share(training[1]) == 1.0
    np.testing.assert_array_equal(back.fitted_.seen.ranges[:, 0], np.minimum(*(s.inputs.min(0) for s in training)))
    content, tensors = unpack((tmp_path / "m.mrgpssm").read_bytes(), "mrgpssm-model", "m")
    right = content["seen"]
    for change in ({"hashes": "xyz"}, {"hashes": "0" * 32}, {"hashes": "g" * 16}, {"ranges": [[0, 1]]}, {"doubts": [1]},
                   {"ranges": [[1, 0], [0, 1]]}, {"ranges": [[0, float("1e301")], [0, 1]]}, {"more": 1}):  # fmt: skip
        data = pack("mrgpssm-model", content | {"seen": right | change}, tensors)
        with pytest.raises(ModelFileError, match="what it says of its training data"):
            parse_model(data, "m")
    without = pack("mrgpssm-model", content | {"seen": None}, tensors)
    assert parse_model(without, "m").seen is None


@pytest.fixture
def remembering() -> MRGPSSM:
    model = untrained(resolutions=(3, 1))
    model.fitted_ = replace(model.fitted_, seen=Seen.of([recording(0), recording(1)]))
    return model


def test_score_warns_of_data_seen_in_training(remembering):
    with pytest.warns(DataWarning, match="Seen in training: seed 0; these scores do not say how good the model is"):
        remembering.score([recording(0), recording(2)], samples=4)
    remembering.score(recording(2), samples=4)  # warnings are errors here


def test_simulate_warns_once_of_inputs_outside_training_and_by_how_much(remembering):
    s = recording(2)
    remembering.simulate(s, samples=4)
    far = np.array(s.inputs)
    far[:40, 1] *= 5
    with pytest.warns(DataWarning) as told:
        remembering.simulate(far, samples=4)
    [one] = told
    assert str(one.message).startswith("inputs: input 'load' leaves the training range, -9.")
    assert one.filename == __file__
    excess = (np.abs(far[:, 1]).max() - 9.9) / 19.6
    assert excess == pytest.approx(1.8, abs=0.1)
    assert "by up to 1.8 times its width in 25.0% of the rows" in str(one.message)
    far[:, 0] *= 3
    with pytest.warns(DataWarning, match=r"and 1 more do: there the model guesses"):
        remembering.simulate_mean(far)
    slightly = np.array(s.inputs)
    slightly[3, 0] = 12.0
    remembering.simulate(slightly, samples=4)


# Through fit and the command line


def test_fit_warns_and_the_model_keeps_it(tmp_path):
    with pytest.warns(DataWarning) as told:
        model = MRGPSSM((1,), **arrange(**SMALL)).fit(spoilt(recording(0), 5, 1e5), progress=False)
    texts = [str(one.message) for one in told]
    assert len(texts) == 1
    assert "'speed' has a value 100000 in row 5" in texts[0]
    assert {one.filename for one in told} == {__file__}
    assert model.doubts_ == tuple(texts)
    model.save(tmp_path / "m.mrgpssm")
    assert load(tmp_path / "m.mrgpssm").doubts_ == tuple(texts)


def test_fifty_rows_by_the_default_are_too_few():
    """Its own choices for 50 rows: windows of 18 rows, 20 inducing points, 4 folds of a dozen rows."""
    s = recording(0)
    short = replace(s, inputs=s.inputs[:50], outputs=s.outputs[:50])
    model = MRGPSSM()
    options, *_ = model.check(short)
    asked = Asked(
        max(options.structure.resolutions) * (options.training.window + options.training.buffer),
        options.structure.inducing,
        options.bands.folds,
    )
    few, apart = doubt_training([short], [], asked)
    assert "has 50 measured rows and 100 are needed" in few
    assert "stretches of 12 rows" in apart


def run_folder(root: Path, model: MRGPSSM) -> None:
    """A finished run around a model, and its data."""
    for seed in range(3):
        s = recording(seed)
        columns = dict(zip((*s.input_names, *s.output_names), [*s.inputs.T, *s.outputs.T], strict=True))
        pd.DataFrame(columns).to_csv(root / f"{seed}.csv", index=False)
    run = RunDirectory(root / "run")
    run.root.mkdir()
    model.save(run.model)
    run.config.write_text(
        RunConfig(DataConfig((str(root / "0.csv"),), ("speed", "load"), ("NOx", "Temp"), None, 0.1)).to_toml()
    )


def test_the_command_line_marks_data_seen_in_training(remembering, tmp_path, monkeypatch, capsys):
    """evaluate and report say so on a copy of a training file under another name, and on no other."""
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path, remembering)
    (tmp_path / "0.csv").rename("renamed.csv")
    call("evaluate", "run", "renamed.csv", "--samples", "4", "--json")
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert found["seen_in_training"] == ["renamed.csv"]
    assert found["warnings"] == ["Seen in training: renamed.csv; these scores do not say how good the model is."]
    assert shown.err == f"warning: {found['warnings'][0]}\n"
    call("evaluate", "run", "renamed.csv", "--samples", "4")
    assert "seen in training: 1" in capsys.readouterr().out
    call("evaluate", "run", "2.csv", "--samples", "4", "--json")
    shown = capsys.readouterr()
    assert json.loads(shown.out)["seen_in_training"] == json.loads(shown.out)["warnings"] == []
    assert shown.err == ""
    call("report", "run", "--data", "renamed.csv", "--data", "2.csv", "--samples", "20", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["seen_in_training"] == ["renamed.csv"]
    assert "good" not in {o["grade"] for o in found["outputs"].values()}
    page = (tmp_path / "report.html").read_text()
    assert page.count("training, tested on") == 1
    assert "Seen in training: renamed.csv" in page


def test_the_command_line_prints_doubts_and_goes_on(remembering, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path, remembering)
    frame = pd.read_csv("2.csv")
    frame.assign(speed=5 * frame["speed"]).to_csv("far.csv", index=False)
    call("simulate", "run", "far.csv", "--samples", "4", "--out", "far-run.csv", "--json")
    shown = capsys.readouterr()
    [text] = json.loads(shown.out)["warnings"]
    assert text.startswith("far.csv: input 'speed' leaves the training range")
    assert shown.err == f"warning: {text}\n"
    frame.assign(load=frame["load"].where(frame.index != 9, 1e7)).to_csv("wild.csv", index=False)
    sizes = ["--resolutions", "1", "--inducing", "4", "--samples", "2", "--windows", "3", "--window", "6", "--buffer",
             "1", "--cycles", "1", "--steps", "2"]  # fmt: skip
    columns = ["--inputs", "speed,load", "--outputs", "NOx", "--dt", "0.1"]
    call("fit", "--data", "wild.csv", *columns, "--run-dir", "wild", "--quiet", "--json", *sizes)
    shown = capsys.readouterr()
    [text] = json.loads(shown.out)["warnings"]
    assert "'load' has a value 1e+07 in row 9 of wild.csv" in text
    assert shown.err == f"warning: {text}\n"


def test_warnings_of_others_are_left_alone(capsys):
    from mrgpssm.cli.show import collect_warnings

    with pytest.warns(UserWarning, match="something else"), collect_warnings() as found:
        warnings.warn("something else", stacklevel=1)
    assert found == []
