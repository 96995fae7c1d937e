"""MRGPSSM: fit, simulate, score, save; and load."""

import inspect
import os
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from mrgpssm.data import Scaling, Sequence, as_list, check_alike, check_lengths, flatten, match
from mrgpssm.errors import ConfigError, DataError, FitError
from mrgpssm.forecast import LEVELS, Forecast
from mrgpssm.members import make_members, output_groups, training_settings
from mrgpssm.model import SSM, Component
from mrgpssm.modelfile import FittedModel, read_model, write_model
from mrgpssm.native import ready
from mrgpssm.options import Options, check_options, check_simulation
from mrgpssm.precision import floating_point
from mrgpssm.predict import calibration, forecast, scores
from mrgpssm.progress import reporter
from mrgpssm.runs import CHECKPOINT_SECONDS, RunDirectory, session
from mrgpssm.training import FleetFit, Plan, begin, fit_fleet
from mrgpssm.training.checkpoint import fingerprint
from mrgpssm.training.estimate import estimate


class MRGPSSM:
    """A probabilistic simulator learned at several time resolutions (Longi et al., 2022).

    One resolution is a GPSSM, several equal ones an MC-GPSSM, several different ones an MR-GPSSM. Each output has a
    model of its own, trained side by side, unless `joint`. Defaults are the paper's (supplement E.1) but for four
    things: the `stable` preset, windows that start from cached states, fast components trained before slow ones, and a
    learning rate that falls over the cycles to `anneal` times its value. The paper's own training is
    `preset="paper", window_start="initial", order="given", anneal=1.0`.

    Of the `restarts` of every output the `ensemble` best are kept and simulated as a mixture. With `calibrate`, the
    width of the bands is adjusted on the validation sequences, where `fit` is given some.
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
        ensemble: int = 1,
        preset: Literal["stable", "paper"] = "stable",
        precision: Literal["float32", "float64"] = "float32",
        window_start: Literal["cache", "initial", "recognition"] = "cache",
        order: Literal["fast-first", "given"] = "fast-first",
        joint: bool = False,
        calibrate: bool = True,
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
        self.ensemble = ensemble
        self.preset = preset
        self.precision = precision
        self.window_start = window_start
        self.order: Literal["fast-first", "given"] = order
        self.joint = joint
        self.calibrate = calibrate
        self.seed = seed

    def get_params(self) -> dict[str, Any]:
        """The constructor's arguments, as given."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def check(self, sequences: Sequence | Iterable[Sequence]) -> tuple[Options, list[Sequence], Scaling]:
        """All that `fit` checks before it computes; one sentence says what cannot work."""
        options, training = check_options(self.get_params()), as_list(sequences)
        _check_data(options, training)
        return options, training, Scaling.fit(training)

    def estimate(self, sequences: Sequence | Iterable[Sequence]) -> dict[str, float | int]:
        """What `fit` would take on this machine: a few real steps are timed, memory is counted."""
        options, training, scaling = self.check(sequences)
        with floating_point(options.precision):
            plan, ssm = make_plan(options, training, scaling)
            return estimate(plan, begin(plan, ssm))

    def fit(
        self,
        sequences: Sequence | Iterable[Sequence],
        validation: Sequence | Iterable[Sequence] | None = None,
        progress: bool = True,
        run_dir: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> "MRGPSSM":
        """Learn from one or many sequences; `validation` calibrates the bands and is scored.

        Scores before and after calibration are kept in `uncalibrated_scores_` and `validation_scores_`.

        With `run_dir`, the run leaves its trace, checkpoints and model there; started again with the same data and
        arguments, a run that was cut short goes on where it stood.
        """
        options, training, scaling = self.check(sequences)
        first = training[0]
        names = (first.input_names, first.output_names, first.dt)
        held_out = None if validation is None else [match(s, *names) for s in as_list(validation)]
        with floating_point(options.precision), reporter(progress, options.resolutions) as report:
            plan, ssm = make_plan(options, training, scaling)
            if run_dir is None:
                fleet = fit_fleet(plan, begin(plan, ssm), report)
            else:
                run = RunDirectory(Path(run_dir), checkpoint_seconds)
                fleet = _fit_in(run, options, plan, ssm, first, report)
        self.fitted_ = _best(options, fleet, scaling, first)
        self.history_ = fleet.history
        self.uncalibrated_scores_ = self.validation_scores_ = None if held_out is None else self.score(held_out)
        if held_out is not None and options.calibrate:
            self.fitted_ = replace(self.fitted_, calibration=calibration(self.fitted_, held_out))
            self.validation_scores_ = self.score(held_out)
        if run_dir is not None:
            self.save(RunDirectory(Path(run_dir)).model)
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
        check_simulation(hasattr(self, "fitted_"), samples, stride, quantiles, seed)
        model = self.fitted_
        return forecast(
            model,
            _inputs(inputs, model),
            None if warmup is None else _warmup(warmup, model),
            samples=samples,
            seed=seed,
            stride=stride,
            quantiles=quantiles,
            keep_samples=keep_samples,
        )

    def score(self, sequences: Sequence | Iterable[Sequence], samples: int = 100, seed: int = 0) -> pd.DataFrame:
        """Free run over every sequence from its first row; one row per output, errors in the data's units.

        `nll` is of the sample mixture and `nll_gaussian` of N(mean, std²), both per step; coverages are shares.
        """
        check_simulation(hasattr(self, "fitted_"), samples, 1, LEVELS, seed)
        model = self.fitted_
        matched = [match(s, model.input_names, model.output_names, model.dt) for s in as_list(sequences)]
        return scores(model, matched, samples, seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `load` reads it."""
        check_simulation(hasattr(self, "fitted_"), 2, 1, ())
        write_model(Path(path), self.fitted_)

    @property
    def models_(self) -> list[tuple[np.ndarray, SSM[Component]]]:
        """Output columns and learned model, the best restart of every output."""
        return [(np.array(g), ssm) for g, ssm in zip(self.fitted_.groups, self.fitted_.models, strict=True)]

    @property
    def bounds_(self) -> np.ndarray:
        """(models, restarts) lower bounds on the whole training series, on equal noise."""
        return self.fitted_.bounds

    @property
    def skipped_(self) -> np.ndarray:
        """(models, restarts) steps that were skipped because they were not finite."""
        return self.fitted_.skipped


def load(path: str | os.PathLike[str]) -> MRGPSSM:
    """The fitted model in a file that `save` wrote."""
    fitted = read_model(Path(path))
    given: dict[str, Any] = fitted.options.to_json() | {"resolutions": fitted.options.resolutions}
    model = MRGPSSM(**given)
    model.fitted_, model.history_ = fitted, ()
    model.uncalibrated_scores_ = model.validation_scores_ = None
    return model


def make_plan(options: Options, training: list[Sequence], scaling: Scaling) -> tuple[Plan, SSM[Component]]:
    """The training plan, and all members at their starting values; needs the precision switched on."""
    series = flatten(training, scaling, jnp.dtype(options.precision))
    first = training[0]
    tasks, ssm = make_members(options, len(training), len(first.input_names), len(first.output_names))
    return Plan(training_settings(options), series, tasks, options.resolutions), ssm


def _fit_in(run: RunDirectory, options: Options, plan: Plan, ssm: SSM[Component], first: Sequence, report) -> FleetFit:
    """Train with a trace and checkpoints, from the last checkpoint where there is one."""
    # Both paths agree, but not bit for bit: a run goes on by the one it began with.
    settings: dict[str, Any] = options.to_json() | {"native_kernel": ready()}
    identity = {
        "options": settings,
        "inputs": list(first.input_names),
        "outputs": list(first.output_names),
        "dt": first.dt,
        "rows": int(plan.series.clock.shape[0]),
        "sequences": int(plan.series.lengths.shape[0]),
    }
    mark = fingerprint(plan, settings)
    with run.claim(mark, identity), session(run, begin(plan, ssm), report) as (start, note, keep):
        return fit_fleet(plan, start, note, keep)


def _check_data(options: Options, training: list[Sequence]) -> None:
    """What the options ask of the data."""
    check_alike(training)
    outputs = len(training[0].output_names)
    if options.joint and options.latent_dim < outputs:
        raise ConfigError(
            f"latent_dim must be at least {outputs} to model {outputs} outputs jointly; got {options.latent_dim}. "
            "Raise it, or use joint=False."
        )
    check_lengths(training, options.resolutions, options.buffer + options.window)


def _best(options: Options, fleet: FleetFit, scaling: Scaling, first: Sequence) -> FittedModel:
    """The restarts with the best bounds, for every output."""
    groups = output_groups(options, len(first.output_names))
    bounds = fleet.bounds.reshape(len(groups), options.restarts)
    bounds = np.where(np.isnan(bounds), -np.inf, bounds)
    lost = [first.output_names[g[0]] for g, row in zip(groups, bounds, strict=True) if not np.isfinite(row).any()]
    if lost:
        raise FitError(
            f"Training failed for output {lost[0]!r}: no restart ended with a finite bound. "
            'Lower learning_rate, or use preset="stable" and precision="float64".'
        )
    ranked = np.argsort(-bounds, axis=1, kind="stable") + np.arange(len(groups))[:, None] * options.restarts
    # As many as every output has: a restart that was given up has no bound.
    rounds = max(1, min(options.ensemble, int(np.isfinite(bounds).sum(axis=1).min())))
    return FittedModel(
        options=options,
        ensemble=tuple(
            tuple(jax.tree.map(lambda x, i=int(i): x[i], fleet.state.ssm) for i in ranked[:, number])
            for number in range(rounds)
        ),
        scaling=scaling,
        input_names=first.input_names,
        output_names=first.output_names,
        units=dict(first.units),
        dt=first.dt,
        bounds=bounds,
        skipped=np.asarray(fleet.state.health.skipped).reshape(bounds.shape),
        calibration=np.ones(len(first.output_names)),
    )


def _inputs(inputs: np.ndarray | Sequence, model: FittedModel) -> Sequence:
    """A sequence to simulate over; bare arrays are taken to have the training columns and dt."""
    names = (model.input_names, model.output_names)
    if isinstance(inputs, Sequence):
        return match(inputs, *names, model.dt)
    array = np.asarray(inputs, dtype=float)
    blank = np.full((len(array), len(model.output_names)), np.nan) if array.ndim else array
    sequence = Sequence(array, blank, model.dt, None, (), model.output_names, {}, "inputs")
    if sequence.inputs.shape[1] != len(model.input_names):
        raise DataError(
            f"inputs have {sequence.inputs.shape[1]} columns; the model was trained on {len(model.input_names)}: "
            f"{', '.join(model.input_names)}."
        )
    return Sequence(array, blank, model.dt, None, *names, {}, "inputs")


def _warmup(warmup, model: FittedModel) -> Sequence:
    if not (isinstance(warmup, tuple) and len(warmup) == 2):
        raise DataError("warmup must be a pair (inputs, outputs) of arrays (T, D_u) and (T, D_y).")
    return Sequence(*warmup, model.dt, None, model.input_names, model.output_names, {}, "warmup")
