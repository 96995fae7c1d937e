"""The walk of every free run in NumPy, on the noise that the JAX path draws.

States are (N, L, d, S): N models, L components, d latent dimensions, S samples. With α = whitenerᵀ v the drift of the
GP is one product, a(z)ᵀ v = k(z)ᵀ α.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrgpssm.runtime.arrays import Arrays
from mrgpssm.runtime.distributions.counters import Words, fold_in, normal, seed_key
from mrgpssm.runtime.output import join_samples

if TYPE_CHECKING:
    from mrgpssm.runtime.model import RuntimeModel

_START, _PROCESS, _STEP, _ROUND = 0, 1, 12, 1000  # streams of `mrgpssm.prediction.run`, `rollout.base` and `predict`
_AHEAD = 64  # steps whose noise is drawn at once


@dataclass(frozen=True)
class Course:
    """What a run walks over, in steps of at most one sample: gaps are filled, with the input held.

    `drives` (T', D) of the steps are scaled, `steps` (T',) are their lengths in samples, `rows` (T,) are the places of
    the rows that were given, and `known` (T, D), scaled, is what is known of the inputs there.
    """

    drives: np.ndarray
    steps: np.ndarray
    rows: np.ndarray
    known: np.ndarray

    @property
    def clock(self) -> np.ndarray:
        """Samples from the first row to every row, (T,)."""
        return (np.cumsum(self.steps) - self.steps)[self.rows]

    def part(self, first: int, last: int) -> "Course":
        """Steps first, ..., last - 1."""
        own = slice(*np.searchsorted(self.rows, [first, last]))
        return Course(self.drives[first:last], self.steps[first:last], self.rows[own] - first, self.known[own])


class Walker:
    """Takes states from row to row; everything that depends on the model and on v alone is made once."""

    def __init__(self, arrays: Arrays, step_sizes: np.ndarray, v: np.ndarray):
        """`v` is (N, L, d, S, m)."""
        d, states = arrays.A.shape[-1], arrays.A.shape[-1] * arrays.drivers.shape[1]
        last = arrays.inducing.shape[-1] - states  # of the inputs; states of slower components follow
        self.arrays, self.h = arrays, step_sizes[None, :, None, None]
        self.alpha = np.einsum("nldij,nldsi->nldsj", arrays.whitener, v)
        self.turned = np.ascontiguousarray(arrays.whitener.swapaxes(-1, -2))
        columns = [*range(d), *range(last, last + states)]
        self.centres = [np.ascontiguousarray(arrays.inducing[:, :, :, None, :, i]) for i in columns]
        self.relevance = [arrays.relevance[:, :, None, None, None, i] for i in columns]
        self.input_centres = arrays.inducing[..., d:last]
        self.input_relevance = arrays.relevance[:, :, None, None, d:last]
        self.B, self.A = arrays.B[..., : last - d], np.concatenate([arrays.A, arrays.B[..., last - d :]], axis=-1)

    def gather_states(self, x: np.ndarray) -> np.ndarray:
        """Every component's own state and, in a cascade, those that drive it, (N, L, d + K d, S)."""
        drivers = self.arrays.drivers
        if not drivers.size:
            return x
        others = x[:, drivers]  # (N, L, K, d, S)
        return np.concatenate([x, others.reshape(*others.shape[:2], -1, others.shape[-1])], axis=2)

    def covariances(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """ρ(r²) between z = [x, u] and every inducing input, (N, L, d, S, m), from what `gather_states` gives."""
        apart = np.sum(self.input_relevance * (self.input_centres - u) ** 2, axis=-1)[:, :, :, None, :]
        for i, (centre, relevance) in enumerate(zip(self.centres, self.relevance, strict=True)):
            apart = apart + relevance * (centre - x[:, :, None, i, :, None]) ** 2
        return self.arrays.correlation(apart)

    def drift(self, x: np.ndarray, u: np.ndarray, k: np.ndarray) -> np.ndarray:
        """A x + B u + b + a(z)ᵀ v, from what `gather_states` gives."""
        forced = self.B @ u + self.arrays.b
        return self.A @ x + forced[..., None] + np.einsum("nldsm,nldsm->nlds", k, self.alpha)

    def mean_step(self, x: np.ndarray, u: np.ndarray, samples: float) -> np.ndarray:
        """x + h (A x + B u + b + a(z)ᵀ v) over so many samples, at most one."""
        all_states = self.gather_states(x)
        return x + samples * self.h * self.drift(all_states, u, self.covariances(all_states, u))

    def step(self, x: np.ndarray, u: np.ndarray, samples: float, noise: np.ndarray) -> np.ndarray:
        """The mean step plus √(h² Σ(z) + h Q) ε, Σ(z) = k̃ - aᵀa."""
        all_states, h = self.gather_states(x), samples * self.h
        k = self.covariances(all_states, u)
        weights = k @ self.turned
        variance = np.maximum(self.arrays.variance[..., None] - np.einsum("...m,...m->...", weights, weights), 0.0)
        spread = np.sqrt(h**2 * variance + h * self.arrays.Q[..., None])
        return x + h * self.drift(all_states, u, k) + spread * noise


class Randomness:
    """All noise of a run: of the first states, of v, and of every step, by the keys of the JAX path."""

    def __init__(self, model: "RuntimeModel", samples: int, seed: int):
        self.precision, self.each = model.precision, samples
        root, groups = seed_key(seed, model.precision == "float64"), range(len(model.groups))
        bases = [_model_key(root, number, g) for number in range(model.rounds) for g in groups]
        self.shape = (len(bases), *model.arrays.mean.shape[1:3])
        parts = np.arange(self.shape[1])
        keys = [fold_in(fold_in(base, _START), parts) for base in bases]
        self.starts = _stack([fold_in(key, 0) for key in keys])
        self.inducing = _stack([fold_in(key, 1) for key in keys])
        self.steps = _stack([fold_in(fold_in(fold_in(base, _PROCESS), parts), _STEP) for base in bases])

    def first(self, inducing: int) -> tuple[np.ndarray, np.ndarray]:
        """ε of x_0, (N, L, S, d), and of v, (N, L, S, d, m)."""
        d = self.shape[2]
        initial = normal(self.starts, (self.each, d), self.precision)
        return initial, normal(self.inducing, (self.each, d, inducing), self.precision)

    def process(self, first: int, count: int) -> np.ndarray:
        """ε of steps first, ..., first + count - 1, (count, N, L, d, S)."""
        rows = np.arange(first, first + count).reshape(-1, 1, 1)
        noise = normal(fold_in(self.steps, rows), (self.each, self.shape[2]), self.precision)
        return np.ascontiguousarray(noise.swapaxes(-1, -2))


def _model_key(root: Words, number: int, group: int) -> Words:
    key = fold_in(root, group)
    return key if number == 0 else fold_in(key, _ROUND + number)


def _stack(keys: list[Words]) -> Words:
    return np.stack([k[0] for k in keys]), np.stack([k[1] for k in keys])


class RunState:
    """All samples of all models of a run: their `states` (N, L, d, S), and the number `row` of the next step."""

    def __init__(self, model: "RuntimeModel", states: np.ndarray, v: np.ndarray, randomness: Randomness | None = None):
        self.model, self.states, self.row = model, states, 0
        self.walker, self._randomness = Walker(model.arrays, model.step_sizes, v), randomness
        self._drawn, self._noise = 0, np.empty((0,))

    @classmethod
    def draw(cls, model: "RuntimeModel", samples: int, seed: int, anywhere: bool = False) -> "RunState":
        """x_0 ~ q(x_0), or p(x_0) if it is `anywhere`, and v ~ q(v); every model of the ensemble has its share."""
        arrays, randomness = model.arrays, Randomness(model, -(-samples // model.rounds), seed)
        epsilon, inducing = randomness.first(arrays.mean.shape[-1])
        start = (model.prior_mean, model.prior_factor) if anywhere else (model.initial_mean, model.initial_factor)
        states = start[0][..., None] + start[1] @ epsilon.swapaxes(-1, -2)
        v = arrays.mean[:, :, :, None] + np.einsum("nldij,nlsdj->nldsi", arrays.factor, inducing)
        return cls(model, states, v, randomness)

    @classmethod
    def at_mean(cls, model: "RuntimeModel") -> "RunState":
        """One sample of every model, at the means of x_0 and v, that walks without noise."""
        return cls(model, model.initial_mean[..., None], model.arrays.mean[:, :, :, None])

    def emit(self) -> np.ndarray:
        """(N, D_g, S): Σ_l g_l(x^(l)), of every model's own outputs, scaled."""
        return self.model.arrays.emit(self.states, len(self.model.groups[0]))

    def outputs(self) -> np.ndarray:
        """(S, 1, D_y): the samples of the outputs now."""
        return self._join([self.emit()])

    def walk(self, course: Course) -> np.ndarray:
        """Take all steps of a course; the samples (S, T, D_y) of the outputs at its rows."""
        passed = []
        for drive, samples in zip(course.drives, course.steps, strict=True):
            passed.append(self.emit())
            self._step(drive, samples)
        return self._join([passed[row] for row in course.rows])

    def _join(self, emitted: list[np.ndarray]) -> np.ndarray:
        shape = (len(emitted), len(self.states), len(self.model.groups[0]), self.states.shape[3])
        return join_samples(np.array(emitted).reshape(shape).transpose(1, 3, 0, 2), len(self.model.groups))

    def _step(self, drive: np.ndarray, samples: float) -> None:
        if self._randomness is None:
            self.states = self.walker.mean_step(self.states, drive, samples)
        else:
            at = self.row - self._drawn
            if not 0 <= at < len(self._noise):
                self._drawn, at, self._noise = self.row, 0, self._randomness.process(self.row, _AHEAD)
            self.states = self.walker.step(self.states, drive, samples, self._noise[at])
        self.row += 1
