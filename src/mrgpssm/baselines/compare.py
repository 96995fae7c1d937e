"""Fit and score every baseline on a user's own data."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mrgpssm.baselines import METHODS
from mrgpssm.blend.forest import need_sklearn
from mrgpssm.data import Sequence
from mrgpssm.errors import ConfigError, DataError


@dataclass(frozen=True)
class Rival:
    """Scores of one baseline on the test sequences, and the configuration chosen on its training sequences."""

    scores: pd.DataFrame
    chosen: dict[str, Any]


def methods_named(text: str) -> tuple[str, ...]:
    """The baselines for "baselines" (all) or a list of names with commas; checks that each can run."""
    names = tuple(METHODS) if text == "baselines" else tuple(n.strip() for n in text.split(",") if n.strip())
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise ConfigError(
            f"There is no baseline {', '.join(unknown)!r}; choose baselines, or from {', '.join(METHODS)}."
        )
    if "trees" in names:
        need_sklearn()
    return names


def compare(
    training: list[Sequence], test: list[Sequence], methods: Iterable[str], progress: bool = True
) -> dict[str, Rival]:
    """Fit each baseline to the training sequences and score it on the test sequences."""
    for seen, fresh in itertools.product(training, test):
        if np.array_equal(seen.outputs, fresh.outputs, equal_nan=True):
            raise DataError(f"{fresh.name} is among the training data too; test on other recordings.")
    rivals = {}
    for name in methods:
        model = METHODS[name]().fit(training, progress=progress)
        rivals[name] = Rival(model.score(test), model.describe_choice())
    return rivals
