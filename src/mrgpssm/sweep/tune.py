"""Search over options on a validation free run, by Optuna; every trial is kept in a journal file.

    [data]  [model]  [run]     as for `mrgpssm fit`; data.validation is what trials are judged on
    [tune]
    trials = 30
    metric = "nrmse"           # or crps, nll: the mean over outputs, the lower the better
    resolutions = [[1], [30, 1], [30, 5, 1]]
    [tune.range]               # any numeric option of MRGPSSM: whole numbers, or a log scale for floats
    inducing = [20, 80]
    learning_rate = [0.01, 0.1]

The journal may be shared by any number of processes; what is in it is never run again.
"""

import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.data.tables import Columns, read_sequences
from mrgpssm.errors import ConfigError, DataError, FitError, need
from mrgpssm.estimator.config import RunConfig, make_config
from mrgpssm.estimator.estimator import MRGPSSM
from mrgpssm.file import open_lock
from mrgpssm.spec import Number, Structure, Whole, find_option

METRICS = ("nrmse", "rmse", "crps", "nll", "nll_gaussian")
RESOLUTIONS = ((1,), (5,), (30,), (30, 1), (30, 5, 1))
_STUDY = "mrgpssm"


@dataclass(frozen=True)
class TuneConfig:
    """The search space: candidates for the resolutions, and ranges of other options."""

    run: RunConfig
    trials: int
    metric: str
    resolutions: tuple[tuple[int, ...], ...]
    ranges: dict[str, tuple[float, float]]

    @property
    def journal(self) -> Path:
        """The file of the trials."""
        return Path(self.run.run.directory) / "tune.journal"

    def identity(self) -> str:
        """What a journal belongs to: everything but the number of trials."""
        return repr((self.run.data, self.run.spec, self.metric, self.resolutions, self.ranges))


@dataclass(frozen=True)
class BestTrial:
    """The best trial: its value, its options, and the number of trials."""

    value: float
    options: dict[str, Any]
    trials: int


def make_tune(tables: dict[str, Any], where: str) -> TuneConfig:
    """Check the tables; `where` names the source in messages."""
    rest = {name: table for name, table in tables.items() if name != "tune"}
    run, tune = make_config(rest, where), tables.get("tune", {})
    if not isinstance(tune, dict) or set(tune) - {"trials", "metric", "resolutions", "range"}:
        raise ConfigError(f"{where}: [tune] knows trials, metric, resolutions and range; got {sorted(tune)}.")
    if not run.data.validation:
        raise ConfigError(f"{where}: data.validation is empty; trials are judged on a free run over it.")
    if not Whole().accepts(tune.get("trials", 30)):
        raise ConfigError(f"{where}: tune.trials must be a whole number, at least 1; got {tune['trials']!r}.")
    if tune.get("metric", "nrmse") not in METRICS:
        raise ConfigError(f"{where}: tune.metric must be one of {', '.join(METRICS)}; got {tune['metric']!r}.")
    candidates = tune.get("resolutions", RESOLUTIONS)
    if not isinstance(candidates, (list, tuple)) or not candidates:
        raise ConfigError(f"{where}: tune.resolutions must be a list of lists, such as [[1], [30, 1]].")
    for candidate in candidates:
        Structure(resolutions=candidate)
    ranges = {name: _range(name, value, where) for name, value in tune.get("range", {}).items()}
    return TuneConfig(run, tune.get("trials", 30), tune.get("metric", "nrmse"), tuple(map(tuple, candidates)), ranges)


def _range(name: str, value: Any, where: str) -> tuple[float, float]:
    kind = _numeric(name)
    if kind is None:
        raise ConfigError(f"{where}: tune.range.{name} is not a numeric option.")
    pair = isinstance(value, list) and len(value) == 2 and all(map(kind.accepts, value))
    if not pair or not value[0] < value[1]:
        raise ConfigError(f"{where}: tune.range.{name} must be [lowest, highest], of the option's kind; got {value!r}.")
    return value[0], value[1]


def _numeric(name: str) -> Whole | Number | None:
    """The kind of an option that is a number."""
    option = find_option(name)
    return option.kind if option is not None and isinstance(option.kind, (Whole, Number)) else None


def tune(config: TuneConfig, workers: int, tell: Callable[[str], None]) -> BestTrial:
    """Run the missing trials, in this process or in several, and return the best trial."""
    study = _study(config, 0)
    if study.user_attrs.get("identity", config.identity()) != config.identity():
        raise ConfigError(f"{config.journal} belongs to another search; choose another run.directory, or delete it.")
    study.set_user_attr("identity", config.identity())
    before = _count_finished(study)
    tell(f"tune: {before} of {config.trials} trials done before")
    if workers == 1:
        _work(config, before, tell)
    else:
        _share(config, before, workers)
    done = _study(config, 0)
    missing = config.trials - _count_finished(done)
    if missing > 0:
        raise FitError(
            f"{missing} of {config.trials} trials are not in {config.journal}, because workers ended early; "
            "give the same command again to go on with them."
        )
    complete = [t for t in done.trials if t.value is not None and np.isfinite(t.value)]
    if not complete:
        raise FitError("No trial could be fitted; widen the search, or look at the data with mrgpssm suggest.")
    best = min(complete, key=lambda t: t.value)
    return BestTrial(best.value, best.user_attrs["options"], _count_finished(done))


def _share(config: TuneConfig, before: int, workers: int) -> None:
    """Run the trials in several processes, which end when this one is stopped."""
    context = multiprocessing.get_context("spawn")
    crew = [context.Process(target=_work_aside, args=(config, before + number)) for number in range(workers)]
    for process in crew:
        process.start()
    try:
        for process in crew:
            process.join()
    except KeyboardInterrupt:
        for process in crew:
            process.terminate()
        raise


def _work_aside(config: TuneConfig, seed: int) -> None:
    """Work in a child process. It ignores Ctrl-C, which the terminal sends to all processes; the parent stops it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work(config, seed, None)


def _study(config: TuneConfig, seed: int) -> Any:
    optuna = need("optuna", "mrgpssm tune needs Optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    config.journal.parent.mkdir(parents=True, exist_ok=True)
    open_lock(config.journal).close()  # Optuna would follow a link and wait for a pipe
    backend = import_module("optuna.storages.journal").JournalFileBackend(str(config.journal))
    sampler = optuna.samplers.TPESampler(seed=seed)
    storage = optuna.storages.JournalStorage(backend)
    return optuna.create_study(study_name=_STUDY, storage=storage, sampler=sampler, load_if_exists=True)


def _count_finished(study: Any) -> int:
    return sum(trial.state.is_finished() for trial in study.trials)


def _work(config: TuneConfig, seed: int, tell: Callable[[str], None] | None) -> None:
    """Run trials until all workers together have run enough."""
    study, data = _study(config, seed), config.run.data
    columns, gaps = Columns(data.inputs, data.outputs, data.time, data.dt), data.gaps
    training, validation = (
        read_sequences(list(files), columns, gaps=gaps)  # pyright: ignore[reportArgumentType]
        for files in (data.files, data.validation)
    )

    def stop(study: Any, trial: Any) -> None:
        if tell is not None:
            tell(f"tune: {_count_finished(study)} of {config.trials} trials, {config.metric} {trial.value}")
        if _count_finished(study) >= config.trials:
            study.stop()

    if _count_finished(study) < config.trials:
        study.optimize(
            lambda trial: _objective(config, training, validation, trial), callbacks=[stop], catch=(FitError,)
        )


def _objective(config: TuneConfig, training: list[Sequence], validation: list[Sequence], trial: Any) -> float:
    """The metric on the validation free run, averaged over outputs; infinite if the options do not fit the data."""
    names = [", ".join(map(str, candidate)) for candidate in config.resolutions]
    chosen = config.resolutions[names.index(trial.suggest_categorical("resolutions", names))]
    options: dict[str, Any] = {"resolutions": list(chosen)}
    for name, (low, high) in config.ranges.items():
        whole = isinstance(_numeric(name), Whole)
        options[name] = trial.suggest_int(name, low, high) if whole else trial.suggest_float(name, low, high, log=True)
    trial.set_user_attr("options", options)
    try:
        model = MRGPSSM.from_spec(config.run.spec.change(**options)).fit(training, progress=False)
    except DataError:
        return float("inf")
    return float(np.mean(model.score(validation)[config.metric].to_numpy()))
