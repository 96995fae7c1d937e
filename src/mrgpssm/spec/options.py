"""The estimator's arguments, checked: one clear sentence each."""

import dataclasses
import numbers
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mrgpssm.data import Drive
from mrgpssm.errors import ConfigError
from mrgpssm.model import PRESETS

_COUNTS = ("latent_dim", "inducing", "samples", "windows", "window", "cycles", "steps", "restarts", "ensemble")
MOST_STATIC = 20_000
MOST_TREES = 2_000
MOST_FILTERS = 16  # and as many delays
MOST_DELAY = 100_000
MOST, MOST_SEED = 2**31 - 1, 2**32 - 1  # counters have 32 bits; so have the seeds of JAX without 64-bit integers
LISTS = ("resolutions", "filters", "delays")
_FROM_ZERO = ("buffer", "folds", "static", "finetune", "trees")
_UNSEEN = {"static": "is weighed", "trees": "are weighed", "early_stopping": "is judged"}  # what each needs it for
_SWITCHES = ("joint", "calibrate", "cascade", "early_stopping")
_CHOICES = {
    "preset": tuple(PRESETS),
    "precision": ("float32", "float64"),
    "window_start": ("cache", "initial"),
    "order": ("fast-first", "given"),
    "noise": ("gaussian", "student", "boosted"),
    "optimiser": ("adam", "natural"),
}


# What an argument of `MRGPSSM` that is not given means beside given resolutions: the paper's settings (supplement E.1).
FIXED: dict[str, Any] = {
    "resolutions": (30, 5, 1), "latent_dim": 2, "inducing": 50, "samples": 20, "windows": 20, "window": 50,
    "buffer": 10, "cycles": 10, "steps": 300, "restarts": 1, "ensemble": 1, "filters": (), "delays": (), "static": 0,
    "folds": 0, "noise": "gaussian", "finetune": 0, "cascade": False, "optimiser": "adam", "early_stopping": False,
    "trees": 0,
}  # fmt: skip


