"""MRGPSSM: fit, simulate, score, save."""

import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from mrgpssm.advice.automatic import Selection, choose
from mrgpssm.data import (
    Data,
    Inputs,
    Scaling,
    Seen,
    Sequence,
    Warmup,
    apply_drive,
    as_inputs,
    as_list,
    as_warmup,
    check_alike,
)
from mrgpssm.data.doubts import doubt_inputs, doubt_scores, doubt_training, warn_of
from mrgpssm.estimator.costs import estimate_fit, foresee
from mrgpssm.estimator.fitting import (
    Field,
    ask_of_data,
    check_data,
    judge,
    leave_model,
    list_judges,
    match_validation,
    train,
)
from mrgpssm.estimator.params import check_section, get_params, set_params, write_params
from mrgpssm.estimator.trials import LINEAR, prefer_linear, settle
from mrgpssm.gp import AbstractKernel
from mrgpssm.model import SSM, AbstractEmission, Component
from mrgpssm.prediction.fitted import UNCALIBRATED, FittedModel, store_model, write_model
from mrgpssm.prediction.forecast import LEVELS, Forecast, check_simulation
from mrgpssm.prediction.mean import find_growths, find_radii, mean_run
from mrgpssm.prediction.predict import forecast, scores
from mrgpssm.rollout import AbstractScheme
from mrgpssm.runtime import Stepper
from mrgpssm.runtime.read import make_runtime
from mrgpssm.spec import Bands, Spec, Structure, Training, Whole, options_of
from mrgpssm.training import Progress
from mrgpssm.training.progress import FIT, announce, line_stages, tell_all
from mrgpssm.training.runs import CHECKPOINT_SECONDS, open_run


