"""Thousands of damaged files and configurations: each is used or refused in one sentence (`trust/fuzzing_files.py` does more)."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from fuzzing import ConfigFuzzer, Fuzzer, Tally
from places import GOLDEN
from recordings import recording

from mrgpssm import MRGPSSM, ConfigError, ModelFileError, runtime
from mrgpssm.arrays.precision import floating_point
from mrgpssm.estimator.config import make_config, read_config
from mrgpssm.prediction.fitted import parse_model
from mrgpssm.spec import arrange
from mrgpssm.training import begin
from mrgpssm.training.checkpoint import pack_snapshot, unpack_snapshot
from mrgpssm.training.planning import make_plan

pytestmark = pytest.mark.once
CASES = 1000


@pytest.mark.parametrize("parse", [parse_model, runtime.parse], ids=["package", "runtime"])
def test_damaged_models_are_refused_or_used(parse):
    fuzzer, tally = Fuzzer(GOLDEN.read_bytes(), "mrgpssm-model", 1), Tally(ModelFileError)
    for _ in range(CASES):
        tally.take(lambda data: parse(data, "odd"), fuzzer.case())
    assert tally.refused > 0.7 * CASES
    assert tally.loaded > 0
    assert tally.slowest < 1


def checkpoint() -> tuple[bytes, Any]:
    """A snapshot before the first step, packed, and its template."""
    model = MRGPSSM((2,), **arrange(inducing=2, window=3, buffer=0, latent_dim=1))
    with floating_point("float32"):
        start = begin(*make_plan(*model.check(recording(0, 40))))
    return pack_snapshot(start, "mark"), start


def test_damaged_checkpoints_are_refused_or_used():
    good, template = checkpoint()
    fuzzer, tally = Fuzzer(good, "mrgpssm-checkpoint", 3), Tally(ModelFileError)
    for _ in range(CASES):
        tally.take(lambda data: unpack_snapshot(data, template, "mark", "odd"), fuzzer.case())
    assert tally.refused > 0.8 * CASES


def parse_config(case: bytes | dict) -> None:
    """A TOML text or its sections, up to the options of a model."""
    tables: Any = case
    if isinstance(case, bytes):
        with tempfile.NamedTemporaryFile() as file:
            file.write(case)
            file.flush()
            tables = read_config(Path(file.name))
    config = make_config(tables, "odd.toml")
    MRGPSSM.from_spec(config.spec).spec.complete()


def test_damaged_configurations_are_refused_or_used():
    tally, fuzzer = Tally(ConfigError), ConfigFuzzer(4)
    for _ in range(CASES):
        tally.take(parse_config, fuzzer.case())
    assert tally.loaded > 0
    assert tally.refused > 0.5 * CASES
