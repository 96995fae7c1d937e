"""Nonlinear, input-driven systems with known fast and slow components, in the spirit of the paper's F, M1, M2 and S.

Each set is the sum of two first-order nonlinear lags of the same two inputs, simulated with 20 sub-steps a sample:

    τ dx/dt = -x + g(u_1, u_2, x)

with τ about 1 s (fast) or 60 s (slow) at 10 Hz. F adds two fast ones, S two slow ones, M1 and M2 one of each.
"""

from dataclasses import dataclass

import numpy as np

from mrgpssm.data.sequence import Sequence

DT = 0.1
_SUBSTEPS = 20
_NOISE = 0.02  # deviation of the output noise relative to the output's
_TARGETS = {
    "fast1": lambda u, v, x: np.tanh(1.6 * u) - 0.5 * x * v**2,
    "fast2": lambda u, v, x: 0.9 * np.sin(1.8 * v) + 0.4 * u * np.cos(x),
    "slow1": lambda u, v, x: 1.5 * np.tanh(1.2 * v + 0.8 * u) + 0.2 * np.sin(2 * x),
    "slow2": lambda u, v, x: 1.2 * u * v + 0.6 * v - 0.5 * x**3 / (1 + x**2),
}
_TAU = {"fast1": 1.0, "fast2": 0.7, "slow1": 60.0, "slow2": 50.0}
_SPREAD = {"fast1": 0.56, "fast2": 0.63, "slow1": 0.54, "slow2": 0.31}  # brings each component near unit variance
SETS = {"F": ("fast1", "fast2"), "M1": ("slow1", "fast1"), "M2": ("slow2", "fast2"), "S": ("slow1", "slow2")}


@dataclass(frozen=True)
class TwoScales:
    """A sequence whose two additive components are known; `components` maps their names to (T, 1) arrays."""

    sequence: Sequence
    components: dict[str, np.ndarray]
    time_constants: dict[str, float]

    def split(self, row: int) -> tuple["TwoScales", "TwoScales"]:
        """The recording before a row, and from that row on."""
        return self._part(slice(None, row)), self._part(slice(row, None))

    def _part(self, rows: slice) -> "TwoScales":
        parts = {name: values[rows] for name, values in self.components.items()}
        return TwoScales(self.sequence.take(rows), parts, self.time_constants)


def two_scales(kind: str = "M1", *, seed: int, length: int = 20_000) -> TwoScales:
    """One of the sets F, M1, M2, S."""
    if kind not in SETS:
        raise ValueError(f"There is no synthetic set {kind!r}; choose one of {', '.join(SETS)}.")
    rng, inputs = _excite(seed, sorted(SETS).index(kind), 2, length)
    parts = {name: (_simulate(name, inputs) / _SPREAD[name])[:, None] for name in SETS[kind]}
    outputs = _measure(sum(parts.values(), start=np.zeros((length, 1))), rng)
    sequence = Sequence(inputs, outputs, DT, None, ("u1", "u2"), ("y",), {}, f"synthetic {kind}")
    return TwoScales(sequence, parts, {name: _TAU[name] for name in SETS[kind]})


def four_outputs(*, seed: int, length: int, names: tuple[str, ...]) -> Sequence:
    """Four outputs of the same two inputs, shaped like the engine's: particles mixed, two fast ones, a slow one."""
    rng, inputs = _excite(seed, len(SETS), 2, length)
    parts = {name: _simulate(name, inputs) / _SPREAD[name] for name in _TAU}
    clean = np.stack([parts["fast2"] + parts["slow2"], parts["fast1"], parts["fast2"], parts["slow1"]], axis=1)
    outputs = _measure(clean, rng)
    return Sequence(inputs, outputs, DT, None, ("u1", "u2"), names, {}, f"synthetic recording {seed}")


def engine_like(*, seed: int, length: int) -> Sequence:
    """A made-up engine in everyday units: NOx follows speed and load within one second, Temp within ten.

    Two more inputs, lambda and ignition, are recorded but have no effect.
    """
    rng, inputs = _excite(seed, len(SETS) + 1, 4, length)
    clean = np.stack([_simulate("fast2", inputs[:, :2]), _simulate("slow1", inputs[:, :2], tau=10.0)], axis=1)
    inputs = np.array([2400, 50, 1, 10]) + np.array([900, 25, 0.05, 8]) * inputs
    outputs = np.array([400, 600]) + np.array([150, 60]) * _measure(clean, rng)
    names = ("speed", "load", "lambda", "ignition"), ("NOx", "Temp")
    units = {"speed": "1/min", "load": "%", "ignition": "deg", "NOx": "ppm", "Temp": "K"}
    return Sequence(inputs, outputs, DT, None, *names, units, f"engine-like {seed}")


def _excite(seed: int, kind: int, columns: int, length: int) -> tuple[np.random.Generator, np.ndarray]:
    """The random numbers of one kind of set, and inputs (T, columns) drawn from them."""
    rng = np.random.default_rng([seed, kind])
    return rng, np.stack([_excitation(rng, length) for _ in range(columns)], axis=1)


def _measure(clean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return clean + _NOISE * clean.std(axis=0) * rng.standard_normal(clean.shape)


def _excitation(rng: np.random.Generator, length: int) -> np.ndarray:
    """Steps of random height that last 0.3 to 6 s, on levels that last 10 to 80 s, slightly smoothed."""
    signal, level = np.empty(length), 0.0
    start = next_level = 0
    while start < length:
        if start >= next_level:
            level = rng.uniform(-1, 1)
            next_level = start + int(rng.uniform(100, 800))
        stop = start + int(np.exp(rng.uniform(np.log(3), np.log(60))))
        signal[start:stop] = level + rng.uniform(-0.8, 0.8)
        start = stop
    width = np.hanning(7)[1:-1]
    return np.convolve(np.pad(signal, 2, mode="edge"), width / width.sum(), mode="valid")


def _simulate(name: str, inputs: np.ndarray, tau: float | None = None) -> np.ndarray:
    target = _TARGETS[name]
    h = DT / _SUBSTEPS / (tau or _TAU[name])
    x, states = 0.0, np.empty(len(inputs))
    for t, (u, v) in enumerate(inputs):
        states[t] = x
        for _ in range(_SUBSTEPS):
            x += h * (-x + target(u, v, x))
    return states
