"""MRGPSSM: fit, simulate, score."""

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from mrgpssm import metrics
from mrgpssm.data import Scaling, Sequence, as_list, check_alike, check_lengths, flatten, match
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.forecast import LEVELS, Forecast
from mrgpssm.model import PRESETS, SSM, Component, init_ssm
from mrgpssm.model.presets import init_recognition
from mrgpssm.options import check_options, check_simulation
from mrgpssm.progress import reporter
from mrgpssm.simulate import Draws, Particles, assimilate, free_run, start_particles
from mrgpssm.training import FleetFit, Plan, Task, TrainingSettings, begin, fit_fleet

_CHUNK = 1000
_HEAD = 20
_HIDDEN = 32


class MRGPSSM:
    """A probabilistic simulator learned at several time resolutions (Longi et al., 2022).

    One resolution is a GPSSM, several equal ones an MC-GPSSM, several different ones an MR-GPSSM. Each output has a
    model of its own, trained side by side, unless `joint`. Defaults are the paper's (supplement E.1) but for four
    things: the `stable` preset, windows that start from cached states, fast components trained before slow ones, and a
    learning rate that falls over the cycles to `anneal` times its value. The paper's own training is
    `preset="paper", window_start="initial", order="given", anneal=1.0`.
    """

    def __init__(
        self,
        resolutions: SequenceOf[int] = (30, 5, 1),
        latent_dim: int = 2,
        inducing: int = 50,
        samples: int = 20,
        windows: int = 20,
        window: int = 50,
        buffer: int = 10,
        cycles: int = 10,
        steps: int = 300,
        learning_rate: float = 0.05,
        anneal: float = 0.1,
        restarts: int = 1,
        preset: Literal["stable", "paper"] = "stable",
        precision: Literal["float32", "float64"] = "float32",
        window_start: Literal["cache", "initial", "recognition"] = "cache",
        order: Literal["fast-first", "given"] = "fast-first",
        joint: bool = False,
        seed: int = 0,
    ):
        self.resolutions = resolutions
        self.latent_dim = latent_dim
        self.inducing = inducing
        self.samples = samples
        self.windows = windows
        self.window = window
        self.buffer = buffer
        self.cycles = cycles
        self.steps = steps
        self.learning_rate = learning_rate
        self.anneal = anneal
        self.restarts = restarts
        self.preset = preset
        self.precision = precision
        self.window_start = window_start
        self.order: Literal["fast-first", "given"] = order
        self.joint = joint
        self.seed = seed

    def get_params(self) -> dict[str, object]:
        """The constructor's arguments, as given."""
        return {name: value for name, value in vars(self).items() if not name.endswith("_")}

    def fit(
        self,
        sequences: Sequence | Iterable[Sequence],
        validation: Sequence | Iterable[Sequence] | None = None,
        progress: bool = True,
    ) -> "MRGPSSM":
        """Learn from one or many sequences; `validation` is only scored, and kept in `validation_scores_`."""
        check_options(self)
        training = as_list(sequences)
        check_alike(training)
        outputs = len(training[0].output_names)
        if self.joint and self.latent_dim < outputs:
            raise ConfigError(
                f"latent_dim must be at least {outputs} to model {outputs} outputs jointly; got {self.latent_dim}. "
                "Raise it, or use joint=False."
            )
        first = training[0]
        names = (first.input_names, first.output_names, first.dt)
        held_out = None if validation is None else [match(s, *names) for s in as_list(validation)]
        resolutions = tuple(int(r) for r in self.resolutions)
        settings = self._settings()
        check_lengths(training, resolutions, settings.window_steps)
        with floating_point(self.precision):
            scaling = Scaling.fit(training)
            series = flatten(training, scaling, jnp.dtype(self.precision))
            tasks, ssm = self._members(len(training), training[0], resolutions)
            with reporter(progress, resolutions) as report:
                plan = Plan(settings, series, tasks, resolutions)
                fitted = fit_fleet(plan, begin(plan, ssm), report)
        self._keep(fitted, scaling, training[0])
        self.validation_scores_ = None if held_out is None else self.score(held_out)
        return self

    def simulate(
        self,
        inputs: np.ndarray | Sequence,
        warmup: tuple[np.ndarray, np.ndarray] | None = None,
        samples: int = 100,
        seed: int = 0,
        stride: int = 1,
        quantiles: SequenceOf[float] = LEVELS,
        keep_samples: bool = False,
    ) -> Forecast:
        """Run freely over the inputs (T, D_u), from q(x_0) or from where `warmup` = (u, y), just before, leaves it.

        The output of row i is that before input i acts. Measured outputs of a `Sequence` are not looked at.
        """
        check_simulation(self, samples, stride, quantiles)
        sequence = self._inputs(inputs)
        rows = np.arange(0, len(sequence), stride)
        shape = (len(rows), len(self.output_names_))
        kept = {name: np.empty(shape, self.precision) for name in ("mean", "std")}
        levels = {float(q): np.empty(shape, self.precision) for q in quantiles}
        parts = {name: np.empty(shape, self.precision) for name in self._component_names()}
        paths = np.empty((samples, *shape), self.precision) if keep_samples else None
        for columns, noise_sd, draws, noisy in self._draws(sequence, warmup, samples, seed, stride):
            at = np.ix_(draws.rows // stride, columns)
            sd, mean = self.scaling_.output_sd[columns], self.scaling_.output_mean[columns]
            outputs = draws.outputs
            kept["mean"][at] = mean + sd * outputs.mean(0)
            kept["std"][at] = sd * np.sqrt(outputs.var(0) + noise_sd**2)
            for level, values in zip(levels, np.quantile(noisy, list(levels), axis=0), strict=True):
                levels[level][at] = mean + sd * values
            for name, part in zip(parts, draws.parts, strict=True):
                parts[name][at] = sd * part.mean(0)
            if paths is not None:
                paths[(slice(None), *at)] = mean + sd * outputs
        return Forecast(
            time=sequence.clock()[rows] * sequence.dt + (0.0 if sequence.time is None else sequence.time[0]),
            mean=kept["mean"],
            std=kept["std"],
            quantiles=levels,
            components=parts,
            offset=self.scaling_.output_mean,
            output_names=self.output_names_,
            units=self.units_,
            samples=paths,
        )

    def score(self, sequences: Sequence | Iterable[Sequence], samples: int = 100, seed: int = 0) -> pd.DataFrame:
        """Free run over every sequence from its first row; one row per output, errors in the data's units.

        `nll` is of the sample mixture and `nll_gaussian` of N(mean, std²), both per step; coverages are shares.
        """
        tables = [self._score_terms(match(s, *self._columns()), samples, seed) for s in as_list(sequences)]
        terms = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
        measured, mean = terms["measured"], terms["mean"]
        return pd.DataFrame(
            {
                "rmse": metrics.rmse(measured, mean),
                "nrmse": metrics.nrmse(measured, mean),
                "fit_percent": metrics.fit_percent(measured, mean),
                "nll": np.nanmean(terms["nll"], axis=0),
                "nll_gaussian": metrics.gaussian_nll(measured, mean, terms["std"]),
                "crps": np.nanmean(terms["crps"], axis=0),
                "coverage_50": metrics.coverage(measured, terms["q0.25"], terms["q0.75"]),
                "coverage_90": metrics.coverage(measured, terms["q0.05"], terms["q0.95"]),
                "coverage_95": metrics.coverage(measured, terms["q0.025"], terms["q0.975"]),
            },
            index=pd.Index(self.output_names_, name="output"),
        )

    def _score_terms(self, sequence: Sequence, samples: int, seed: int) -> dict[str, np.ndarray]:
        """What the metrics of one sequence need per row, in the data's units."""
        check_simulation(self, samples, 1, LEVELS)
        shape = (len(sequence), len(self.output_names_))
        names = ["mean", "std", "nll", "crps", *(f"q{q:g}" for q in LEVELS)]
        terms = {name: np.empty(shape) for name in names} | {"measured": np.asarray(sequence.outputs)}
        for columns, noise_sd, draws, noisy in self._draws(sequence, None, samples, seed, 1):
            at = np.ix_(draws.rows, columns)
            sd, offset = self.scaling_.output_sd[columns], self.scaling_.output_mean[columns]
            measured = (sequence.outputs[at] - offset) / sd
            outputs = draws.outputs.astype(float)
            terms["mean"][at] = offset + sd * outputs.mean(0)
            terms["std"][at] = sd * np.sqrt(outputs.var(0) + noise_sd**2)
            terms["nll"][at] = metrics.mixture_nll_terms(measured, outputs, noise_sd) + np.log(sd)
            terms["crps"][at] = sd * metrics.crps_terms(measured, noisy)
            for level, values in zip(LEVELS, np.quantile(noisy, LEVELS, axis=0), strict=True):
                terms[f"q{level:g}"][at] = offset + sd * values
        return terms

    def _draws(
        self, sequence: Sequence, warmup, samples: int, seed: int, stride: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, Draws, np.ndarray]]:
        """Per model and chunk: its output columns, noise deviation, draws, and draws with observation noise added."""
        inputs, clock = self.scaling_.inputs(sequence.inputs), sequence.clock()
        for number, (columns, ssm) in enumerate(self.models_):
            with floating_point(self.precision):
                key = jax.random.fold_in(jax.random.key(seed), number)
                noise_sd = np.sqrt(np.asarray(ssm.observation_variance(), float))
                particles = self._start(ssm, columns, inputs, warmup, samples, key)
                chunks = free_run(ssm, particles, inputs, clock, stride=stride, chunk=_CHUNK, key=key)
                rng = np.random.default_rng([seed, number])
                for draws in chunks:
                    noise = rng.standard_normal((samples, len(draws.rows), len(columns)))
                    yield columns, noise_sd, draws, draws.outputs + noise_sd * noise

    def _start(self, ssm: SSM[Component], columns, inputs, warmup, samples: int, key) -> tuple[Particles, ...]:
        dtype = jnp.dtype(self.precision)
        if warmup is None:
            seen = np.resize(inputs[: self._head()], (self._head(), inputs.shape[1]))
            head = jnp.asarray(np.hstack([seen, np.full((self._head(), len(columns)), np.nan)]), dtype)
            return start_particles(ssm, samples, head, key=key)
        past = _warmup_sequence(warmup, self)
        past_inputs = jnp.asarray(self.scaling_.inputs(past.inputs), dtype)
        past_outputs = jnp.asarray(self.scaling_.outputs(past.outputs)[:, columns], dtype)
        head = jnp.concatenate([past_inputs, past_outputs], axis=1)
        if len(head) < self._head():
            raise DataError(f"warmup needs at least {self._head()} rows for the recognition network; got {len(head)}.")
        particles = start_particles(ssm, samples, head[: self._head()], key=key)
        return assimilate(ssm, particles, past_inputs, past_outputs, jnp.ones(len(past), dtype), key=key)

    def _settings(self) -> TrainingSettings:
        chunk = next(c for c in (25, 20, 10, 5, 4, 3, 2, 1) if self.steps % c == 0)
        return TrainingSettings(
            samples=self.samples,
            windows=self.windows,
            window=self.window,
            buffer=self.buffer,
            cycles=self.cycles,
            steps=self.steps,
            learning_rate=self.learning_rate,
            anneal=self.anneal,
            window_start="cache" if self.window_start == "cache" else "initial",
            order=self.order,
            head=self._head(),
            chunk=chunk,
        )

    def _head(self) -> int:
        return min(_HEAD, self.buffer + self.window) if self.window_start == "recognition" else 0

    def _members(self, count: int, first: Sequence, resolutions: tuple[int, ...]) -> tuple[Task, SSM[Component]]:
        """Tasks and starting values of all restarts of all outputs, with a leading fleet axis."""
        dtype = jnp.dtype(self.precision)
        outputs, inputs = len(first.output_names), len(first.input_names)
        groups = [tuple(range(outputs))] if self.joint else [(column,) for column in range(outputs)]
        self._groups = groups
        root = jax.random.key(self.seed)
        keys = jnp.stack(
            [
                jax.random.fold_in(jax.random.fold_in(root, g), r)
                for g in range(len(groups))
                for r in range(self.restarts)
            ]
        )
        members, width = len(keys), len(groups[0])
        tasks = Task(
            key=keys,
            columns=jnp.repeat(jnp.asarray(groups, jnp.int32), self.restarts, axis=0),
            training=jnp.ones((members, count), bool),
            input_shift=jnp.zeros((members, inputs), dtype),
            input_scale=jnp.ones((members, inputs), dtype),
            output_shift=jnp.zeros((members, width), dtype),
            output_scale=jnp.ones((members, width), dtype),
        )
        return tasks, eqx.filter_vmap(lambda key: self._init(key, inputs, width, resolutions, dtype))(keys)

    def _init(self, key, inputs: int, outputs: int, resolutions: tuple[int, ...], dtype) -> SSM[Component]:
        preset = PRESETS[self.preset]
        ssm = init_ssm(
            preset,
            resolutions,
            latent_dim=self.latent_dim,
            input_dim=inputs,
            output_dim=outputs,
            inducing=self.inducing,
            key=key,
            dtype=dtype,
        )
        if self.window_start != "recognition":
            return ssm
        head = (self._head(), inputs + outputs)
        networks = tuple(
            init_recognition(preset, self.latent_dim, head, _HIDDEN, key=jax.random.fold_in(key, 1000 + i), dtype=dtype)
            for i in range(len(resolutions))
        )
        return eqx.tree_at(lambda s: tuple(c.initial for c in s.components), ssm, networks)

    def _keep(self, fitted: FleetFit, scaling: Scaling, first: Sequence) -> None:
        """Learned state: the best restart of every output, and what is needed to use and to judge it."""
        bounds = fitted.bounds.reshape(len(self._groups), self.restarts)
        best = bounds.argmax(axis=1)
        arrays = fitted.state.ssm
        self.models_ = [
            (np.array(columns), jax.tree.map(lambda x, i=g * self.restarts + best[g]: x[i], arrays))
            for g, columns in enumerate(self._groups)
        ]
        self.scaling_ = scaling
        self.bounds_ = bounds
        self.history_ = fitted.history
        self.skipped_ = np.asarray(fitted.state.health.skipped).reshape(bounds.shape)
        self.input_names_, self.output_names_ = first.input_names, first.output_names
        self.units_, self.dt_ = dict(first.units), first.dt
        del self._groups

    def _columns(self) -> tuple[tuple[str, ...], tuple[str, ...], float]:
        """Input names, output names and dt: what a sequence must have to be used with this model."""
        return self.input_names_, self.output_names_, self.dt_

    def _component_names(self) -> list[str]:
        return [f"component_{i + 1}_R{int(r)}" for i, r in enumerate(self.resolutions)]

    def _inputs(self, inputs: np.ndarray | Sequence) -> Sequence:
        """A sequence to simulate over; bare arrays are taken to have the training columns and dt."""
        if isinstance(inputs, Sequence):
            return match(inputs, *self._columns())
        array = np.asarray(inputs, dtype=float)
        blank = np.full((len(array), len(self.output_names_)), np.nan) if array.ndim else array
        sequence = Sequence(array, blank, self.dt_, None, (), self.output_names_, {}, "inputs")
        if sequence.inputs.shape[1] != len(self.input_names_):
            raise DataError(
                f"inputs have {sequence.inputs.shape[1]} columns; the model was trained on {len(self.input_names_)}: "
                f"{', '.join(self.input_names_)}."
            )
        return Sequence(array, blank, self.dt_, None, self.input_names_, self.output_names_, {}, "inputs")


def _warmup_sequence(warmup, model: MRGPSSM) -> Sequence:
    if not (isinstance(warmup, tuple) and len(warmup) == 2):
        raise DataError("warmup must be a pair (inputs, outputs) of arrays (T, D_u) and (T, D_y).")
    return Sequence(warmup[0], warmup[1], model.dt_, None, model.input_names_, model.output_names_, {}, "warmup")


@contextmanager
def floating_point(precision: str):
    """Our floating-point rules, only while the estimator computes: 64 bits on request, no TF32 in products."""
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield
