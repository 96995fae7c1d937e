"""Model files: what is saved comes back, old files load forever, and anything else is refused in one sentence."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from recordings import recording

from mrgpssm import MRGPSSM, ConfigError, ModelFileError, load
from mrgpssm.file import pack, unpack
from mrgpssm.prediction.fitted import model_bytes, parse_model
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
HERE = Path(__file__).parent / "golden"
KIND = "mrgpssm-model"


@pytest.fixture(scope="module")
def golden() -> bytes:
    return (HERE / "model-v1.mrgpssm").read_bytes()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_golden_file_of_every_format_predicts_what_it_always_did(number):
    model, expected = load(HERE / f"model-v{number}.mrgpssm"), np.load(HERE / f"model-v{number}-expected.npz")
    run = model.simulate(recording(2).inputs, samples=6, seed=3)
    for name, values in (("mean", run.mean), ("std", run.std), ("q05", run.quantile(0.05)), ("bounds", model.bounds_)):
        np.testing.assert_allclose(values, expected[name], rtol=1e-12, atol=1e-12)
    assert model.resolutions == (3, 1)
    assert model.training.ensemble == len(model.fitted_.ensemble) == min(number, 2)
    assert model.filters == ((2.0, 10.0) if number >= 3 else ())
    assert (model.fitted_.calibration == 1).all() == (number != 2)
    assert (model.fitted_.noise is not None) == (number >= 3)
    assert model.fitted_.units == {"Temp": "K"}
    assert run.units == {"Temp": "K"}


def test_what_is_loaded_is_written_again_byte_for_byte(tmp_path):
    load(HERE / "model-v3.mrgpssm").save(tmp_path / "first.mrgpssm")
    load(tmp_path / "first.mrgpssm").save(tmp_path / "again.mrgpssm")
    golden, again = ((tmp_path / name).read_bytes() for name in ("first.mrgpssm", "again.mrgpssm"))
    old, new = (unpack(data, KIND, "file") for data in (golden, again))
    assert {k: v for k, v in old[0].items() if k != "packages"} == {k: v for k, v in new[0].items() if k != "packages"}
    assert set(old[1]) == set(new[1])
    for name, tensor in old[1].items():
        np.testing.assert_array_equal(tensor, new[1][name])
    assert model_bytes(parse_model(golden, "file")) == again


def test_an_old_file_is_written_in_the_new_format_with_the_same_numbers(golden, tmp_path):
    load(HERE / "model-v1.mrgpssm").save(tmp_path / "new.mrgpssm")
    old, new = (unpack(data, KIND, "file") for data in (golden, (tmp_path / "new.mrgpssm").read_bytes()))
    assert new[0]["version"] == 5
    for name, tensor in old[1].items():
        np.testing.assert_array_equal(tensor, new[1][name])
    assert set(new[1]) - set(old[1]) == {"calibration"}


def test_a_fitted_model_and_its_file_simulate_alike(tmp_path):
    options: dict[str, Any] = {
        "inducing": 4,
        "samples": 2,
        "windows": 3,
        "window": 6,
        "buffer": 1,
        "cycles": 1,
        "steps": 5,
    }
    model = MRGPSSM((2,), **arrange(**options, window_start="initial", joint=True)).fit(recording(0), progress=False)
    model.save(tmp_path / "m.mrgpssm")
    again = load(tmp_path / "m.mrgpssm")
    inputs = recording(3).inputs
    np.testing.assert_array_equal(model.simulate(inputs, samples=4).mean, again.simulate(inputs, samples=4).mean)
    assert again.spec.fixed() == model.spec.fixed()
    assert safetensors.numpy.load((tmp_path / "m.mrgpssm").read_bytes())["bounds"].shape == (1, 1)
    with pytest.raises(ConfigError, match="not fitted yet"):
        MRGPSSM().save(tmp_path / "none.mrgpssm")


def test_every_truncation_and_many_bit_flips_are_found(golden):
    for length in range(0, len(golden), 97):
        with pytest.raises(ModelFileError):
            parse_model(golden[:length], "cut")
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 8 * len(golden), 1500):
        damaged = bytearray(golden)
        damaged[place // 8] ^= 1 << (place % 8)
        with pytest.raises(ModelFileError):
            parse_model(bytes(damaged), "flipped")


def changed(golden: bytes, change) -> bytes:
    """The golden file with other content or tensors, and a checksum that fits them."""
    content, tensors = unpack(golden, KIND, "golden")
    tensors = dict(tensors)
    change(content, tensors)
    return pack(KIND, content, tensors)


def put(*path):
    *keys, last, value = path

    def change(content, _):
        for key in keys:
            content = content[key]
        content[last] = value

    return change


def tensor(name, value):
    return lambda content, tensors: tensors.update({name: value(tensors.get(name))})


NOISE = "models.0.raw_observation_noise"
WRONG = [
    (put("version", 6), "written in format 6; this mrgpssm reads up to 5. Update mrgpssm"),
    (put("version", 2), "'ensemble' is missing or unknown"),
    (put("version", "1"), "must be a whole number"),
    (put("version", True), "must be a whole number"),
    (put("surprise", 1), "key 'surprise' is missing or unknown"),
    (lambda c, t: c.pop("dt"), "key 'dt' is missing or unknown"),
    (put("dt", 0), "dt must be a positive number"),
    (put("dt", "fast"), "dt must be a positive number"),
    (put("inputs", "speed"), "inputs must be a list of names"),
    (put("outputs", []), "outputs must be a list of names"),
    (put("outputs", ["a", "a"]), "outputs has a name twice"),
    (put("units", {"Temp": 3}), "units must map names to texts"),
    (put("options", {}), "the options are not those of format 1"),
    (put("options", "preset", "os.system"), "preset must be one of stable, paper; got 'os.system'"),
    (put("options", "resolutions", [0]), "at least 1; got 0"),
    (put("options", "latent_dim", 10**9), "its settings ask for"),
    (put("options", "inducing", 6), "its settings ask for"),
    (put("options", "precision", "float32"), "its settings ask for float32"),
    (put("options", "restarts", 3), "tensor bounds is"),
    (put("options", "window_start", "recognition"), "window_start must be one of cache, initial"),
    (tensor(NOISE, lambda x: x[:0]), f"tensor {NOISE} is"),
    (tensor(NOISE, lambda x: x * np.nan), f"tensor {NOISE} holds values that are not finite"),
    (tensor("scaling.output_sd", lambda x: 0 * x), "positive where it is a deviation"),
    (tensor("scaling.input_mean", lambda x: np.full(5, 0.0)), "tensor scaling.input_mean is"),
    (lambda c, t: t.pop(NOISE), f"tensor {NOISE} is missing"),
    (tensor("models.0.extra", lambda x: np.zeros(2)), "tensor models.0.extra is not part of these settings"),
    (tensor("extra", lambda x: np.zeros(2)), "tensor 'extra' is not part of a model"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[says[:40] for _, says in WRONG])
def test_files_that_do_not_fit_are_refused_even_with_a_good_checksum(golden, change, says):
    with pytest.raises(ModelFileError, match=r"odd\.mrgpssm") as caught:
        parse_model(changed(golden, change), "odd.mrgpssm")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def raw(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


HOSTILE = [
    (b"", "empty or cut short"),
    (pickle.dumps(print), "no safetensors file"),
    ((2**62).to_bytes(8, "little") + b"{}", "no safetensors file, or it is cut short"),
    (raw(b"[" * 100_000), "nests deeper than 64 levels"),
    (raw(b"{"), "not valid JSON"),
    (raw(b"{}"), "without metadata"),
    (raw(b"[]"), "without metadata"),
    (raw(b'{"__metadata__": {"kind": "a", "content": "{}"}}'), "not one of mrgpssm's"),
    (raw(b'{"__metadata__": {"kind": "mrgpssm-model", "content": "{}", "sha256": "0"}}'), "checksum does not match"),
    (raw(b'{"__metadata__": {"kind": 1, "content": "{}", "sha256": "0"}}'), "not one of mrgpssm's"),
    (raw(b'{"__metadata__":{"kind":"a","content":"{}","sha256":"0"},"x":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}'),
     "the tensors cannot be read"),
    (pack("mrgpssm-checkpoint", {}, {}), "a 'mrgpssm-model' is needed here"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "says"), HOSTILE, ids=[says[:30] for _, says in HOSTILE])
def test_hostile_bytes_are_refused(data, says, tmp_path):
    path = tmp_path / "bad.mrgpssm"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=says) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="no such file"):
        load(tmp_path / "none.mrgpssm")
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(tmp_path)


def test_content_is_plain_json(golden):
    content, _ = unpack(golden, KIND, "golden")
    assert json.loads(json.dumps(content)) == content
    assert set(content["packages"]) == {"mrgpssm", "jax"}
    assert content["options"]["seed"] == 7
