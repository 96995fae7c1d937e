"""The mean model elsewhere: as C, compiled with every warning an error, and as StableHLO."""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest
from c_code import compile_c, needs_gcc, walk_in_c
from places import GOLDEN
from recordings import recording
from untrained import untrained

from mrgpssm import ConfigError, load, runtime
from mrgpssm.cli import main
from mrgpssm.export import c_source
from mrgpssm.prediction.fitted import model_bytes

pytestmark = pytest.mark.once


@needs_gcc
def test_the_c_file_follows_the_jax_mean_model_for_20000_steps(tmp_path):
    """Two outputs, two components, an ensemble of two, averaged and delayed inputs."""
    rng = np.random.default_rng(0)
    inputs = np.repeat(rng.uniform(-10, 10, (2500, 2)), 8, axis=0)
    model = load(GOLDEN)
    library = compile_c(c_source(runtime.load(GOLDEN)), tmp_path)
    found = walk_in_c(library, inputs, outputs=2)
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-5)


@needs_gcc
def test_joint_outputs_a_prefix_and_names_that_would_end_a_comment(tmp_path):
    model = untrained(resolutions=(3, 1), joint=True, precision="float64")
    plain = runtime.parse(model_bytes(model.fitted_), "joint")
    odd = replace(plain, output_names=('*/ int x = "', "back\\\nslash??/"))
    source, inputs = c_source(odd, "engine_2"), recording(2).inputs
    found = walk_in_c(compile_c(source, tmp_path), inputs, 2, "engine_2")
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-5)


@needs_gcc
@pytest.mark.parametrize("joint", [True, False])
def test_a_linear_emission_in_c(joint, tmp_path):
    model = untrained(resolutions=(3, 1), joint=joint, emission="linear", latent_dim=3, precision="float64", rounds=2)
    source, inputs = c_source(runtime.parse(model_bytes(model.fitted_), "linear")), recording(2).inputs
    assert "double C[" in source
    found = walk_in_c(compile_c(source, tmp_path), inputs, 2)
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-5)


def test_the_stablehlo_program_runs_any_length_and_goes_on():
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    from jax import export

    from mrgpssm.export.stablehlo import first_states, stablehlo

    model = untrained(resolutions=(5, 1), rounds=2)
    program = export.deserialize(bytearray(stablehlo(model.fitted_)))
    assert set(program.platforms) == {"cpu", "cuda", "tpu"}
    inputs = recording(2).inputs.astype(np.float32)
    with jax.enable_x64(False):
        first, states = program.call(inputs[:100], first_states(model.fitted_))
        rest, _ = program.call(inputs[100:], states)
    found = np.concatenate([first, rest])
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-5)


def command(*words: str) -> int:
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_the_command_writes_both_formats_and_refuses_others(tmp_path, capsys):
    target = str(tmp_path / "model.c")
    assert command("export", str(GOLDEN), "--out", target, "--name", "engine") == 0
    assert "engine_step" in Path(target).read_text()
    assert "speed, load" in Path(target).read_text()
    assert command("export", str(GOLDEN), "--out", target, "--format", "onnx") == 2
    assert "--format must be c or stablehlo; got 'onnx'" in capsys.readouterr().err
    assert command("export", str(GOLDEN), "--out", target, "--name", "2; x") == 2
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    untrained(resolutions=(3, 1)).save(tmp_path / "plain.mrgpssm")
    plain, target = str(tmp_path / "plain.mrgpssm"), str(tmp_path / "model.hlo")
    assert command("export", plain, "--out", target, "--format", "stablehlo") == 0
    assert (tmp_path / "model.hlo").stat().st_size > 1000


@needs_gcc
@pytest.mark.parametrize(
    "given",
    [
        {"delays": (3, 7)},
        {"delays": (2,), "filters": (4,), "joint": True},
        {"feedthrough": True},
        {"feedthrough": True, "filters": (4,), "delays": (5,)},
    ],
)
def test_the_c_file_delays_its_inputs(given, tmp_path):
    model, inputs = untrained(resolutions=(3, 1), precision="float64", **given), recording(2).inputs
    library = compile_c(c_source(runtime.parse(model_bytes(model.fitted_), "model")), tmp_path)
    found = walk_in_c(library, inputs, outputs=2)
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-5)


@pytest.mark.parametrize("given", [{"filters": (3,)}, {"delays": (2,)}, {"feedthrough": True}])
def test_a_stablehlo_file_has_neither_averages_nor_delays(given):
    from mrgpssm.export.stablehlo import stablehlo

    model = untrained(resolutions=(3, 1), **given)
    with pytest.raises(ConfigError, match=rf"holds neither averages nor delayed copies .* without {next(iter(given))}"):
        stablehlo(model.fitted_)
