"""Promise 3, second half: how often bands cover after fitting. Reported, not promised.

Every fit learns a two-scale system from a recording of its own, calibrates on a second one and is scored on a third.
"""

from typing import Any

import numpy as np
from account import Config, Outcome, keep

from mrgpssm import MRGPSSM
from mrgpssm.data.synthetic import two_scales
from mrgpssm.spec import arrange

OPTIONS: dict[str, Any] = {"inducing": 20, "samples": 10, "windows": 10, "window": 40, "cycles": 8, "steps": 50}
LEVELS = ("coverage_50", "coverage_90", "coverage_95")


def measure(config: Config) -> Outcome:
    """Shares covered on the test recording, before and after calibration, over all fits."""
    raw, calibrated, errors = [], [], []
    for seed in range(config["fits"]):
        parts = [two_scales("M1", seed=1000 * k + seed, length=config["rows"]).sequence for k in (1, 2, 3)]
        train, held_out, test = parts
        plain = MRGPSSM((30, 1), **arrange(**OPTIONS, calibrate=False, seed=seed)).fit(train, progress=False)
        model = MRGPSSM((30, 1), **arrange(**OPTIONS, seed=seed)).fit(train, validation=held_out, progress=False)
        scores = [m.score(test, samples=100).iloc[0] for m in (plain, model)]
        raw.append([float(scores[0][level]) for level in LEVELS])
        calibrated.append([float(scores[1][level]) for level in LEVELS])
        errors.append(float(scores[0]["nrmse"]))
        if seed % 10 == 9:
            print(seed + 1, np.round(np.mean(raw, 0), 3), np.round(np.mean(calibrated, 0), 3), flush=True)
    figures = [" / ".join(f"{100 * share:.1f}" for share in np.mean(rows, axis=0)) for rows in (raw, calibrated)]
    figure = f"mean of {config['fits']} fits at 50 / 90 / 95 %: {figures[0]} as fitted, {figures[1]} after calibration"
    spread = {"raw": raw, "calibrated": calibrated, "nrmse": errors}
    return Outcome(figure, True, "", spread)


if __name__ == "__main__":
    keep(measure, {"fits": 100, "rows": 3000, "options": OPTIONS}, {"fits": 3})
