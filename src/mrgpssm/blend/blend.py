"""Blend: several simulators as one, with shares and bands learned on recordings that none of them has seen."""

import os
from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from mrgpssm.blend.files import blend_bytes, check_savable
from mrgpssm.blend.fitted import FittedBlend, LeftOut, learn_noise, learn_paths, learn_shares, run_parts
from mrgpssm.blend.parts import PartTrainer, find_folds, name_parts, settle_parts
from mrgpssm.blend.simulator import Simulator
from mrgpssm.blend.static import StaticGP, StaticTrees
from mrgpssm.data import (
    Data,
    Inputs,
    Scaling,
    Seen,
    Sequence,
    Warmup,
    as_inputs,
    as_list,
    as_warmup,
    check_alike,
    cut_warmup,
    take_unseen,
)
from mrgpssm.data.doubts import Asked, doubt_inputs, doubt_scores, doubt_training, warn_of
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.estimator.fitting import ask_of_data
from mrgpssm.estimator.params import get_params, set_params
from mrgpssm.file import write_atomic, write_json
from mrgpssm.prediction.forecast import LEVELS, Forecast, check_simulation, make_forecast, report_times
from mrgpssm.prediction.scores import tabulate_scores
from mrgpssm.spec import MOST_SEED, Training, Whole
from mrgpssm.training.progress import announce, line_stages
from mrgpssm.training.runs import CHECKPOINT_SECONDS, open_run


class Blend:
    """Several simulators as one: the mean is a weighted mean of theirs, the bands are learned around it.

        y = Σ_k s_k m_k + e,   s_k >= 0,   Σ_k s_k = 1 for every output,

    with m_k the free run of part k. Shares s and the law of the noise e, Student's t with a width of its own at every
    row, are learned on recordings that the parts have not seen: for every fold, each part is trained without some of
    the recordings and simulated over these. The parts of a fold are as large as the final ones, with as many restarts
    and as large an ensemble, so that shares are judged on what the final parts will be. That is the price: a blend of
    four folds trains every part five times; a state-space model trains all five side by side. With validation
    recordings there are no folds, and shares and law are learned on these.

    The first part has what the others leave, at least a tenth. Arguments are stored as given. What is learned is in
    `fitted_`; `shares_` is a table of it, and `validation_scores_` are scores on what was left out, with bands fitted
    to these very runs.

        blend = Blend().fit(train)
        Blend({"ours": MRGPSSM((30, 1)), "trees": StaticTrees()}, folds=3)

    Args:
        parts: Simulators, in a list or by name: `MRGPSSM`, baselines, or any other `Simulator`. Left out, they are
            `MRGPSSM()`, `StaticGP()` and `StaticTrees()`.
        folds: How often a part of the recordings is left out.
        seed: Seed of the default parts, and of the free runs over what was left out.
    """

    def __init__(
        self,
        parts: SequenceOf[Simulator] | Mapping[str, Simulator] | None = None,
        folds: int = 4,
        seed: int = 0,
    ):
        self.parts = parts
        self.folds = folds
        self.seed = seed
        self.validation_scores_: pd.DataFrame | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as given."""
        return get_params(self, deep)

    def set_params(self, **params: Any) -> "Blend":
        """Change arguments by name."""
        set_params(self, params)
        return self

    def fit(
        self,
        sequences: Data,
        validation: Data | None = None,
        progress: bool = True,
        run_dir: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        *,
        inputs: SequenceOf[str] = (),
        outputs: SequenceOf[str] = (),
        dt: float | None = None,
    ) -> "Blend":
        """Learn all parts from one or many recordings, then their shares and the bands.

        With `run_dir`, state-space models have folders of their own below it, `parts/NAME`; started again with the same
        data and arguments, a blend that was cut short goes on there.

        Args:
            sequences: Recordings with the same columns and the same dt: sequences, or tables with `inputs` and
                `outputs`.
            validation: Other recordings, that shares and bands are learned on instead of folds.
            progress: Announce every stage, and show how parts are trained.
            run_dir: A folder for this blend alone; the blend is left in `model.mrgpssm`.
            checkpoint_seconds: Seconds between checkpoints of a part that has a folder.
            inputs: Names of the input columns of tables.
            outputs: Names of the output columns of tables.
            dt: Seconds between the rows of tables; left out, the median step of their times, else 1 s.

        Returns:
            The blend itself.

        Raises:
            ConfigError: An argument makes no sense, or `run_dir` holds another run or a finished one.
            DataError: The sequences cannot be used as given.
            FitError: A part could not be trained, or its free run is not finite.
            Interrupted: Ctrl-C or SIGTERM, where there is a `run_dir`; the message says how to go on.
        """
        training = as_list(sequences, inputs, outputs, dt)
        check_alike(training)
        names = ((first := training[0]).input_names, first.output_names, first.dt)
        held_out = [] if validation is None else as_list(validation, *names)
        wanted = 0 if held_out else Whole(2).check("folds", self.folds)
        parts, self.chosen_ = settle_parts(name_parts(self._given()), training, wanted)
        folds = find_folds(training, held_out, wanted, parts)
        if run_dir is not None:
            check_savable(parts, "Without run_dir it can be blended all the same.")
        doubts = doubt_training(training, held_out, _ask_of_data(parts, len(folds)))
        warn_of(doubts)
        announce(self.chosen_ if progress else ())
        about: dict[str, Any] = dict(zip(("input_names", "output_names", "dt"), names, strict=True))
        about |= {"scaling": Scaling.fit(training), "units": dict(first.units), "seen": Seen.of(training, doubts)}
        with open_run(run_dir, checkpoint_seconds) as run:
            trainer = PartTrainer(parts, run, progress, line_stages(progress, "blend"))
            trainer.identify({"folds": len(folds), "seed": self.seed}, [*training, *held_out])
            with trainer.explain_stop():
                scores = self._learn(trainer, training, held_out, folds, about)
            if run is not None:
                write_json(run.metrics, {"validation": scores.to_dict("index")})
                self.save(run.model)
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
        """Run all parts freely over the inputs (T, D_u) and blend them; see `MRGPSSM.simulate`.

        The components of the forecast are what each part contributes, its share included.

        Args:
            inputs: A table, Series or sequence, whose columns are found by name, or an array with the columns of
                training in their order.
            warmup: The sequence just before, or a pair of its inputs (T, D_u) and outputs (T, D_y).
            samples: Trajectories of parts that draw some.
            seed: Their seed.
            stride: Report every so many rows.
            quantiles: Levels to keep.
            keep_samples: Keep trajectories of measurements in `Forecast.samples`, for bands of sums or largest values.

        Returns:
            Mean, deviation, quantiles and components in the data's units.

        Raises:
            ConfigError: The blend is not fitted, or an argument makes no sense.
            DataError: Columns or dt are not those of training, or an input is missing.
        """
        check_simulation(hasattr(self, "fitted_"), samples, stride, quantiles, seed)
        model = self.fitted_
        names = (model.input_names, model.output_names, model.dt)
        sequence = as_inputs(inputs, *names)
        warn_of(doubt_inputs(model.seen, [sequence]))
        past = None if warmup is None else as_warmup(warmup, *names)
        run = run_parts(model.parts, sequence, model.scaling, warmup=past, samples=samples, seed=seed, stride=stride)
        parts = dict(zip(model.parts, model.shares[:, None] * run.means, strict=True))
        time, about = report_times(sequence)[::stride], (model.output_names, model.units)
        forecast = make_forecast(time, model.measure(run), parts, model.scaling, about, quantiles)
        if not keep_samples:
            return forecast
        return replace(forecast, samples=model.follow(run, sequence.clock()[::stride], samples, seed))

    def score(self, sequences: Data, samples: int = 100, seed: int = 0, warmup_rows: int = 0) -> pd.DataFrame:
        """Free run over every sequence from its first row; one row per output, with the columns of `MRGPSSM.score`.

        Args:
            sequences: Sequences or tables; columns are found by name, and missing outputs count nowhere.
            samples: Trajectories of parts that draw some.
            seed: Their seed.
            warmup_rows: First rows of every sequence whose measured outputs set the state; they are not scored.

        Returns:
            The table of scores.

        Raises:
            ConfigError: The blend is not fitted, or an argument makes no sense.
            DataError: Columns or dt are not those of training, or an output has no measured value.
        """
        check_simulation(hasattr(self, "fitted_"), samples, 1, LEVELS, seed)
        model = self.fitted_
        matched = as_list(sequences, model.input_names, model.output_names, model.dt)
        warn_of([*doubt_scores(model.seen, matched), *doubt_inputs(model.seen, matched)])
        cuts = [cut_warmup(s, Whole(0).check("warmup_rows", warmup_rows)) for s in matched]
        asked = {"samples": samples, "seed": seed}
        runs = (run_parts(model.parts, rest, model.scaling, warmup=past, **asked) for past, rest in cuts)
        return tabulate_scores((model.score_terms(run, seed) for run in runs), model.output_names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted blend to one file; `load` reads it.

        Args:
            path: The file, by custom ending in `.mrgpssm`; one that is there is replaced.

        Raises:
            ConfigError: The blend is not fitted, or a part cannot be saved: files hold `MRGPSSM`, `StaticGP` and
                `StaticTrees`.
            StorageError: The file cannot be written; what was there before is untouched.
        """
        check_simulation(hasattr(self, "fitted_"), 2, 1, ())
        write_atomic(Path(path), blend_bytes(self.fitted_))

    @property
    def parts_(self) -> dict[str, Simulator]:
        """The fitted parts by name."""
        return self.fitted_.parts

    @property
    def shares_(self) -> pd.DataFrame:
        """Shares of every part (rows) in every output (columns); each column adds up to 1."""
        model = self.fitted_
        return pd.DataFrame(model.shares, pd.Index(list(model.parts), name="part"), list(model.output_names))

    def _given(self) -> SequenceOf[Simulator] | Mapping[str, Simulator]:
        if self.parts is not None:
            return self.parts
        seed = Whole(0, MOST_SEED).check("seed", self.seed)
        return [MRGPSSM(training=Training(seed=seed)), StaticGP(seed=seed), StaticTrees(seed=seed)]

    def _learn(
        self,
        trainer: PartTrainer,
        training: list[Sequence],
        held_out: list[Sequence],
        folds: list[int],
        about: dict[str, Any],
    ) -> pd.DataFrame:
        """Train the parts, and those of every fold; weigh them on what they have not seen."""
        parts, apart = trainer.fit(training, folds, self.folds)
        unseen = [(f"fold {k + 1}", own, take_unseen(training, self.folds, k)) for k, own in apart.items()]
        left_out: list[LeftOut] = []
        for whose, own, sequences in unseen or [("the blend", parts, held_out)]:
            trainer.stage(f"free runs of {whose}")
            left_out += [run_parts(own, s, about["scaling"], seed=self.seed) for s in sequences]
        trainer.stage("shares and noise")
        shares = learn_shares(left_out)
        blend = FittedBlend(parts, shares, learn_noise(left_out, shares), **about)
        self.fitted_ = replace(blend, paths=learn_paths(blend, left_out))
        terms = (self.fitted_.score_terms(run, self.seed) for run in left_out)
        self.validation_scores_ = scores = tabulate_scores(terms, self.fitted_.output_names)
        return scores


def _ask_of_data(parts: Mapping[str, Simulator], folds: int) -> Asked:
    """What the parts ask of the amount of data."""
    asked = [ask_of_data(part.spec) for part in parts.values() if isinstance(part, MRGPSSM)]
    return Asked(max((a.window for a in asked), default=0), max((a.inducing for a in asked), default=0), folds)
