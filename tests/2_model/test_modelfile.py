"""Model files: what is saved comes back, nothing needs the provenance, and anything else is refused in one sentence."""

import json
import pickle
from typing import Any

import jax
import numpy as np
import pytest
from places import EXPECTED, GOLDEN
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, Bands, ConfigError, ModelFileError, Training, load, runtime
from mrgpssm.file import pack, unpack
from mrgpssm.file.model import pack_model, unpack_model
from mrgpssm.prediction.fitted import model_bytes, parse_model
from mrgpssm.spec import arrange

pytestmark = pytest.mark.once
KIND = "mrgpssm-model"


@pytest.fixture(scope="module")
def golden() -> bytes:
    return GOLDEN.read_bytes()


def test_the_golden_file_predicts_what_it_always_did():
    model, expected = load(GOLDEN), np.load(EXPECTED)
    run = model.simulate(recording(2).inputs, samples=6, seed=3)
    for name, values in (("mean", run.mean), ("std", run.std), ("q05", run.quantile(0.05)), ("bounds", model.bounds_)):
        np.testing.assert_allclose(values, expected[name], rtol=1e-12, atol=1e-12)
    assert (model.resolutions, model.filters, model.delays) == ((3, 1), (2.0, 10.0), (3, 7))
    assert model.training.ensemble == len(model.fitted_.ensemble) == 2
    assert (model.training.seed, model.bands.folds) == (7, 2)
    assert model.fitted_.noise is not None
    assert model.fitted_.seen is not None
    assert run.units == model.fitted_.units == {"Temp": "K"}


def drop_later(content: dict[str, Any], old: dict[str, Any], *sections: str) -> dict[str, Any]:
    """The content without options, in these sections, that the old one did not know yet."""
    return content | {name: {key: content[name][key] for key in old[name]} for name in sections}


def test_what_is_loaded_is_written_again(golden, tmp_path):
    load(GOLDEN).save(tmp_path / "again.mrgpssm")
    written = (tmp_path / "again.mrgpssm").read_bytes()
    assert pack_model(unpack_model(written, "file")) == written
    (old, tensors), (new, again) = (unpack(data, KIND, "file") for data in (golden, written))
    provenance = drop_later(new["provenance"], old["provenance"], "training", "bands")
    assert drop_later(new, old, "structure") | {"provenance": provenance} == old
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        np.testing.assert_array_equal(again[name], tensor)
    load(tmp_path / "again.mrgpssm").save(tmp_path / "third.mrgpssm")
    assert (tmp_path / "third.mrgpssm").read_bytes() == (tmp_path / "again.mrgpssm").read_bytes()


ODD_PROVENANCE = [
    {},
    {"training": 3, "bands": [], "bounds": "none", "skipped": {}, "packages": None},
    {"training": {"steps": "many"}, "bounds": [[1.0], [2.0, 3.0]], "skipped": [[10**400], [0]]},
    {"training": {"of the future": 1}, "bounds": [[[1.0]]], "skipped": None, "note": "x" * 1000},
]


@pytest.mark.parametrize("table", ODD_PROVENANCE, ids=["none", "types", "values", "unknown"])
def test_no_simulation_needs_the_provenance(golden, table, tmp_path):
    data, inputs = changed(golden, put("provenance", table)), recording(2).inputs
    (tmp_path / "m.mrgpssm").write_bytes(data)
    ours, theirs = load(tmp_path / "m.mrgpssm"), load(GOLDEN)
    np.testing.assert_array_equal(ours.simulate(inputs, samples=4).mean, theirs.simulate(inputs, samples=4).mean)
    plain, known = runtime.parse(data, "m"), runtime.parse(golden, "golden")
    np.testing.assert_array_equal(plain.simulate(inputs, samples=4).std, known.simulate(inputs, samples=4).std)
    assert (ours.training, ours.bands) == (Training(), Bands())
    assert ours.bounds_.shape == ours.skipped_.shape == (2, 0)
    ours.save(tmp_path / "again.mrgpssm")
    assert load(tmp_path / "again.mrgpssm").spec == ours.spec


def test_a_restart_that_was_given_up_has_no_bound_after_loading_either(golden):
    content = unpack(golden, KIND, "golden")[0]["provenance"]
    bounds = [[None, *content["bounds"][0][1:]], content["bounds"][1]]
    model = parse_model(changed(golden, put("provenance", "bounds", bounds)), "m")
    assert model.bounds[0, 0] == -np.inf
    assert drop_later(model.provenance.to_json(), content, "training", "bands") == content | {"bounds": bounds}


