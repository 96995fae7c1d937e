"""Checks of the estimator's arguments: one clear sentence each."""

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from mrgpssm.errors import ConfigError
from mrgpssm.model import PRESETS

_COUNTS = ("latent_dim", "inducing", "samples", "windows", "window", "cycles", "steps", "restarts")
_CHOICES = {
    "preset": tuple(PRESETS),
    "precision": ("float32", "float64"),
    "window_start": ("cache", "initial", "recognition"),
    "order": ("fast-first", "given"),
}


def check_options(model: Any) -> None:
    """Refuse constructor arguments that cannot work, before any data is touched."""
    resolutions = model.resolutions
    if isinstance(resolutions, (str, numbers.Number)) or not isinstance(resolutions, Iterable):
        raise ConfigError(
            f"resolutions must be a sequence of positive integers such as (30, 5, 1); got {resolutions!r}."
        )
    resolutions = tuple(resolutions)
    if not resolutions:
        raise ConfigError("resolutions is empty; give at least one, for example (30, 5, 1).")
    for r in resolutions:
        if not _is_count(r):
            raise ConfigError(f"Each resolution is a whole number of samples, at least 1; got {r!r} in {resolutions}.")
    for name in _COUNTS:
        value = getattr(model, name)
        if not _is_count(value):
            raise ConfigError(f"{name} must be a whole number, at least 1; got {value!r}.")
    if not _is_count(model.buffer, least=0):
        raise ConfigError(f"buffer must be a whole number, at least 0; got {model.buffer!r}.")
    if not _is_count(model.seed, least=0):
        raise ConfigError(f"seed must be a whole number, at least 0; got {model.seed!r}.")
    rate = model.learning_rate
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not (math.isfinite(rate) and rate > 0):
        raise ConfigError(f"learning_rate must be a positive number; got {rate!r}.")
    if not isinstance(model.anneal, (int, float)) or not 0 < model.anneal <= 1:
        raise ConfigError(
            f"anneal is the last factor on the learning rate, above 0 and at most 1; got {model.anneal!r}."
        )
    for name, choices in _CHOICES.items():
        if getattr(model, name) not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {getattr(model, name)!r}.")


def check_simulation(model: Any, samples: Any, stride: Any, quantiles: Iterable[float]) -> None:
    """Refuse a simulation that cannot be run."""
    if not hasattr(model, "models_"):
        raise ConfigError("The model is not fitted yet; call fit(sequences) first.")
    if not _is_count(samples, least=2):
        raise ConfigError(f"samples must be a whole number, at least 2, to have a spread; got {samples!r}.")
    if not _is_count(stride):
        raise ConfigError(f"stride must be a whole number of samples, at least 1; got {stride!r}.")
    for q in quantiles:
        if not 0 < q < 1:
            raise ConfigError(f"quantiles lie strictly between 0 and 1; got {q!r}.")


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least
