"""Public benchmarks: every file layout, written here with numbers that say where they belong, and the official rows."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from mrgpssm import DataError
from mrgpssm.data.nonlinear import BENCHMARKS, load_benchmark

pytestmark = pytest.mark.once


def count(rows: int, start: float = 0.0) -> np.ndarray:
    return start + np.arange(rows, dtype=float)


@pytest.mark.parametrize("file", ["cascaded_tanks.csv", "deep/er/dataBenchmark.mat"])
def test_tanks(tmp_path, file):
    signals = {"uEst": count(60), "yEst": count(60, 100), "uVal": count(60, 200), "yVal": count(60, 300)}
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pd.DataFrame(signals).to_csv(path, index=False)
    else:
        savemat(path, {name: values[:, None] for name, values in signals.items()})
    split = load_benchmark("tanks", tmp_path)
    (train,), (test,) = split.train, split.tests
    np.testing.assert_array_equal(train.inputs[:, 0], signals["uEst"])
    np.testing.assert_array_equal(test.sequence.outputs[:, 0], signals["yVal"])
    assert (train.dt, test.initialisation) == (4.0, 50)


def test_drives(tmp_path):
    pd.DataFrame({name: count(500, 1000 * k) for k, name in enumerate(("u11", "u12", "z11", "z12"))}).to_csv(
        tmp_path / "DATAUNIF.csv", index=False
    )
    split = load_benchmark("coupled-drives", tmp_path)
    assert [len(s) for s in split.train] == [400, 400]
    assert [(t.sequence.name, t.sequence.outputs[0, 0], t.initialisation) for t in split.tests] == [
        ("z11", 2400, 10),
        ("z12", 3400, 10),
    ]


def test_silverbox_and_wiener_hammerstein(tmp_path):
    savemat(tmp_path / "SNLS80mV.mat", {"V1": count(131072)[None], "V2": count(131072)[None]})
    split = load_benchmark("silverbox", tmp_path)
    assert split.train[0].inputs[0, 0] == 40650
    assert {t.sequence.name: (t.sequence.inputs[0, 0], t.sequence.inputs[-1, 0]) for t in split.tests} == {
        "multisine": (105712, 127399),
        "arrow": (100, 40574),
        "arrow, no extrapolation": (100, 32099),
    }
    assert split.train[0].outputs[0, 0] == 1000 * 40650  # mV
    whole = {"uBenchMark": count(188000)[:, None], "yBenchMark": count(188000)[:, None], "fs": [[51200.0]]}
    savemat(tmp_path / "WienerHammerBenchMark.mat", whole)
    split = load_benchmark("wiener-hammerstein", tmp_path)
    assert (split.train[0].inputs[0, 0], len(split.train[0])) == (5200, 100_000)
    assert (split.tests[0].sequence.inputs[0, 0], len(split.tests[0].sequence)) == (105_200, 78_800)


def test_positioning(tmp_path):
    for k, name in enumerate(("DATA_EMPS.mat", "DATA_EMPS_PULSES.mat")):
        savemat(
            tmp_path / name, {"vir": count(30, k)[:, None], "qm": count(30)[:, None], "t": 0.001 * count(30)[:, None]}
        )
    split = load_benchmark("emps", tmp_path)
    assert split.tests[0].sequence.inputs[0, 0] == 1
    assert split.tests[0].initialisation == 20
    assert split.train[0].dt == pytest.approx(0.001)
    assert split.train[0].outputs[3, 0] == 3000  # mm


def test_aircraft(tmp_path):
    for kind in ("FullMSine", "SineSw"):
        for level in range(1, 8):
            name = f"F16Data_{kind}_Level{level}{'' if level % 2 else '_Validation'}.mat"
            both = {"Force": count(60, level)[None], "Acceleration": np.stack([count(60, 10 * k) for k in range(3)])}
            savemat(tmp_path / name, both | {"Fs": [[400.0]], "Voltage": count(60)[None]})
    split = load_benchmark("f16", tmp_path)
    assert [s.inputs[0, 0] for s in split.train] == [1, 3, 5, 7] * 2
    assert [t.sequence.inputs[0, 0] for t in split.tests] == [2, 4, 6] * 2
    np.testing.assert_array_equal(split.train[0].outputs[0], [0, 10, 20])


def test_parallel_wiener_hammerstein(tmp_path):
    n, periods, realisations, amplitudes = 40, 2, 5, 3

    def cube(*shape: int) -> np.ndarray:
        """A number whose digits are row, period, realisation and amplitude."""
        weights = [1, 100, 1000, 10_000]
        return sum(w * i for w, i in zip(weights, np.indices(shape), strict=False))  # pyright: ignore

    est, val, arrow = cube(n, periods, realisations, amplitudes), cube(n, periods, 1, amplitudes), cube(n, periods)
    content = {"uEst": est, "yEst": est, "uVal": val, "yVal": val, "uValArr": arrow, "yValArr": arrow, "fs": [[78e3]]}
    savemat(tmp_path / "ParWHData.mat", content)
    split = load_benchmark("parallel-wh", tmp_path)
    assert len(split.train) == 4 * amplitudes
    np.testing.assert_array_equal(split.train[5].inputs[:, 0], 11_000 + np.concatenate([count(n), count(n, 100)]))
    assert [t.sequence.name for t in split.tests] == ["amplitude 1", "amplitude 2", "amplitude 3", "arrow"]
    np.testing.assert_array_equal(split.tests[2].sequence.inputs[:, 0], 20_000 + split.tests[3].sequence.inputs[:, 0])


def test_mirror(tmp_path):
    for level in (100, 200, 300):
        for part, realisations in (("train", 6), ("test", 3)):
            row, channel, realisation, period = np.indices((60, 3, realisations, 2))
            u = 1000.0 * level + row + 60 * period + 10_000_000 * realisation + 0.1 * channel
            np.save(tmp_path / f"u_{level}mV_{part}.npy", u)
            np.save(tmp_path / f"y_{level}mV_{part}.npy", -u)
    split = load_benchmark("mirror", tmp_path)
    assert (len(split.train), len(split.tests)) == (18, 9)
    second = split.tests[4].sequence
    assert second.name == "200 mV, realisation 2"
    np.testing.assert_allclose(second.inputs[:, 2], 10_200_000 + count(120) + 0.2)
    np.testing.assert_array_equal(second.outputs, -second.inputs)


def test_what_is_missing_or_foreign_is_said(tmp_path):
    with pytest.raises(DataError, match=r"no benchmark 'tnks'; known are tanks"):
        load_benchmark("tnks")
    with pytest.raises(DataError, match=r"tanks: cascaded_tanks\.csv is nowhere under .* point --data-root"):
        load_benchmark("tanks", tmp_path)
    (tmp_path / "cascaded_tanks.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="holds no 'uEst'; is it another set's file"):
        load_benchmark("tanks", tmp_path)
    (tmp_path / "ParWHData.mat").write_bytes(b"odd")
    with pytest.raises(DataError, match="cannot be read"):
        load_benchmark("parallel-wh", tmp_path)


@pytest.mark.parametrize("name", [name for name, entry in BENCHMARKS.items() if entry.loader])
def test_without_files_the_official_package_is_asked(name, tmp_path, monkeypatch, capsys):
    entry = BENCHMARKS[name]

    def load(**_: Any) -> Any:
        print("downloading")
        train = SimpleNamespace(u=count(80), y=count(80), sampling_time=0.5, name="a")
        window = {"state_initialization_window_length": 7}
        test = SimpleNamespace(u=count(80), y=count(80), sampling_time=0.5, name="b", **window)
        return (train,), (test,) * len(entry.tests)

    def fail(**_: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setenv("MRGPSSM_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nonlinear_benchmarks", SimpleNamespace(**{entry.loader: load}))
    split = load_benchmark(name)
    assert [(t.sequence.name, t.initialisation) for t in split.tests] == [(test, 7) for test in entry.tests]
    assert split.train[0].outputs[1, 0] == entry.scale
    assert not capsys.readouterr().out  # it belongs to whoever asked for JSON
    with pytest.raises(DataError, match="is nowhere under"):  # a folder was named
        load_benchmark(name, tmp_path)
    monkeypatch.setitem(sys.modules, "nonlinear_benchmarks", SimpleNamespace(**{entry.loader: fail}))
    with pytest.raises(DataError, match=r"could not get .* \(no network\); get its files by hand"):
        load_benchmark(name)
    monkeypatch.setitem(sys.modules, "nonlinear_benchmarks", None)
    with pytest.raises(DataError, match="is nowhere under"):
        load_benchmark(name)