@pytest.mark.parametrize(
    "given",
    [
        {"resolutions": (3, 1), "preset": "paper", "joint": True},
        {"resolutions": (9, 3, 1), "cascade": True, "filters": (4,), "precision": "float64"},
    ],
    ids=["paper", "cascade"],
)
def test_the_reader_asks_for_the_tensors_of_the_jax_model(given):
    """Names and shapes are written once in NumPy; the leaves of the model are the referee."""
    model = untrained(rounds=2, **given).fitted_
    again = parse_model(model_bytes(model), "m")
    assert model_bytes(again) == model_bytes(model)
    for ours, theirs in zip(jax.tree.leaves(again.ensemble), jax.tree.leaves(model.ensemble), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_fitted_model_and_its_file_simulate_alike(tmp_path):
    options: dict[str, Any] = {
        "inducing": 4,
        "samples": 2,
        "windows": 3,
        "window": 6,
        "buffer": 1,
        "cycles": 1,
        "steps": 5,
        "folds": 0,
    }
    model = MRGPSSM((2,), **arrange(**options, window_start="initial", joint=True)).fit(recording(0), progress=False)
    model.save(tmp_path / "m.mrgpssm")
    again = load(tmp_path / "m.mrgpssm")
    inputs = recording(3).inputs
    np.testing.assert_array_equal(model.simulate(inputs, samples=4).mean, again.simulate(inputs, samples=4).mean)
    assert again.spec.complete() == model.spec.complete()
    assert again.bounds_.shape == (1, 1)
    with pytest.raises(ConfigError, match="not fitted yet"):
        MRGPSSM().save(tmp_path / "none.mrgpssm")


def test_a_file_from_before_there_was_a_memory_is_read_with_that_of_its_time(golden):
    def forget(content, _):
        del content["structure"]["memory"]

    assert parse_model(changed(golden, forget), "old").spec.structure.memory == 100


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


NOISE = "models.0.0.raw_observation_noise"
WRONG = [
    (put("version", 2), "written in format 2; this mrgpssm reads up to 1. Update mrgpssm"),
    (put("version", "1"), "must be a whole number"),
    (put("version", True), "must be a whole number"),
    (put("version", 0), "must be a whole number"),
    (put("surprise", 1), "key 'surprise' is missing or unknown"),
    (lambda c, t: c.pop("dt"), "key 'dt' is missing or unknown"),
    (lambda c, t: c.pop("provenance"), "key 'provenance' is missing or unknown"),
    (put("provenance", [1]), "the provenance must be a table"),
    (put("dt", 0), "dt must be a positive number"),
    (put("dt", "fast"), "dt must be a positive number"),
    (put("dt", 10**400), "dt must be a positive number"),
    (put("rounds", 0), "rounds must be a whole number, at least 1"),
    (put("rounds", 3), "more models than there are tensors"),
    (put("rounds", 1), "tensor 'models.1.0.components.0.initial.mean' is not part of a model with these settings"),
    (put("inputs", "speed"), "inputs must be a list of names"),
    (put("outputs", []), "outputs must be a list of names"),
    (put("outputs", ["a", "a"]), "outputs has a name twice"),
    (put("outputs", [str(k) for k in range(10_000)]), "more models than there are tensors"),
    (put("units", {"Temp": 3}), "units must map names to texts"),
    (put("structure", {}), "not those of format 1"),
    (put("structure", "latent_dim", None), "not those of format 1"),
    (put("structure", "seed", 3), "not those of format 1"),
    (put("structure", "preset", "os.system"), "preset must be one of stable, paper; got 'os.system'"),
    (put("structure", "resolutions", [0]), "at least 1; got 0"),
    (put("structure", "resolutions", [1] * 10_000), "more models than there are tensors"),
    (put("structure", "filters", [10**400, 2]), "each of filters must be a positive number"),
    (put("structure", "latent_dim", 2**31 - 1), "its settings ask for"),
    (put("structure", "inducing", 6), "its settings ask for"),
    (put("structure", "inducing", 0), "inducing must be a whole number, at least 1"),
    (put("structure", "joint", "yes"), "joint must be true or false"),
    (put("structure", "precision", "float32"), "its settings ask for float32"),
    (lambda c, t: c["structure"].update(joint=True, latent_dim=1), "2 joint outputs need at least as many"),
    (tensor(NOISE, lambda x: x[:0]), f"tensor {NOISE} is"),
    (tensor(NOISE, lambda x: x * np.nan), f"tensor {NOISE} holds values that are not finite"),
    (tensor("scaling.output_sd", lambda x: 0 * x), "tensor scaling.output_sd must be positive"),
    (tensor("scaling.input_mean", lambda x: np.full(5, 0.0)), "tensor scaling.input_mean is"),
    (tensor("scaling.input_mean", lambda x: x.astype("float32")), "its settings ask for float64"),
    (tensor("calibration", lambda x: -x), "tensor calibration must be positive"),
    (tensor("noise.dof", lambda x: 0 * x + 2), "more than 2 degrees of freedom"),
    (tensor("noise.weights", lambda x: x[:, 1:]), "tensor noise.weights is"),
    (lambda c, t: t.pop("noise.edges"), "tensor noise.edges is missing"),
    (lambda c, t: t.pop(NOISE), f"tensor {NOISE} is missing"),
    (tensor("models.0.0.extra", lambda x: np.zeros(2)), "tensor 'models.0.0.extra' is not part of a model"),
    (tensor("extra", lambda x: np.zeros(2)), "tensor 'extra' is not part of a model"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[says[:40] for _, says in WRONG])
def test_files_that_do_not_fit_are_refused_even_with_a_good_checksum(golden, change, says):
    for read in (parse_model, runtime.parse):
        with pytest.raises(ModelFileError, match=r"odd\.mrgpssm") as caught:
            read(changed(golden, change), "odd.mrgpssm")
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


def raw(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


HOSTILE = [
    (b"", "empty or cut short"),
    (pickle.dumps(print), "not a safetensors file"),
    ((2**62).to_bytes(8, "little") + b"{}", "not a safetensors file, or it is cut short"),
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


def test_a_missing_file_is_refused_and_a_folder_that_holds_no_model(tmp_path, golden):
    with pytest.raises(ModelFileError, match="no such file"):
        load(tmp_path / "none.mrgpssm")
    for read in (load, runtime.load):
        with pytest.raises(ModelFileError, match="holds no finished model; give a model file or the folder of a run"):
            read(tmp_path)
    (tmp_path / "model.mrgpssm").write_bytes(golden)
    assert load(tmp_path).fitted_.output_names == runtime.load(tmp_path).output_names


def test_content_is_plain_json(golden):
    content, _ = unpack(golden, KIND, "golden")
    assert json.loads(json.dumps(content)) == content
    assert set(content["provenance"]["packages"]) == {"mrgpssm", "jax"}
    assert content["provenance"]["training"]["seed"] == 7
