"""The options of a model, each declared once: its type, its default, its bounds, and one sentence of help.

`Structure` is what a model file must hold to simulate, `Training` how the model is learned, `Bands` how its uncertainty
is calibrated. Constructor checks, command-line flags, TOML keys, the API page and the report's table of settings are
made from these declarations. An option that is None is chosen by `fit`: from the data where no resolutions are given,
else it has its `fixed` value, the paper's (supplement E.1).

An option of `Structure` is also an argument of `MRGPSSM`, and the tests compare both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mrgpssm.arrays.drive import Drive
from mrgpssm.errors import ConfigError
from mrgpssm.spec import cascade
from mrgpssm.spec.declare import Option, OptionSection, describe_unknown, fix, option, options_of, read_section
from mrgpssm.spec.kinds import Choice, Ingredient, Number, Several, Switch, Whole

MOST_SEED = 2**32 - 1  # seeds have 32 bits where JAX has no 64-bit integers
HIDDEN_UNITS = 8  # of the nonlinear emission
MEMORY, MOST_MEMORY = 100, 5_000
INGREDIENTS = {
    "kernel": Ingredient("mrgpssm.gp.AbstractKernel", rbf="RBF", matern32="Matern32", matern52="Matern52"),
    "emission": Ingredient(
        "mrgpssm.model.AbstractEmission",
        identity="IdentityEmission",
        linear="LinearEmission",
        nonlinear="NonlinearEmission",
    ),
    "scheme": Ingredient("mrgpssm.rollout.AbstractScheme", full_mc="FullMC", marginal="Marginal", analytic="Analytic"),
}


@dataclass(frozen=True)
class Structure(OptionSection):
    """What a model is made of; a model file holds it."""

    resolutions: tuple[int, ...] = option(
        None,
        Several(Whole(), example="30,5,1"),
        "Samples that one training step covers, one number per component; left out, they are chosen from the data.",
        fixed=(30, 5, 1),
    )
    latent_dim: int = option(None, Whole(), "Latent dimensions of each component.", fixed=2)
    inducing: int = option(None, Whole(), "Inducing points of each Gaussian process.", fixed=50)
    preset: Literal["stable", "paper"] = option(
        "stable",
        Choice("stable", "paper"),
        "stable keeps free runs bounded; paper is the transition and the initial values of the paper.",
    )
    memory: int = option(
        None,
        Whole(2, MOST_MEMORY),
        "Longest memory of a component in its own steps: the spectral norm of I + A is below 1 - 1 / memory.",
        fixed=MEMORY,
    )
    integrators: int = option(
        None,
        Whole(0),
        "States of the slowest component that add up without end, at eigenvalue 1: they grow at most linearly in time.",
        fixed=0,
    )
    precision: Literal["float32", "float64"] = option(
        None, Choice("float32", "float64"), "Floating-point type of all that is computed.", fixed="float32"
    )
    joint: bool = option(
        False, Switch("separate"), "One model with a common state for all outputs, instead of one model per output."
    )
    cascade: bool = option(
        None, Switch(), "The states of slower components are inputs of the faster ones.", fixed=False
    )
    filters: tuple[float, ...] = option(
        None,
        Several(Number(), example="10,60,300", most=16, distinct=True, empty=True),
        "Time constants, in steps of dt, of exponential averages of the inputs that the model sees beside them.",
        fixed=(),
    )
    delays: tuple[int, ...] = option(
        None,
        Several(Whole(most=100_000), example="5,20", most=16, distinct=True, empty=True),
        "Lengths, in steps of dt, by which further copies of the inputs are delayed, for dead times.",
        fixed=(),
    )
    feedthrough: bool = option(
        None, Switch(), "Inputs act on the outputs of their own row, too, not on later ones alone.", fixed=False
    )
    kernel: Any = option(
        "rbf", INGREDIENTS["kernel"], "Covariance of the Gaussian processes: rbf, matern32 or matern52."
    )
    emission: Any = option(
        None,
        INGREDIENTS["emission"],
        "How a state shows in the outputs: identity, linear or nonlinear; identity shows its first dimensions.",
        fixed="identity",
    )
    scheme: Any = option(
        "full_mc",
        INGREDIENTS["scheme"],
        "How training draws trajectories: full_mc, marginal or analytic; free runs are always full_mc.",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.integrators and self.latent_dim is not None and self.integrators >= self.latent_dim:
            raise ConfigError(
                f"integrators add up what other states do, so they must be fewer than latent_dim = {self.latent_dim}; "
                f"got {self.integrators}."
            )
        if self.integrators and self.preset == "paper":
            raise ConfigError('integrators need preset="stable": with preset="paper" every state may add up.')

    @property
    def drive(self) -> Drive:
        """What the model sees of the inputs."""
        return Drive(self.filters or (), self.delays or (), bool(self.feedthrough))

    def groups(self, outputs: int) -> tuple[tuple[int, ...], ...]:
        """The output columns of every model: all together where `joint`, else one each."""
        return (tuple(range(outputs)),) if self.joint else tuple((column,) for column in range(outputs))

    def integrating(self, part: int) -> int:
        """The first states of component `part` that integrate."""
        return (self.integrators or 0) if self.resolutions[part] == max(self.resolutions) else 0

    def slower(self, part: int) -> tuple[int, ...]:
        """The components whose states drive component `part`."""
        return cascade.slower(self.resolutions, part) if self.cascade else ()


@dataclass(frozen=True)
class Training(OptionSection):
    """How a model is learned: Algorithms 1 to 3 of the paper."""

    samples: int = option(None, Whole(), "Trajectories drawn for each window.", fixed=20)
    windows: int = option(None, Whole(), "Windows in a mini-batch.", fixed=20)
    window: int = option(None, Whole(), "Scored points of a window.", fixed=50)
    buffer: int = option(None, Whole(0), "Points before them that are burn-in and do not enter the loss.", fixed=10)
    cycles: int = option(
        None,
        Whole(0),
        "Rounds of backfitting over all components; with none, and no finetune, the model stays as it starts.",
        fixed=10,
    )
    steps: int = option(None, Whole(), "Gradient steps per component and cycle.", fixed=300)
    learning_rate: float = option(None, Number(), "Step size of Adam at the start of a cycle.", fixed=0.05)
    anneal: float = option(0.1, Number(most=1.0), "Factor that the learning rate has fallen to in the last cycle.")
    restarts: int = option(None, Whole(), "Random starts of every output, trained side by side.", fixed=1)
    ensemble: int = option(
        None, Whole(), "How many of the restarts, the best, are kept and simulated as a mixture.", fixed=1
    )
    window_start: Literal["cache", "filter", "initial"] = option(
        None,
        Choice("cache", "filter", "initial"),
        "Where windows start: cache is the component's own last simulation, filter corrects one by measured outputs, "
        "initial is q(x_0).",
        fixed="cache",
    )
    order: Literal["fast-first", "given"] = option(
        "fast-first",
        Choice("fast-first", "given"),
        "fast-first trains components by increasing resolution, given in the order of the resolutions.",
    )
    optimiser: Literal["adam", "natural"] = option(
        None,
        Choice("adam", "natural"),
        "adam, or natural: natural gradients for q(v) and Adam for everything else.",
        fixed="adam",
    )
    finetune: int = option(
        None, Whole(0), "Further cycles after backfitting in which components train together.", fixed=0
    )
    refit: int = option(
        None,
        Whole(0),
        "Cycles on all data in which the models of the folds go on to become the restarts; 0 trains restarts apart.",
        fixed=0,
    )
    early_stopping: bool = option(
        None,
        Switch("to-the-end"),
        "Keep the cycle that is best in free runs over unseen data; needs validation data or folds.",
        fixed=False,
    )
    start: Literal["preset", "linear"] = option(
        None,
        Choice("preset", "linear"),
        "Where training starts: preset has fixed values, linear is a linear model identified on the training data.",
        fixed="preset",
    )
    seed: int = option(0, Whole(0, MOST_SEED), "Seed of everything random in training.")

    def __post_init__(self):
        super().__post_init__()
        if self.ensemble is not None and self.restarts is not None and self.ensemble > self.restarts:
            raise ConfigError(
                f"ensemble is how many of the restarts are kept, at most restarts = {self.restarts}; "
                f"got {self.ensemble}."
            )


@dataclass(frozen=True)
class Bands(OptionSection):
    """How wide the bands are: learned on data that training has not seen."""

    folds: int = option(
        None,
        Whole(0),
        "Further models, each without a part of the data, on which bands are calibrated; 4, or 0 with validation data.",
        fixed=0,
    )
    fold_restarts: int = option(
        None,
        Whole(),
        "Random starts of every fold; the best of them, as many as `ensemble`, are judged as a mixture.",
        fixed=1,
    )
    noise: Literal["gaussian", "student"] = option(
        None,
        Choice("gaussian", "student"),
        "Law of measurements: gaussian, or student: heavy tails and a width that varies from row to row.",
        fixed="gaussian",
    )
    calibrate: bool = option(True, Switch(), "Adjust the width of the bands on validation data or on folds.")

    def __post_init__(self):
        super().__post_init__()
        if self.folds == 1:
            raise ConfigError("folds must be 0 or at least 2; a single one would leave out everything.")
        if self.noise not in (None, "gaussian") and not self.calibrate:
            raise ConfigError(f'noise="{self.noise}" is learned in calibration; use calibrate=True with it.')


SECTIONS: dict[str, type[OptionSection]] = {"model": Structure, "training": Training, "bands": Bands}


@dataclass(frozen=True)
class Spec:
    """All options of a fit, section by section."""

    structure: Structure = Structure()
    training: Training = Training()
    bands: Bands = Bands()

    def tables(self) -> dict[str, dict[str, Any]]:
        """All options as JSON values, by the names of the sections in a file."""
        return {title: section.to_json() for title, section in zip(SECTIONS, self.sections, strict=True)}

    @property
    def fold_members(self) -> int:
        """Models of all folds, for one group of outputs; they come after the restarts that train apart."""
        return self.bands.folds * self.bands.fold_restarts

    @property
    def members(self) -> int:
        """All models that train, for one group of outputs."""
        return self.fold_members + (0 if self.training.refit else self.training.restarts)

    def to_json(self) -> dict[str, Any]:
        """All options as JSON values, in one table: no name is in two sections."""
        return {name: value for table in self.tables().values() for name, value in table.items()}

    def flat(self) -> dict[str, Any]:
        """All options by name."""
        return {name: getattr(s, name) for s in self.sections for name in options_of(type(s))}

    def change(self, **options: Any) -> "Spec":
        """The same with other values of some options."""
        return make_spec(self.flat() | options)

    @property
    def sections(self) -> tuple[OptionSection, OptionSection, OptionSection]:
        """In the order of `SECTIONS`."""
        return self.structure, self.training, self.bands

    def complete(self) -> "Spec":
        """With the fixed value of every option that is None."""
        return Spec(fix(self.structure), fix(self.training), fix(self.bands))

    def check_refit(self) -> None:
        """Refuse restarts that cannot come from the models of the folds."""
        if not self.training.refit:
            return
        if self.training.early_stopping:
            raise ConfigError("refit trains on what early_stopping is judged on; use one of them.")
        if not self.fold_members:
            raise ConfigError(
                "refit goes on from the models of the folds, and there are none; use folds=4, or refit=0."
            )
        if self.training.restarts != self.fold_members:
            raise ConfigError(
                f"refit makes a restart of every model of the folds, folds x fold_restarts = {self.fold_members}; got "
                f"restarts = {self.training.restarts}. Use as many, or refit=0."
            )

    def check_evidence(self, validated: bool) -> None:
        """Refuse what there will be no unseen data to learn from."""
        if validated or self.bands.folds:
            return
        remedy = "on unseen data; give validation sequences, or folds=4."
        if self.training.early_stopping:
            raise ConfigError(f"early_stopping is judged {remedy}")
        if self.bands.noise not in (None, "gaussian"):
            raise ConfigError(f'noise="{self.bands.noise}" is learned {remedy}')


def find_option(name: str) -> Option | None:
    """The declaration of an option of any section."""
    return next((options_of(section)[name] for section in SECTIONS.values() if name in options_of(section)), None)


def sort_options(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Options of any section as one table per section."""
    tables: dict[str, dict[str, Any]] = {title: {} for title in SECTIONS}
    for name, value in given.items():
        title = next((t for t, section in SECTIONS.items() if name in options_of(section)), None)
        if title is None:
            known = [known for section in SECTIONS.values() for known in options_of(section)]
            raise ConfigError(describe_unknown("option", name, known))
        tables[title][name] = value
    return tables


