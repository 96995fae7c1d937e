"""From samples of the components to measurements: the one way of outputs, for prediction, calibration and runtime.

In scaled units, at every row of a free run:

    outputs      x = Σ_l C x^(l)
    calibrate    x ← m + τ (x - m),   σ ← τ σ,   m the mean over the samples
    noise law    y ~ (1/S) Σ_s N(x_s, σ_s²), or Student's t around m where a law was learned (`mrgpssm.runtime.noise`)
    stretch      y ← m + w (y - m),   w >= 1 in new territory (`mrgpssm.runtime.territory`), and less just after a
                 warm-up (`mrgpssm.runtime.horizon`)

Quantiles and densities are in closed form. Draws of y are a function of seed, row, output and sample alone. Those of
`draws` are independent from row to row; trajectories, which are not, follow `mrgpssm.runtime.paths`.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mrgpssm.runtime.distributions.counters import fold_in, normal, seed_key, uniform_pair
from mrgpssm.runtime.distributions.mixture import mixture_nll, mixture_quantiles
from mrgpssm.runtime.distributions.normal import normal_cdf, normal_quantile
from mrgpssm.runtime.distributions.student import student_cdf, student_draws, student_nll, student_of_normal
from mrgpssm.runtime.horizon import Horizon, Recent
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.paths import PathLaw, PathNoise, rank_scores
from mrgpssm.runtime.territory import Territory

LEVELS = (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975)
_OBSERVATION = 3  # the stream of keys; those of `mrgpssm.prediction.run` come before it
_OUTERMOST = 1e-9  # levels count as at least this far from 0 and 1


def add_up(parts: list[np.ndarray]) -> np.ndarray:
    """(S, C, D_y): their sum."""
    return functools.reduce(np.add, parts)


def join_samples(emitted: np.ndarray, groups: int) -> np.ndarray:
    """(rounds S, C, D_y) from the samples of all rounds and groups of outputs, (rounds groups, S, C, D_g)."""
    return np.concatenate([np.concatenate(emitted[g::groups]) for g in range(groups)], axis=-1)


@dataclass(frozen=True)
class OutputLaw:
    """How measurements follow from samples of the outputs.

    `calibration` τ is (D_y,), and `noise_sd` (rounds, D_y) is that of every model of the ensemble: the samples of the
    first model come first. `paths` says how the rows and outputs of a trajectory depend on each other, `territory` what
    training has seen, and `horizon` what a warm-up tells, where that is known.
    """

    calibration: np.ndarray
    noise_sd: np.ndarray
    noise: StudentNoise | None
    paths: PathLaw
    territory: Territory | None = None
    horizon: Horizon | None = None

    def measure(self, outputs: np.ndarray, drive: np.ndarray, recent: Recent | None = None) -> "Measurements":
        """What is known of measurements at C rows, from samples (S, C, D_y) and the drive (C, D_u) known there.

        `recent` is what was measured before these rows, where something was.
        """
        outputs = outputs.astype(float)
        mean, each = outputs.mean(axis=0), -(-len(outputs) // len(self.noise_sd))
        noise_sd = self.calibration * np.repeat(self.noise_sd, each, axis=0)[: len(outputs)]
        samples = mean + self.calibration * (outputs - mean) if np.any(self.calibration != 1) else outputs
        std = np.sqrt(samples.var(axis=0) + np.mean(noise_sd**2, axis=0))
        alarm, stretch = np.zeros(len(mean)), np.ones_like(mean)
        if self.territory is not None:
            alarm = self.territory.alarm(mean, drive)
            stretch = self.territory.stretch(alarm)
        if self.horizon is not None and recent is not None:
            stretch = stretch * self.horizon.narrow(recent)
        if self.noise is None:
            return Measurements(samples, noise_sd, stretch * std, alarm=alarm, stretch=stretch)
        scale = self.noise.scale(mean, std, drive)
        deviation = stretch * self.noise.deviation(scale)
        return Measurements(samples, noise_sd, deviation, self.noise, scale, alarm, stretch)


@dataclass(frozen=True)
class Measurements:
    """Measurements at C rows: `samples` (S, C, D_y) are without noise, whose deviations are `noise_sd` (S, D_y).

    `std` (C, D_y) is the deviation of a measurement, `alarm` (C,) says how new the territory is, and `stretch` (C, D_y)
    is what deviations were multiplied by there or just after a warm-up. Where `noise` was learned, `scale` (C, D_y) is
    its s.
    """

    samples: np.ndarray
    noise_sd: np.ndarray
    std: np.ndarray
    noise: StudentNoise | None = None
    scale: np.ndarray | None = None
    alarm: np.ndarray = field(default_factory=lambda: np.zeros(1))
    stretch: np.ndarray = field(default_factory=lambda: np.ones((1, 1)))

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """(C, D_y)."""
        return self.samples.mean(axis=0)

    def quantiles(self, levels: Iterable[float]) -> np.ndarray:
        """(L, C, D_y)."""
        levels = list(levels)
        if not levels:
            return np.empty((0, *self.std.shape))
        if self.noise is None or self.scale is None:
            found = mixture_quantiles(self.samples, self.noise_sd, np.array(list(levels), float))
        else:
            found = np.stack([self.mean + self.scale * self.noise.quantile(level) for level in levels])
        return self._widen(found)

    def nll(self, measured: np.ndarray) -> np.ndarray:
        """-log density of measurements (C, D_y), NaN where there is none."""
        measured, change = self.narrow(measured), np.log(self.stretch)
        if self.noise is None or self.scale is None:
            return mixture_nll(measured, self.samples, self.noise_sd[:, None]) + change
        return student_nll(measured - self.mean, self.scale, self.noise.dof) + change

    def _widen(self, values: np.ndarray) -> np.ndarray:
        """Deviations from the mean, stretched."""
        return np.where(self.stretch == 1, values, self.mean + self.stretch * (values - self.mean))

    def narrow(self, values: np.ndarray) -> np.ndarray:
        """The same undone: where measurements would lie if nothing were stretched."""
        return np.where(self.stretch == 1, values, self.mean + (values - self.mean) / self.stretch)

    def scores(self, measured: np.ndarray) -> np.ndarray:
        """Φ⁻¹(F(y)) of measurements (C, D_y), NaN where there is none: standard normal if the law is right."""
        measured = self.narrow(measured)
        if self.noise is None or self.scale is None:
            level = normal_cdf((measured - self.samples) / self.noise_sd[:, None])[0].mean(axis=0)
        else:
            level = student_cdf((measured - self.mean) / self.scale, self.noise.dof)
        return normal_quantile(2 * np.clip(level, _OUTERMOST, 1 - _OUTERMOST) - 1)

    def follow(self, e: np.ndarray, own: np.ndarray) -> np.ndarray:
        """(S, C, D_y) trajectories of measurements from the noise e of `PathNoise`, and `own` (D_y,) of its law."""
        if self.noise is None or self.scale is None:
            return self._widen(self.samples + self.noise_sd[:, None] * e)
        g = np.sqrt(own) * rank_scores(self.samples) + np.sqrt(1 - own) * e
        return self._widen(self.mean + self.scale * student_of_normal(g, self.noise.dof))

    def draws(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """(S, C, D_y) measurements, given the numbers of the C rows in their sequence."""
        root = fold_in(seed_key(seed, wide=True), _OBSERVATION)
        row = fold_in(root, rows)
        key = fold_in((row[0][:, None], row[1][:, None]), np.arange(self.std.shape[1]))
        count = len(self.samples)
        if self.noise is None or self.scale is None:
            epsilon = normal(key, (count,), "float64").transpose(2, 0, 1)
            return self._widen(self.samples + self.noise_sd[:, None] * epsilon)
        uniform = uniform_pair(key, count)
        t = student_draws(uniform, self.noise.dof[:, None]).transpose(2, 0, 1)
        return self._widen(self.mean + self.scale * t)


@dataclass(frozen=True)
class Simulation:
    """Mean, deviation and quantiles (T, D_y) in the data's units; where kept, trajectories of measurements (S, T, D_y).

    `alarm` (T,) says how new the territory is: above 1 it rings. Rows are filled in their order, since errors last from
    row to row.
    """

    mean: np.ndarray
    std: np.ndarray
    quantiles: dict[float, np.ndarray]
    alarm: np.ndarray
    samples: np.ndarray | None = None
    noise: PathNoise | None = None

    @classmethod
    def blank(cls, shape: tuple[int, int], levels: Iterable[float], noise: PathNoise | None) -> "Simulation":
        """Room for T rows of D_y outputs, quantiles of some levels, and trajectories, where their noise is given."""
        quantiles = {float(level): np.empty(shape) for level in levels}
        kept = None if noise is None else np.empty((noise.samples, *shape))
        return cls(np.empty(shape), np.empty(shape), quantiles, np.empty(shape[0]), kept, noise)

    def put(
        self, rows: np.ndarray, clock: np.ndarray, found: Measurements, offset: np.ndarray, scale: np.ndarray
    ) -> None:
        """Fill the next rows, at these times in samples, from scaled to the data's units."""
        self.mean[rows], self.std[rows], self.alarm[rows] = offset + scale * found.mean, scale * found.std, found.alarm
        for level, values in zip(self.quantiles, found.quantiles(self.quantiles), strict=True):
            self.quantiles[level][rows] = offset + scale * values
        if self.samples is not None and self.noise is not None:
            paths = found.follow(self.noise.follow(rows, clock), self.noise.law.own)
            self.samples[:, rows] = offset + scale * paths