def settled(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the fixed value of each that is None."""
    return {key: FIXED[key] if value is None and key in FIXED else value for key, value in given.items()}


@dataclass(frozen=True)
class Options:
    """What `MRGPSSM` was told, after all checks; `MRGPSSM.__init__` documents and defaults them."""

    resolutions: tuple[int, ...]
    filters: tuple[float, ...]
    latent_dim: int
    inducing: int
    samples: int
    windows: int
    window: int
    buffer: int
    cycles: int
    steps: int
    learning_rate: float
    anneal: float
    restarts: int
    ensemble: int
    preset: str
    precision: Literal["float32", "float64"]
    window_start: Literal["cache", "initial"]
    order: Literal["fast-first", "given"]
    joint: bool
    calibrate: bool
    seed: int
    folds: int
    noise: Literal["gaussian", "student", "boosted"]
    delays: tuple[int, ...]
    static: int
    finetune: int
    cascade: bool
    optimiser: Literal["adam", "natural"]
    early_stopping: bool
    trees: int

    @property
    def drive(self) -> Drive:
        """What the model sees of the inputs."""
        return Drive(self.filters, self.delays)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return dataclasses.asdict(self) | {key: list(getattr(self, key)) for key in LISTS}


def check_options(given: Mapping[str, Any]) -> Options:
    """Refuse arguments that cannot work, before any data is touched."""
    given = settled(given)
    lists = {key: check(given[key]) for key, check in zip(LISTS, (_resolutions, _filters, _delays), strict=True)}
    for name in _COUNTS:
        _check_count(name, given[name], 1)
    _check_count("buffer", given["buffer"], 0)
    _check_count("seed", given["seed"], 0, MOST_SEED)
    _check_count("folds", given["folds"], 0)
    _check_count("static", given["static"], 0, MOST_STATIC)
    _check_count("finetune", given["finetune"], 0)
    _check_count("trees", given["trees"], 0, MOST_TREES)
    rate, anneal = given["learning_rate"], given["anneal"]
    if not is_positive(rate):
        raise ConfigError(f"learning_rate must be a positive number; got {rate!r:.80}.")
    if not _is_number(anneal) or not 0 < anneal <= 1:
        raise ConfigError(f"anneal is the last factor on the learning rate, above 0 and at most 1; got {anneal!r:.80}.")
    for name, choices in _CHOICES.items():
        if given[name] not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {given[name]!r:.80}.")
    for name in _SWITCHES:
        if not isinstance(given[name], (bool, np.bool_)):
            raise ConfigError(f"{name} must be true or false; got {given[name]!r:.80}.")
    if given["folds"] == 1:
        raise ConfigError("folds must be 0 or at least 2; a single one would leave out everything.")
    if given["noise"] != "gaussian" and not given["calibrate"]:
        raise ConfigError(f'noise="{given["noise"]}" is learned in calibration; use calibrate=True with it.')
    if given["ensemble"] > given["restarts"]:
        raise ConfigError(
            f"ensemble is how many of the restarts are kept, at most restarts = {given['restarts']}; "
            f"got {given['ensemble']}."
        )
    checked: dict[str, Any] = {name: int(given[name]) for name in (*_COUNTS, *_FROM_ZERO, "seed")}
    checked |= {name: given[name] for name in _CHOICES}
    checked |= {"learning_rate": float(rate), "anneal": float(anneal)}
    checked |= {name: bool(given[name]) for name in _SWITCHES}
    return Options(**lists, **checked)


def _resolutions(given: Any) -> tuple[int, ...]:
    if isinstance(given, (str, numbers.Number)) or not isinstance(given, Iterable):
        raise ConfigError(f"resolutions must be a sequence of positive integers such as (30, 5, 1); got {given!r:.80}.")
    resolutions = tuple(given)
    if not resolutions:
        raise ConfigError("resolutions is empty; give at least one, for example (30, 5, 1).")
    for r in resolutions:
        if not is_count(r):
            raise ConfigError(
                f"Each resolution is a whole number of samples, at least 1; got {r!r:.80} in {resolutions!s:.80}."
            )
        _check_count("resolutions", r, 1)
    return tuple(int(r) for r in resolutions)


def _filters(given: Any) -> tuple[float, ...]:
    if isinstance(given, (str, numbers.Number)) or not isinstance(given, Iterable):
        raise ConfigError(
            f"filters must be a sequence of time constants in steps such as (10, 60, 300); got {given!r:.80}."
        )
    filters = tuple(given)
    for tau in filters:
        if not is_positive(tau):
            raise ConfigError(f"Each filter is a time constant in steps, a positive number; got {tau!r:.80}.")
    if len(filters) > MOST_FILTERS or len(set(filters)) < len(filters):
        raise ConfigError(f"filters must be at most {MOST_FILTERS} different time constants.")
    return tuple(float(tau) for tau in filters)


def _delays(given: Any) -> tuple[int, ...]:
    if isinstance(given, (str, numbers.Number)) or not isinstance(given, Iterable):
        raise ConfigError(f"delays must be a sequence of whole numbers of steps such as (5, 20); got {given!r:.80}.")
    delays = tuple(given)
    for d in delays:
        if not is_count(d):
            raise ConfigError(f"Each delay is a whole number of steps, at least 1; got {d!r:.80}.")
        _check_count("delays", d, 1, MOST_DELAY)
    if len(delays) > MOST_FILTERS or len(set(delays)) < len(delays):
        raise ConfigError(f"delays must be at most {MOST_FILTERS} different numbers of steps.")
    return tuple(int(d) for d in delays)


def _check_count(name: str, value: Any, least: int, most: int = MOST) -> None:
    if not is_count(value, least):
        raise ConfigError(f"{name} must be a whole number, at least {least}; got {value!r:.80}.")
    if value > most:
        raise ConfigError(f"{name} must be at most {most:,}; got a larger number.")


def check_calibration(options: Options, validated: bool) -> None:
    """Refuse what there will be nothing to learn from."""
    if validated or options.folds:
        return
    for name, needs in _UNSEEN.items():
        if getattr(options, name):
            raise ConfigError(f"{name} {needs} on unseen data; give validation sequences, or folds=4.")
    if options.noise != "gaussian":
        raise ConfigError(
            f'noise="{options.noise}" is learned from unseen data; give validation sequences, or folds=4.'
        )


def check_simulation(fitted: bool, samples: Any, stride: Any, quantiles: Iterable[float], seed: Any = 0) -> None:
    """Refuse a simulation that cannot be run."""
    if not fitted:
        raise ConfigError("The model is not fitted yet; call fit(sequences) first.")
    if not is_count(samples, least=2):
        raise ConfigError(f"samples must be a whole number, at least 2, to have a spread; got {samples!r:.80}.")
    if not is_count(stride):
        raise ConfigError(f"stride must be a whole number of samples, at least 1; got {stride!r:.80}.")
    _check_count("seed", seed, 0, MOST_SEED)
    for q in quantiles:
        if not 0 < q < 1:
            raise ConfigError(f"quantiles lie strictly between 0 and 1; got {q!r:.80}.")


def is_count(value: Any, least: int = 1) -> bool:
    """A whole number, at least `least`; True and False are no numbers."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def is_positive(value: Any) -> bool:
    """A positive number that a float can hold."""
    return _is_number(value) and 0 < value <= sys.float_info.max


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
