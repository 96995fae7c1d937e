"""Models that nobody trained, with parameters off their starting values: quick, and as good as any for comparisons."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from mrgpssm import MRGPSSM
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling
from mrgpssm.estimator.noise import Runs, fit_law
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.provenance import Provenance
from mrgpssm.spec import arrange
from mrgpssm.training.members import init_model


def untrained(outputs: tuple[str, ...] = ("NOx", "Temp"), rounds: int = 1, seed: int = 0, **given: Any) -> MRGPSSM:
    """Inputs speed and load, as in `recordings`."""
    sizes: dict[str, Any] = {"inducing": 6, "restarts": rounds, "ensemble": rounds}
    model = MRGPSSM(**arrange(**(sizes | given)))
    options, rng = model.spec.complete(), np.random.default_rng(seed)
    groups, inputs = options.structure.groups(len(outputs)), ("speed", "load")
    drives = len(options.structure.drive.names(inputs))

    def moved(leaf):
        return leaf + (0.1 * rng.standard_normal(leaf.shape)).astype(leaf.dtype)

    with floating_point(options.structure.precision):
        ensemble = tuple(
            tuple(
                jax.tree.map(moved, init_model(options.structure, drives, len(g), jax.random.key(10 * n + i)))
                for i, g in enumerate(groups)
            )
            for n in range(rounds)
        )
    many = len(outputs)
    scaling = Scaling(np.zeros(drives), np.full(drives, 6.0), np.full(many, 5.0), np.full(many, 1.2))
    blank = np.zeros((len(groups), rounds))
    calibration = np.linspace(0.8, 1.3, many)
    made = Provenance(options.training, options.bands, blank, blank.astype(int))
    model.fitted_ = FittedModel(
        options.structure, ensemble, scaling, inputs, outputs, {"Temp": "K"}, 0.1, calibration, made
    )
    if options.bands.noise == "student":
        mean, deviation, drive = (rng.standard_normal((200, n)) for n in (many, many, drives))
        measured = mean + rng.standard_t(4.0, mean.shape)
        noise = fit_law(Runs(measured, mean, np.abs(deviation), drive, np.arange(200) // 100))
        model.fitted_ = replace(model.fitted_, noise=noise)
    model.history_ = ()
    return model


CASES = {
    "paper": {"resolutions": (3, 1), "preset": "paper", "joint": True, "precision": "float64"},
    "float32": {"resolutions": (30, 1), "rounds": 2, "inducing": 20},
    "filters": {"resolutions": (3, 1), "filters": (2, 15), "precision": "float64"},
    "delays": {"resolutions": (3, 1), "filters": (4,), "delays": (9, 2), "precision": "float64"},
    "integrators": {"resolutions": (3, 1), "latent_dim": 3, "integrators": 2, "emission": "linear", "precision": "float64"},
    "joint": {"resolutions": (3, 1), "filters": (4,), "precision": "float64", "joint": True},
    "noise": {"resolutions": (3, 1), "delays": (5,), "noise": "student", "folds": 2, "precision": "float64", "rounds": 2},
}  # fmt: skip
