"""Promise 8, second half: many fits in one process neither grow its memory nor compile anything again."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from account import Config, Outcome, keep
from recordings import recording

from mrgpssm import MRGPSSM
from mrgpssm.spec import arrange

PAGE = os.sysconf("SC_PAGE_SIZE")
OPTIONS: dict[str, Any] = {
    "inducing": 6,
    "samples": 3,
    "windows": 4,
    "window": 10,
    "buffer": 2,
    "cycles": 2,
    "steps": 10,
}


def resident() -> int:
    """Bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def slope(fits: np.ndarray, held: np.ndarray) -> float:
    """The growth per fit as the median slope of all pairs (Theil and Sen): single jumps count little."""
    i, j = np.triu_indices(len(fits), 1)
    return float(np.median((held[j] - held[i]) / (fits[j] - fits[i])))


def measure(config: Config) -> Outcome:
    """Fit and simulate again and again, every time another seed and other data of the same shape."""
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs
        if event.endswith("backend_compile_duration"):
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    held, programs = [], []
    for index in range(config["fits"]):
        data = [recording(2 * index), recording(2 * index + 1)]
        model = MRGPSSM((3, 1), **arrange(**OPTIONS, seed=index)).fit(data, progress=False)
        model.simulate(data[0].inputs, samples=5, seed=index)
        held.append(resident())
        programs.append(len(compiled))
        if index % 50 == 49:
            print(index + 1, f"{held[-1] / 1e6:.1f} MB, {programs[-1]} programs", flush=True)
    settled = config["settle"]
    numbers = np.arange(settled, config["fits"])
    growth = slope(numbers, np.array(held[settled:], float))
    straight = float(np.polyfit(numbers, held[settled:], 1)[0])
    later = programs[-1] - programs[0]
    figure = f"{growth / 1e3:.1f} KB a fit over {config['fits']} fits, {later} programs compiled after the first fit"
    met = growth < 100e3 and straight < 100e3 and later == 0
    found = {"bytes": held[::10], "least_squares": straight, "theil_sen": growth, "programs": programs[::10]}
    return Outcome(figure, met, "" if met else f"least squares says {straight / 1e3:.1f} KB a fit", found)


if __name__ == "__main__":
    keep(measure, {"fits": 300, "settle": 30}, {"fits": 60})