class MRGPSSM:
    """A probabilistic simulator learned at several time resolutions (Longi et al., 2022).

    One resolution is a GPSSM, several equal ones an MC-GPSSM, several different ones an MR-GPSSM. Each output has a
    model of its own, trained side by side, unless `joint`.

    Without resolutions, `fit` chooses whatever is None from the data and says why (`chosen_`). With resolutions, what
    is None has the fixed value that is named below, the paper's (supplement E.1). Five things differ from the paper
    unless they are given: the `stable` preset, windows that start from cached states, fast components trained before
    slow ones, a learning rate that falls over the cycles to `anneal` times its value, and four folds, further models
    that calibrate the bands. The paper's own training is `MRGPSSM((30, 5, 1), preset="paper",
    training=Training(window_start="initial", order="given", anneal=1.0), bands=Bands(folds=0))`.

    Arguments are stored as given and checked by `fit`. What is learned ends in `_`: `fitted_`, `history_`, `chosen_`,
    and, where `fit` is given validation sequences or has `folds`, `validation_scores_` and `uncalibrated_scores_`; the
    models of the folds are in `folds_`, by number. What is doubtful about data is a `DataWarning`, and `doubts_` keeps
    those of `fit`.

        model = MRGPSSM().fit(train, run_dir="run")
        run = model.simulate(inputs)

    Args:
        resolutions: Samples that one training step covers, one number per component, such as (30, 5, 1).
        latent_dim: Latent dimensions D_l of each component (2).
        inducing: Inducing points M of each Gaussian process (50).
        preset: "stable" keeps free runs bounded; "paper" is the paper's transition and initial values.
        memory: Longest memory of a component in its own steps; |I + A|₂ is below 1 - 1 / memory (100).
        integrators: States of the slowest component that add up what the others do and never fade, at eigenvalue 1.
            They grow at most linearly in time; `growth_` says how fast (0).
        precision: Floating-point type of everything that is computed (float32).
        joint: One model with a common state for all outputs, instead of one per output.
        cascade: The states of slower components are inputs of the faster ones (False).
        filters: Time constants, in steps of dt, of exponential averages of the inputs that the model sees beside them
            (none).
        delays: Lengths, in steps of dt, by which further copies of the inputs are delayed, for dead times (none).
        feedthrough: Inputs act on the outputs of their own row, too, not on later ones alone (no).
        kernel: Covariance of the Gaussian processes: "rbf", "matern32", "matern52", or a kernel of your own, a
            subclass of `mrgpssm.gp.AbstractKernel` or an instance of one, such as `Matern32()`.
        emission: How a state shows in the outputs: "identity" (its first dimensions), "linear", "nonlinear", or your
            own, of `mrgpssm.model.AbstractEmission` ("identity").
        scheme: How training draws trajectories: "full_mc", "marginal", "analytic", or your own, of
            `mrgpssm.rollout.AbstractScheme`. Free runs are always full Monte Carlo.
        training: How the model is learned: `Training(steps=100, restarts=3)`, and so on.
        bands: How the bands are calibrated: `Bands(folds=4)`, and so on.
    """

    def __init__(
        self,
        resolutions: SequenceOf[int] | None = None,
        latent_dim: int | None = None,
        inducing: int | None = None,
        preset: Literal["stable", "paper"] = "stable",
        memory: int | None = None,
        integrators: int | None = None,
        precision: Literal["float32", "float64"] | None = None,
        joint: bool = False,
        cascade: bool | None = None,
        filters: SequenceOf[float] | None = None,
        delays: SequenceOf[int] | None = None,
        feedthrough: bool | None = None,
        *,
        kernel: str | AbstractKernel | type[AbstractKernel] = "rbf",
        emission: str | AbstractEmission | type[AbstractEmission] | None = None,
        scheme: str | AbstractScheme | type[AbstractScheme] = "full_mc",
        training: Training = Training(),  # noqa: B008  # frozen
        bands: Bands = Bands(),  # noqa: B008
    ):
        self.resolutions = resolutions
        self.latent_dim = latent_dim
        self.inducing = inducing
        self.preset = preset
        self.memory = memory
        self.integrators = integrators
        self.precision = precision
        self.joint = joint
        self.cascade = cascade
        self.filters = filters
        self.delays = delays
        self.feedthrough = feedthrough
        self.kernel = kernel
        self.emission = emission
        self.scheme = scheme
        self.training = training
        self.bands = bands

    def __repr__(self) -> str:
        """The arguments that were given and, in words, what was learned."""
        about = self.fitted_.describe() if hasattr(self, "fitted_") else "not fitted"
        return f"MRGPSSM({write_params(self)})  # {about}"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as given.

        Args:
            deep: With the options of `training` and `bands` as well, as `training__steps` and so on.

        Returns:
            Names and values, so that `MRGPSSM(**model.get_params(deep=False))` is the same model, untrained.
        """
        return get_params(self, deep)

    def set_params(self, **params: Any) -> "MRGPSSM":
        """Change arguments by name; `set_params(training__steps=50)` changes one option of `training`.

        Args:
            params: Names of `get_params` and their new values.

        Returns:
            The model itself; what it has learned stays until the next `fit`.

        Raises:
            ConfigError: There is no such argument, or it does not take that value.
        """
        set_params(self, params)
        return self

    @classmethod
    def from_spec(cls, spec: Spec) -> "MRGPSSM":
        """A model with these options, untrained."""
        own = {name: getattr(spec.structure, name) for name in options_of(Structure)}
        return cls(**own, training=spec.training, bands=spec.bands)

    @property
    def spec(self) -> Spec:
        """The arguments, checked; what is None is chosen by `fit`."""
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in ("training", "bands")}
        training, bands = check_section(Training, self.training), check_section(Bands, self.bands)
        return Spec(Structure(**own), training, bands)

    def check(
        self, sequences: Sequence | Iterable[Sequence], validated: bool = False
    ) -> tuple[Spec, list[Sequence], Scaling]:
        """All that `fit` chooses and checks before it computes; one sentence says what cannot work.

        Args:
            sequences: What `fit` would be given.
            validated: Whether it would be given validation sequences, too.

        Returns:
            The checked options, the sequences as a list, and the scaling to zero mean and unit variance.

        Raises:
            ConfigError: An argument makes no sense.
            DataError: The sequences differ in columns or dt, or none is long enough for a window.
        """
        training = as_list(sequences)
        given = self.spec
        check_alike(training)
        spec, self.chosen_, *_ = choose(given, training, validated, rivals=False)
        check_data(spec, training)
        return spec, training, Scaling.fit(apply_drive(spec.structure.drive, s) for s in training)

    def estimate(
        self, sequences: Sequence | Iterable[Sequence], validation: Sequence | Iterable[Sequence] | None = None
    ) -> dict[str, Any]:
        """What `fit` would take on this machine: a few steps, and later stages on a few rows, are timed.

        Args:
            sequences: What `fit` would be given.
            validation: And the validation sequences.

        Returns:
            `rows` of the recordings, `members`, `steps`, `step_seconds`, `sweep_seconds`, `stages` (seconds of trials,
            of training and of every stage after it), `seconds` in all, and `megabytes`. Where trials decide what is
            trained, these are of the candidate that takes longest.
        """
        selection, training, held_out, doubts = self._prepare(as_list(sequences), validation)
        warn_of(doubts)
        return estimate_fit(selection, Field(training, held_out, None))

    def _prepare(
        self, training: list[Sequence], validation: Data | None
    ) -> tuple[Selection, list[Sequence], list[Sequence] | None, tuple[str, ...]]:
        """What is chosen, the checked data, and what is doubtful about them."""
        check_alike(training)
        selection = choose(self.spec, training, validation is not None)
        check_data(selection.spec, training)
        held_out = match_validation(selection.spec, training[0], validation)
        return selection, training, held_out, doubt_training(training, held_out or [], ask_of_data(selection.spec))

    def fit(
        self,
        sequences: Data,
        validation: Data | None = None,
        progress: bool = True,
        run_dir: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        callbacks: SequenceOf[Callable[[Progress], None]] = (),
        *,
        inputs: SequenceOf[str] = (),
        outputs: SequenceOf[str] = (),
        dt: float | None = None,
    ) -> "MRGPSSM":
        """Learn from one or many recordings; `validation` calibrates the bands and is scored.

            model.fit(table, inputs=["speed", "load"], outputs=["NOx"])

        Scores before and after calibration are kept in `uncalibrated_scores_` and `validation_scores_`.

        With `run_dir`, the run leaves its trace, checkpoints and model there; started again with the same data and
        arguments, a run that was cut short goes on where it stood. Every callback sees the progress after each
        chunk of steps (`mrgpssm.interop.callbacks` has some); where trials decide, from the end of the trial on.

        Args:
            sequences: Recordings with the same columns and the same dt: sequences, or tables with `inputs` and
                `outputs`. An index of dates or durations is the time of a table.
            validation: Other recordings, whose columns are found by name. The bands are learned on them, and they
                decide trials and, with `early_stopping`, the best cycle; nothing trains on them.
            progress: Show a bar, or a line now and then where there is no terminal.
            run_dir: A folder for this run alone.
            checkpoint_seconds: Seconds between checkpoints.
            callbacks: Functions of the progress.
            inputs: Names of the input columns of tables.
            outputs: Names of the output columns of tables.
            dt: Seconds between the rows of tables; left out, the median step of their times, else 1 s.

        Returns:
            The model itself.

        Raises:
            ConfigError: An argument makes no sense, or `run_dir` holds another run or a finished one.
            DataError: The sequences cannot be used as given.
            FitError: No member could go on; the message names component, cycle and step.
            Interrupted: Ctrl-C or SIGTERM, where there is a `run_dir`; the message says how to go on.
        """
        line_stages(progress, FIT)("looking at the data")
        selection, training, held_out, doubts = self._prepare(as_list(sequences, inputs, outputs, dt), validation)
        warn_of(doubts)
        with open_run(run_dir, checkpoint_seconds) as run:
            field = Field(training, held_out, run)
            watch = foresee(selection, field, progress)
            spec, self.chosen_, *_ = selection = settle(selection, field, watch)
            announce(self.chosen_ if progress else ())
            with watch(spec, FIT) as shown:
                fleet = train(field, spec, tell_all(shown.steps, *callbacks), selection.begun)
                model, judges = list_judges(field, spec, fleet)
                found = prefer_linear(selection, field, judges, shown.stage)
                if found is None:
                    found = judge(model, judges, held_out, shown.stage)
                else:
                    self.chosen_ = (*self.chosen_, LINEAR)
            self.fitted_, self.folds_ = replace(found.model, seen=Seen.of(training, doubts)), found.folds
            self.history_ = fleet.history
            self.uncalibrated_scores_, self.validation_scores_ = found.before, found.after
            if run is not None:
                leave_model(run, replace(found, model=self.fitted_))
        if not self.fitted_.calibrated:
            line_stages(progress, FIT)(UNCALIBRATED)
        return self

    def simulate(
        self,
        inputs: Inputs,
        warmup: Warmup | None = None,
        samples: int = 100,
        seed: int = 0,
        stride: int = 1,
        quantiles: SequenceOf[float] = LEVELS,
        keep_samples: bool = False,
    ) -> Forecast:
        """Run freely over the inputs (T, D_u), from q(x_0) or from where `warmup`, the stretch just before, leaves it.

        The output of row i is that before input i acts; with `feedthrough`, after. Measured outputs of a `Sequence` are
        not looked at. The run begins one sample after the last row of the warm-up, unless the times of both say more.

        Args:
            inputs: A table, Series or sequence, whose columns are found by name, or an array with the columns of
                training in their order; of one dimension it is one column.
            warmup: The sequence just before, or a pair of its inputs (T, D_u) and outputs (T, D_y); missing outputs are
                NaN.
            samples: Trajectories; their spread makes the bands.
            seed: Seed of the trajectories; the same seed gives the same run.
            stride: Report every so many rows; with even sampling a larger one takes longer steps.
            quantiles: Levels to keep.
            keep_samples: Keep trajectories of measurements in `Forecast.samples`, for bands of sums or largest values.

        Returns:
            Mean, deviation, quantiles and components in the data's units.

        Raises:
            ConfigError: The model is not fitted, or an argument makes no sense.
            DataError: Columns or dt are not those of training, or an input is missing.
        """
        check_simulation(hasattr(self, "fitted_"), samples, stride, quantiles, seed)
        model = self.fitted_
        sequence = as_inputs(inputs, model.input_names, model.output_names, model.dt)
        warn_of(doubt_inputs(model.seen, [sequence]))
        return forecast(
            model,
            sequence,
            None if warmup is None else as_warmup(warmup, model.input_names, model.output_names, model.dt),
            samples=samples,
            seed=seed,
            stride=stride,
            quantiles=quantiles,
            keep_samples=keep_samples,
        )

    def simulate_mean(self, inputs: Inputs) -> np.ndarray:
        """(T, D_y): one noiseless run with v and x_0 at their means, averaged over the ensemble; what is exported."""
        check_simulation(hasattr(self, "fitted_"), 2, 1, ())
        model = self.fitted_
        sequence = as_inputs(inputs, model.input_names, model.output_names, model.dt)
        warn_of(doubt_inputs(model.seen, [sequence]))
        return mean_run(model, sequence)

    def stepper(self, samples: int = 100, seed: int = 0, anywhere: bool = False) -> Stepper:
        """An online simulator: `update(u, y)` once per sampling time, corrected where an output is measured.

        Its first state is one at which recordings begin or, for a system that already runs, `anywhere`.
        """
        check_simulation(hasattr(self, "fitted_"), samples, 1, ())
        return make_runtime(store_model(self.fitted_)).stepper(samples, seed, anywhere)

    def score(self, sequences: Data, samples: int = 100, seed: int = 0, warmup_rows: int = 0) -> pd.DataFrame:
        """Free run over every sequence from its first row; one row per output, errors in the data's units.

        `nll` is of the sample mixture and `nll_gaussian` of N(mean, std²), both per step; coverages are shares.

        Args:
            sequences: Sequences or tables; columns are found by name, and missing outputs count nowhere.
            samples: Trajectories of each free run.
            seed: Seed of the trajectories.
            warmup_rows: First rows of every sequence whose measured outputs set the state; they are not scored.

        Returns:
            A table with columns `rmse`, `nrmse`, `fit_percent`, `nll`, `nll_gaussian`, `crps`, `coverage_50`,
            `coverage_90` and `coverage_95`.

        Raises:
            ConfigError: The model is not fitted, or an argument makes no sense.
            DataError: Columns or dt are not those of training, or an output has no measured value.
        """
        check_simulation(hasattr(self, "fitted_"), samples, 1, LEVELS, seed)
        rows = Whole(0).check("warmup_rows", warmup_rows)
        model = self.fitted_
        matched = as_list(sequences, model.input_names, model.output_names, model.dt)
        warn_of([*doubt_scores(model.seen, matched), *doubt_inputs(model.seen, matched)])
        return scores(model, matched, samples, seed, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `load` reads it.

        Args:
            path: The file, by custom ending in `.mrgpssm`; one that is there is replaced.

        Raises:
            ConfigError: The model is not fitted.
            StorageError: The file cannot be written; what was there before is untouched.
        """
        check_simulation(hasattr(self, "fitted_"), 2, 1, ())
        write_model(Path(path), self.fitted_)

    @property
    def models_(self) -> list[tuple[np.ndarray, SSM[Component]]]:
        """Output columns and learned model, the best restart of every output."""
        return [(np.array(g), ssm) for g, ssm in zip(self.fitted_.groups, self.fitted_.models, strict=True)]

    @property
    def radius_(self) -> np.ndarray:
        """(models, components): the radius of a ball that the component's state never leaves in a noiseless free run.

        It holds for inputs in the ranges of training, for runs of any length, in scaled units: zero mean and unit
        variance. With `emission="identity"` no output is further from its mean than the sum over the components, in
        standard deviations. It is infinite with `preset="paper"`, and with integrators, for which there is `growth_`.
        """
        check_simulation(hasattr(self, "fitted_"), 2, 1, ())
        return find_radii(self.fitted_)

    @property
    def growth_(self) -> np.ndarray:
        """(models, components): how far a component's integrators move at most from one row to the next.

        It holds as `radius_` does: for noiseless free runs with inputs in the ranges of training, in scaled units. So
        such a run grows at most linearly in time. It is 0 for a component without integrators, and infinite for one
        that integrators drive in a cascade.
        """
        check_simulation(hasattr(self, "fitted_"), 2, 1, ())
        return find_growths(self.fitted_)

    @property
    def doubts_(self) -> tuple[str, ...]:
        """What `fit` warned of: reasons not to trust the training data."""
        return () if self.fitted_.seen is None else self.fitted_.seen.doubts

    @property
    def bounds_(self) -> np.ndarray:
        """(models, restarts) lower bounds on the whole training series, on equal noise."""
        return self.fitted_.bounds

    @property
    def skipped_(self) -> np.ndarray:
        """(models, restarts) steps that were skipped because they were not finite."""
        return self.fitted_.provenance.skipped


def from_fitted(fitted: FittedModel, folds: Mapping[int, FittedModel] | None = None) -> MRGPSSM:
    """The model around what was read from a file, and the models of its folds where these are at hand."""
    model = MRGPSSM.from_spec(fitted.spec)
    model.fitted_, model.folds_, model.history_, model.chosen_ = fitted, dict(folds or {}), (), ()
    model.uncalibrated_scores_ = model.validation_scores_ = None
    return model
