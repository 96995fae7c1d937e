"""The sktime forecaster: sktime's own checks, and forecasts with inputs and intervals."""

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # sktime warns of its own future
sktime = pytest.importorskip("sktime", reason="sktime is not installed (extra interop)")


def test_it_passes_the_checks_of_sktime():
    from sktime.utils.estimator_checks import check_estimator  # pyright: ignore[reportMissingImports]

    from mrgpssm.interop.forecaster import MRGPSSMForecaster

    results = check_estimator(MRGPSSMForecaster, raise_exceptions=False, verbose=False)
    assert {name: result for name, result in results.items() if result != "PASSED"} == {}


def test_inputs_drive_forecasts_and_intervals_hold_the_mean():
    from mrgpssm.interop.forecaster import MRGPSSMForecaster

    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(-1, 1, 30), 8)
    x = np.zeros(240)
    for t in range(1, 240):
        x[t] = x[t - 1] + 0.3 * (u[t - 1] - x[t - 1])
    y, X = pd.Series(x + 0.01 * rng.standard_normal(240)), pd.DataFrame({"u": u})
    options = {"inducing": 10, "cycles": 3, "steps": 100, "window": 20, "buffer": 5, "windows": 10, "samples": 5}
    forecaster = MRGPSSMForecaster((1,), options).fit(y[:200], X=X[:200])
    horizon = np.arange(1, 41)
    found = forecaster.predict(fh=horizon, X=X[200:])
    bands = forecaster.predict_interval(fh=horizon, X=X[200:], coverage=0.9)
    assert np.sqrt(np.mean((found.to_numpy().ravel() - x[200:]) ** 2)) < 0.5 * np.std(x[200:])
    low, high = bands.to_numpy().T
    assert (low < found.to_numpy().ravel()).all()
    assert (high > found.to_numpy().ravel()).all()
    other = forecaster.predict(fh=horizon, X=-X[200:])
    assert np.abs(other.to_numpy() - found.to_numpy()).max() > 0.1
