"""Writes the golden model file of format 1 and what it predicts; kept to show how, and to be run for a new format only.

python tests/golden/make.py
"""

import sys
from pathlib import Path

import numpy as np

from mrgpssm import MRGPSSM, Bands, Training

sys.path.insert(0, str(Path(__file__).parents[1]))
from recordings import recording

HERE = Path(__file__).parent
TRAINING = Training(samples=3, windows=4, window=8, buffer=2, cycles=2, steps=10, restarts=3, ensemble=2, seed=7)


if __name__ == "__main__":
    model = MRGPSSM(
        (3, 1),
        inducing=5,
        precision="float64",
        filters=(2, 10),
        delays=(3, 7),
        training=TRAINING,
        bands=Bands(folds=2, noise="student"),
    ).fit([recording(0), recording(1)], progress=False)
    model.save(HERE / "model-v1.mrgpssm")
    run = model.simulate(recording(2).inputs, samples=6, seed=3)
    np.savez(HERE / "model-v1-expected.npz", mean=run.mean, std=run.std, q05=run.quantile(0.05), bounds=model.bounds_)
