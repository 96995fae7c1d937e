"""Writes the golden model file of format 4 and what it predicts; kept to show how, not to be run again.

python tests/golden/make_v4.py
"""

import sys
from pathlib import Path

import numpy as np

from mrgpssm import MRGPSSM
from mrgpssm.spec import arrange

sys.path.insert(0, str(Path(__file__).parents[1]))
from recordings import recording

HERE = Path(__file__).parent


if __name__ == "__main__":
    model = MRGPSSM(
        (3, 1), **arrange(inducing=5, samples=3, windows=4, window=8, buffer=2, cycles=2, steps=10, restarts=3, ensemble=2,
        seed=7, precision="float64", filters=(2, 10), delays=(3, 7), static=40, folds=2, noise="student")).fit([recording(0), recording(1)], progress=False)  # fmt: skip
    model.save(HERE / "model-v4.mrgpssm")
    run = model.simulate(recording(2).inputs, samples=6, seed=3)
    np.savez(HERE / "model-v4-expected.npz", mean=run.mean, std=run.std, q05=run.quantile(0.05), bounds=model.bounds_)
