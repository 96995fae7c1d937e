"""Simulations in NumPy: free runs whose samples become measurements, and noiseless runs."""

from typing import TYPE_CHECKING

import numpy as np

from mrgpssm.runtime.output import Simulation
from mrgpssm.runtime.walk import Course, RunState

if TYPE_CHECKING:
    from mrgpssm.runtime.model import RuntimeModel

_CHUNK = 200_000


def mean_run(model: "RuntimeModel", course: Course) -> np.ndarray:
    """The noiseless run, averaged over the ensemble, in the data's units."""
    mean = RunState.at_mean(model).walk(course).mean(axis=0)
    return model.output_mean + model.output_sd * mean


def sample_run(
    model: "RuntimeModel", course: Course, samples: int, seed: int, levels: tuple[float, ...], keep: bool
) -> Simulation:
    """Mean, deviation, quantiles and, where kept, samples of a free run, chunk by chunk."""
    scaled = course.drives[course.rows]
    run = Simulation.blank((len(scaled), len(model.output_names)), levels, samples if keep else 0)
    particles, done = RunState.draw(model, samples, seed), 0
    count = max(100, _CHUNK // (len(model.groups) * samples))
    for first in range(0, len(course.drives), count):
        outputs = particles.walk(course.part(first, first + count))[:samples]
        rows = slice(done, done + outputs.shape[1])
        if outputs.shape[1]:
            found = model.output_law.measure(outputs, scaled[rows])
            run.put(rows, found, model.output_mean, model.output_sd)
        done = rows.stop
    return run
