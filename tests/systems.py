"""Made-up systems that a default must master, one for each class that is hard in its own way.

Each is a function of a random generator and a number of rows, and gives an input and an output; `make` makes sequences.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.signal import butter, cheby1, lfilter

from mrgpssm import Sequence

_SUBSTEPS = 10
_NOISE = 0.01


def linear8(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A linear system of order eight: two lags and three resonances."""
    pairs = [radius * np.exp(1j * angle) for radius, angle in ((0.97, 0.2), (0.93, 0.6), (0.9, 1.2))]
    poles = np.concatenate([[0.95, 0.8], pairs, np.conj(pairs)])
    u = _coloured(rng, rows, 0.6)
    return u, _filter((np.append(0, np.poly([0.5, -0.3, 0.2])), np.poly(poles).real), u) / 900


def wiener_hammerstein6(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Two filters of order three with a saturation between them."""
    u = _coloured(rng, rows, 0.4)
    inner = np.tanh(1.2 * _filter(cheby1(3, 0.5, 0.2), u) + 0.2)
    return u, _filter(cheby1(3, 1, 0.15), inner) / 0.45


def resonance(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A mass on a hardening spring, with a damping of 0.01."""
    u, w, damping = _coloured(rng, rows, 0.5), 0.5, 0.01
    force = lambda x, v, u: w**2 * (u - x - 0.006 * x**3) - 2 * damping * w * v  # noqa: E731
    return u, _simulate(force, u, 1.0, 0.0)[:, 0] / 3


def friction(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The position of a mass under Coulomb friction, an integrator, which a controller keeps within bounds."""
    target, push = _hold(rng, rows, 50, 200), 0.3 * rng.standard_normal(rows)
    force = lambda x, v, u: u - 0.5 * v - 0.8 * np.tanh(v / 0.02)  # noqa: E731
    u, x, v, out = np.empty(rows), 0.0, 0.0, np.empty(rows)
    for t in range(rows):
        u[t], out[t] = np.clip(4 * (target[t] - x) - 2 * v + push[t], -4, 4), x
        x, v = _step(force, x, v, u[t], 0.1)
    return u, out


def dead_time(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A nonlinear lag behind a dead time of 50 rows."""
    u, y, x = _hold(rng, rows, 10, 60), np.empty(rows), 0.0
    for t in range(rows):
        late = u[t - 50] if t >= 50 else 0.0
        y[t], x = x, x + 0.1 * (np.tanh(1.5 * late) + 0.3 * late**2 - x)
    return u, y


def limit_cycle(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Van der Pol's oscillator, pushed."""
    u = _hold(rng, rows, 30, 120)
    force = lambda x, v, u: 1.5 * (1 - x**2) * v - x + 0.8 * u  # noqa: E731
    return u, _simulate(force, u, 0.15, 1.0)[:, 0]


SYSTEMS: dict[str, tuple[Callable[..., tuple[np.ndarray, np.ndarray]], float]] = {
    "linear8": (linear8, _NOISE),
    "wiener-hammerstein6": (wiener_hammerstein6, 0.002),
    "resonance": (resonance, _NOISE),
    "friction": (friction, _NOISE),
    "dead-time": (dead_time, _NOISE),
    "limit-cycle": (limit_cycle, _NOISE),
}


def make(name: str, seed: int, rows: int) -> Sequence:
    """A recording of one of the systems, with noise."""
    system, noise = SYSTEMS[name]
    rng = np.random.default_rng([seed, list(SYSTEMS).index(name)])
    u, y = system(rng, rows)
    return Sequence(u[:, None], (y + noise * rng.standard_normal(rows))[:, None], name=f"{name} {seed}")


def _coloured(rng: np.random.Generator, rows: int, cut: float) -> np.ndarray:
    """Low-pass noise of unit deviation."""
    u = _filter(butter(4, cut), rng.standard_normal(rows + 200))[200:]
    return u / np.sqrt(cut)


def _hold(rng: np.random.Generator, rows: int, least: int, most: int) -> np.ndarray:
    """Random levels, each held for a random number of rows."""
    lengths = rng.integers(least, most, rows // least + 1)
    return np.repeat(rng.uniform(-1.5, 1.5, len(lengths)), lengths)[:rows]


def _filter(design: Any, signal: np.ndarray) -> np.ndarray:
    numerator, denominator = design
    return np.asarray(lfilter(numerator, denominator, signal))


def _simulate(force: Callable, u: np.ndarray, dt: float, x: float) -> np.ndarray:
    """(T, 2) position and velocity from x and rest on."""
    v, out = 0.0, np.empty((len(u), 2))
    for t in range(len(u)):
        out[t] = x, v
        x, v = _step(force, x, v, u[t], dt)
    return out


def _step(force: Callable, x: float, v: float, u: float, dt: float) -> tuple[float, float]:
    h = dt / _SUBSTEPS
    for _ in range(_SUBSTEPS):
        v += h * force(x, v, u)
        x += h * v
    return x, v
