"""What an experiment is told: a TOML file of this package, checked, at one of two scales."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrgpssm.errors import ConfigError
from mrgpssm.file import read_toml
from mrgpssm.spec import Spec, make_spec

EXPERIMENTS = ("semi-synthetic", "batch-vs-resolution", "engine", "grid", "sensitivity", "complexity")
SCALES = ("smoke", "paper")
DEFAULTS = Spec().complete().to_json()


@dataclass(frozen=True)
class Method:
    """One row of a table: a name, the estimator's arguments, and where the observation noise starts (None: preset).

    `as_long_as` names another method: this one takes as many steps as fit into the other's time.
    """

    name: str
    spec: Spec
    observation_sd: float | None = None
    as_long_as: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """Free runs over the test sequences: samples, and rows per compiled chunk."""

    samples: int
    chunk: int


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale; `more` holds what only this experiment knows."""

    what: str
    scale: str
    title: str
    problem: str
    methods: tuple[Method, ...]
    evaluation: Evaluation
    repeats: int
    more: dict[str, Any]

    def config(self, method: Method) -> dict[str, Any]:
        """All that decides the numbers of a method's runs, but for the data: what the record's hash is of."""
        return {
            "options": method.spec.to_json(),
            "observation_sd": method.observation_sd,
            "evaluation": dataclasses.asdict(self.evaluation),
            "repeats": self.repeats,
        }


def load_experiment(what: str, scale: str) -> Experiment:
    """Read an experiment's config; at smoke scale `smoke.toml` overrides its sizes."""
    if what not in EXPERIMENTS:
        raise ConfigError(f"There is no experiment {what!r}; choose one of {', '.join(EXPERIMENTS)}.")
    if scale not in SCALES:
        raise ConfigError(f"--scale must be one of {', '.join(SCALES)}; got {scale!r}.")
    table, small = _read(what), _read("smoke") if scale == "smoke" else {}
    own_small = table.pop("smoke", {})
    if small:
        table |= own_small
    own, smaller = table.pop("model", {}), small.get("model", {})
    sizes = own | smaller
    if small:  # never more restarts than asked for
        sizes["restarts"] = min(own.get("restarts", 1), smaller["restarts"])
    observation_sd = table.pop("observation_sd", None)
    return Experiment(
        what=what,
        scale=scale,
        title=table.pop("title"),
        problem=table.pop("problem"),
        methods=tuple(_method(entry, sizes, smaller, observation_sd) for entry in table.pop("method", ())),
        evaluation=Evaluation(**(table.pop("evaluation") | small.get("evaluation", {}))),
        repeats=min(table.pop("repeats", 1), 2 if small else 100),
        more=table | {"smaller": smaller, "sizes": sizes},
    )


def slug(name: str) -> str:
    """Lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("=", "")).strip("-")


def _read(name: str) -> dict[str, Any]:
    return read_toml(Path(__file__).parent / "configs" / f"{name}.toml")


def _method(
    entry: dict[str, Any], sizes: dict[str, Any], small: dict[str, Any], observation_sd: float | None
) -> Method:
    """A method with the shared sizes; at smoke scale these win over its own, but for what its `smoke` table says."""
    known = ("name", "as_long_as", "smoke")
    own = {key: value for key, value in entry.items() if key not in (*known, *small)}
    if small:
        own |= entry.get("smoke", {})
    return Method(entry["name"], make_spec(sizes | own).complete(), observation_sd, entry.get("as_long_as"))