def make_spec(given: Mapping[str, Any]) -> Spec:
    """A checked specification from options of any section."""
    tables = sort_options(given)
    return Spec(Structure(**tables["model"]), Training(**tables["training"]), Bands(**tables["bands"]))


def read_spec(tables: Mapping[str, Mapping[str, Any]], where: str) -> Spec:
    """The specification in the tables of a file; `where` is what messages call it."""
    homes = {name: title for title, section in SECTIONS.items() for name in options_of(section)}
    for title in SECTIONS:
        for key in tables.get(title, {}):
            if homes.get(key, title) != title:
                raise ConfigError(f"{where}: {key} stands in [{title}]; it belongs in [{homes[key]}].")
    return Spec(
        read_section(Structure, tables.get("model", {}), where, "model"),
        read_section(Training, tables.get("training", {}), where, "training"),
        read_section(Bands, tables.get("bands", {}), where, "bands"),
    )


def arrange(**given: Any) -> dict[str, Any]:
    """Arguments of `MRGPSSM` from options of any section: arrange(latent_dim=4, steps=50) is
    {"latent_dim": 4, "training": Training(steps=50), "bands": Bands()}.
    """
    tables = sort_options(given)
    return tables["model"] | {"training": Training(**tables["training"]), "bands": Bands(**tables["bands"])}
