"""Into other tools: xarray groups, benchmark protocol, callbacks; what is not installed is skipped, visibly."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recordings import recording

from mrgpssm import MRGPSSM, ConfigError, Forecast
from mrgpssm.data.classic import from_benchmark
from mrgpssm.errors import need
from mrgpssm.interop import benchmark
from mrgpssm.interop.callbacks import MLflow, TensorBoard, scalars
from mrgpssm.training import Progress
from mrgpssm.training.progress import tell_all

pytestmark = pytest.mark.once
REPORT = Progress(1, 2, 25, np.array([-7.0, np.nan, -3.0]), np.array([1.0, 2, 3]), np.array([0.5, 0.6, 0.4]),
                  np.array([0, 2, 1]), 50, 100)  # fmt: skip


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"A test needs no_such_package; install mrgpssm\[interop\]\."):
        need("no_such_package.deep", "A test needs no_such_package", "interop")


def test_forecasts_have_arviz_groups():
    pytest.importorskip("xarray", reason="xarray is not installed (extra interop)")
    run = Forecast(
        np.arange(3.0), np.zeros((3, 2)), np.ones((3, 2)), {0.5: np.zeros((3, 2))}, {"slow": np.ones((3, 2))},
        np.zeros(2), ("a", "b"), {"a": "K"}, np.arange(24.0).reshape(4, 3, 2),
    )  # fmt: skip
    tree = run.to_xarray(measured=np.full((3, 2), 7.0))
    assert set(tree.children) == {"predictions", "observed_data"}
    assert tree["predictions"]["outputs"].dims == ("chain", "draw", "time", "output")
    assert float(tree["predictions"]["outputs"].sel(output="b").isel(chain=0, draw=1, time=2)) == 11.0
    assert float(tree["observed_data"]["outputs"].sel(output="a").mean()) == 7.0
    assert set(run.to_xarray().children) == {"predictions"}


def test_what_is_logged_is_the_best_member_under_its_component():
    assert scalars(REPORT) == {
        "component_2/bound": -3.0, "component_2/kl": 3.0, "component_2/rmse": 0.4, "component_2/skipped": 3.0,
        "cycle": 3.0,
    }  # fmt: skip


def test_callbacks_are_told_in_order():
    seen: list[tuple[str, int]] = []
    tell_all(lambda p: seen.append(("a", p.done)), lambda p: seen.append(("b", p.done)))(REPORT)
    assert seen == [("a", 50), ("b", 50)]


def test_tensorboard_gets_scalars_and_is_closed():
    seen, closed = [], []
    writer = SimpleNamespace(add_scalar=lambda *a: seen.append(a), close=lambda: closed.append(True))
    with TensorBoard("unused", writer) as board:
        board(REPORT)
    assert ("component_2/rmse", 0.4, 50) in seen
    assert closed == [True]


def test_tensorboard_writes_an_event_file(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed (extra tracking)")
    with TensorBoard(tmp_path) as board:
        board(REPORT)
    assert any("tfevents" in path.name for path in Path(tmp_path).iterdir())


def test_mlflow_logs_to_a_run_of_its_own(monkeypatch):
    calls: list[tuple] = []

    def note(name):
        return lambda *a, **k: calls.append((name, a, k))

    fake = SimpleNamespace(active_run=lambda: None, **{n: note(n) for n in ("start_run", "end_run", "log_params",
                                                                            "log_metrics")})  # fmt: skip
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    with MLflow("night", {"resolutions": (30, 1)}) as board:
        board(REPORT)
    assert [c[0] for c in calls] == ["start_run", "log_params", "log_metrics", "end_run"]
    assert calls[1][1] == ({"resolutions": "(30, 1)"},)
    assert calls[2][2] == {"step": 50}


def recorded(seed: int, window: int | None = 20, name: str = "lag") -> Any:
    s = recording(seed)
    return SimpleNamespace(u=s.inputs, y=s.outputs[:, 0], sampling_time=0.1, name=name,
                           state_initialization_window_length=window)  # fmt: skip


class Ready(MRGPSSM):
    """A model that needs no training: the last measured output of the warm-up, plus a tenth of the first input."""

    def fit(self, sequences, *_, **__):
        self.trained = list(sequences)
        return self

    def simulate(self, inputs, warmup=None, **_):  # pyright: ignore[reportIncompatibleMethodOverride]
        start = 0.0 if warmup is None else warmup[1][-1, 0]
        return SimpleNamespace(mean=start + 0.1 * inputs[:, :1])


def test_the_benchmark_protocol_uses_the_first_outputs_alone_and_scores_the_rest():
    test = recorded(1)
    result = benchmark.run_benchmark((recorded(0), [test, recorded(2)]), Ready(), samples=5)
    assert set(result.simulations) == {"lag 1", "lag 2"}
    found = result.simulations["lag 1"]
    np.testing.assert_array_equal(found[:20, 0], test.y[:20])
    error = np.sqrt(np.mean((test.y[20:] - found[20:, 0]) ** 2))
    assert result.rmse["lag 1"] == pytest.approx(error, rel=1e-9)
    changed = recorded(1)
    changed.y = np.where(np.arange(len(changed.y)) < 20, changed.y, 0.0)  # what follows the window is not looked at
    again = benchmark.simulate(result.model, from_benchmark(changed), 5, 0)
    np.testing.assert_array_equal(again, found)


def test_benchmarks_are_found_by_name_and_scored_in_their_unit(monkeypatch):
    def silverbox(atleast_2d, always_return_tuples_of_datasets):
        assert atleast_2d
        assert always_return_tuples_of_datasets
        return (recorded(0),), (recorded(1, name="multisine"),)

    monkeypatch.setitem(sys.modules, "nonlinear_benchmarks", SimpleNamespace(Silverbox=silverbox))
    milli = benchmark.run_benchmark("Silverbox", Ready(), samples=5)
    plain = benchmark.run_benchmark((recorded(0), recorded(1, name="multisine")), Ready(), samples=5)
    assert milli.unit == "mV"
    assert milli.rmse["multisine"] == pytest.approx(1000 * float(plain.rmse["multisine"]))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="no benchmark 'Gold' here; choose one of Cascaded_Tanks, CED, Silverbox"):
        benchmark.run_benchmark("Gold", Ready())
    with pytest.raises(ConfigError, match="a pair"):
        benchmark.run_benchmark([1, 2, 3], Ready())


def test_names_and_units_are_those_of_the_package():
    package = pytest.importorskip("nonlinear_benchmarks", reason="nonlinear_benchmarks is not installed")
    assert all(callable(getattr(package, name)) for name in benchmark.UNITS)
