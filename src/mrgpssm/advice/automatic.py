"""`MRGPSSM()` without arguments: every setting that was not given is chosen from the data, with the reason in words.

What spoke for the rules, and what against, is in docs/experiments.md. All data get resolutions that follow their time
constants, a mixture of restarts, and bands learned on folds. Where inputs act on outputs of their own row, there is
feed-through. Where a linear model of high order explains most of a few recordings, training starts from it, and ends
with the cycle that is best on rows left out: the linear model is the first of them. Many long recordings (four, with
5,000 rows in all) also get averaged and delayed inputs and a learned noise law; a single one cannot show whether those
carry over. Short data get one or two small components.
"""

from dataclasses import asdict, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from mrgpssm.advice.suggest import LONG, MANY, Room, Suggestion, make_room, suggest
from mrgpssm.arrays.drive import Drive
from mrgpssm.data import Scaling, Sequence, apply_drive, fill
from mrgpssm.data.ranges import Recording
from mrgpssm.errors import DataError
from mrgpssm.spec import MEMORY, Spec, make_spec
from mrgpssm.training.linear.feedthrough import one_step_ratio
from mrgpssm.training.linear.subspace import Identified, identify

_FASTEST, _COARSE = 10, 3  # rows of the fastest average; the least resolution that needs some
_LONGEST_DELAY, _DEAD = 10, 0.75  # a dead time is this share of a fast time constant, at most so many rows
_FOLDS = 4
_HIGH, _TRUSTED, _SEEN, _ENOUGH = 5, 0.35, 100, 1500  # least order, largest error, longest memory and least rows
_LOOKED_AT = 20_000  # rows that are looked at: of a recording for an order, in all for feed-through
_AT_ONCE = 0.9  # the one-step error, squared, that feed-through must fall below
_STEPS = {"gpu": 300, "cpu": 150}
_SHORT = {"latent_dim": 4, "inducing": 20, "samples": 10, "windows": 10, "steps": 100, "restarts": 5, "ensemble": 5}

Settings = dict[str, Any]


class Selection(NamedTuple):
    """A specification without None, and one sentence about each option that was chosen."""

    spec: Spec
    reasons: tuple[str, ...]


class Reason(NamedTuple):
    """What is said where one of the options is chosen: a text with final values in braces, and why."""

    options: tuple[str, ...]
    text: str
    why: str = ""

    def write(self, values: Settings) -> str:
        """The sentence."""
        return ": ".join(filter(None, (self.text.format(**values), self.why)))


def choose(given: Spec, training: list[Sequence], validated: bool) -> Selection:
    """Options that are None are chosen; where resolutions are given, the others are fixed at the paper's."""
    if given.structure.resolutions is not None:
        return Selection(given.complete(), ())
    through = find_feedthrough(training) if given.structure.feedthrough is None else given.structure.feedthrough
    seen = [apply_drive(Drive(feedthrough=True), s) for s in training] if through else training
    chosen, reasons = _choose_settings(training, seen if _may_start_linear(given) else [])
    through = through and 1 in (given.structure.resolutions or chosen["resolutions"])
    chosen["feedthrough"] = through
    chosen["folds"] = 0 if validated else _FOLDS
    kept = {key: value for key, value in given.flat().items() if value is not None}
    if chosen.get("start") == "linear" and (validated or kept.get("folds") != 0):
        chosen["early_stopping"] = True
        best = "the cycle that is best on rows left out"
        reasons.append(Reason(("early_stopping",), best, "the linear model counts as the first"))
    if "restarts" in kept and "ensemble" not in kept:
        chosen["ensemble"] = kept["restarts"]
    if kept.get("calibrate") is False or (kept.get("folds") == 0 and not validated):
        chosen["noise"] = "gaussian"  # there will be nothing to learn it from
    spec = make_spec(chosen | kept).complete()
    if through:
        reasons.append(Reason(("feedthrough",), "feed-through", "inputs help to predict outputs of their own row"))
    reasons.append(Reason(("ensemble",), "the mixture of {ensemble} restarts", "better than one of them as a rule"))
    if spec.bands.noise == "student":
        reasons.append(Reason(("noise",), "noise with heavy tails and a width of its own at every row"))
    bands = "the validation sequences" if validated else "{folds} folds, each leaving a part out"
    reasons.append(Reason(("folds",), f"bands: learned on {bands}"))
    values = {key: _list(value) if isinstance(value, tuple) else value for key, value in spec.flat().items()}
    return Selection(spec, tuple(reason.write(values) for reason in reasons if not kept.keys() >= set(reason.options)))


def choose_drive(training: list[Sequence]) -> Drive:
    """What `MRGPSSM()` would see of the inputs: neither averages nor delays where recordings are few."""
    through = find_feedthrough(training)
    if sum(map(len, training)) < LONG or len(training) < MANY:
        return Drive(feedthrough=through)
    found, room, _ = _find_room(training)
    return replace(_make_drive(found, room, training[0].dt), feedthrough=through)


def _choose_settings(training: list[Sequence], driven: list[Sequence]) -> tuple[Settings, list[Reason]]:
    """Resolutions, drive, sizes and steps: for short data, for a few long recordings, or for many.

    An order is looked for in the recordings as they are `driven`, where there are any.
    """
    rows = sum(map(len, training))
    found, room, why = _find_room(training)
    settings: Settings = {"resolutions": room.resolutions, "restarts": 3, "ensemble": 3}
    reasons = [Reason(("resolutions",), "resolutions {resolutions}", why)]
    sizes = Reason(("latent_dim", "inducing"), "{latent_dim} latent dimensions, {inducing} inducing points")
    cycles = "{cycles} cycles of {steps} steps"
    if driven and (orders := find_orders(driven)):
        return _start_linear(orders, reasons)
    if rows < LONG:
        settings |= _SHORT | {"window": room.window, "buffer": room.buffer}
        return settings, [
            *reasons,
            sizes._replace(why=f"{rows:,} rows are few"),
            Reason(("window",), "windows of {window} rows", "a quarter of the longest sequence, at most 50"),
            Reason(("cycles", "steps"), cycles, "more do not help short data"),
        ]
    if len(training) < MANY:
        few = f"{rows:,} rows, but fewer than {MANY} recordings, so inputs as they are"
        return settings, [*reasons, sizes._replace(why=few)]
    settings |= {"latent_dim": 4, "noise": "student"} | asdict(_make_drive(found, room, training[0].dt))
    settings["steps"] = _STEPS["gpu" if jax.default_backend() == "gpu" else "cpu"]
    return settings, [
        *reasons,
        Reason(("filters",), "averages of the inputs over {filters} rows", "what coarse steps miss"),
        Reason(("delays",), "inputs also with a delay, in rows: {delays}, a dead time that may be"),
        sizes._replace(why=f"{rows:,} rows in {len(training)} recordings are many"),
        Reason(("steps",), cycles, "300 with a GPU, 150 without"),
    ]


def _may_start_linear(given: Spec) -> bool:
    """Whether the options that were given leave room for a linear start."""
    structure = given.structure
    open_to = structure.emission in (None, "linear") and given.training.start != "preset"
    plain = structure.preset == "stable" and not structure.cascade and not structure.joint
    return open_to and plain and structure.latent_dim is None


def find_feedthrough(training: list[Sequence]) -> bool:
    """Whether inputs help to predict an output of their own row; not where one of them is constant."""
    try:
        scaling = Scaling.fit(training)
    except DataError:
        return False
    filled = [fill(s).sequence for s in training]
    each = max(1, _LOOKED_AT // len(filled))
    some = [(scaling.inputs(s.inputs[:each]), scaling.outputs(s.outputs[:each])) for s in filled]
    columns = range(len(training[0].output_names))
    return any(one_step_ratio([Recording(u, y[:, [c]]) for u, y in some]) < _AT_ONCE for c in columns)


def find_orders(training: list[Sequence]) -> list[Identified]:
    """Linear models of all outputs of a few recordings, where they speak for a linear start; else none.

    They do where one has a high order and all explain most of their output by modes that fade soon: the Gaussian
    process then has the rest to learn, in the right number of dimensions.
    """
    if len(training) >= MANY or sum(map(len, training)) < _ENOUGH:
        return []
    scaling, filled, found = Scaling.fit(training), [fill(s).sequence for s in training], []
    for column in range(len(training[0].output_names)):
        some = [(s.inputs[:_LOOKED_AT], s.outputs[:_LOOKED_AT]) for s in filled]
        model = identify([Recording(scaling.inputs(u), scaling.outputs(y)[:, [column]]) for u, y in some])
        if model is None or model.errors.max() > _TRUSTED or model.model.memory() > _SEEN:
            return []
        found.append(model)
    return found if max(each.settings.order for each in found) >= _HIGH else []


def _start_linear(orders: list[Identified], reasons: list[Reason]) -> tuple[Settings, list[Reason]]:
    """One component of the order of the linear model, which training starts from."""
    order, left = max(each.settings.order for each in orders), max(float(each.errors[0]) for each in orders)
    longest = max(each.model.memory() for each in orders)
    settings: Settings = {"resolutions": (1,), "latent_dim": order, "restarts": 3, "ensemble": 3}
    settings |= {"emission": "linear", "start": "linear", "learning_rate": 0.02, "samples": 10, "windows": 10}
    settings["memory"] = max(MEMORY, round(4 * longest))
    return settings, [
        reasons[0]._replace(why=f"the slowest mode fades in {longest:.0f} rows, not much longer than a window"),
        Reason(
            ("latent_dim", "start"),
            "{latent_dim} latent dimensions, from a linear model on",
            f"a linear model of that order leaves {100 * left:.0f} % of the deviation on rows left out",
        ),
        Reason(("memory",), "a memory of {memory} rows", "at least four times the slowest mode's"),
    ]


def _find_room(training: list[Sequence]) -> tuple[Suggestion | None, Room, str]:
    """What the data suggest, their room, and in a few words why; time constants may not be found in too few data."""
    try:
        found = suggest(training)
    except DataError as error:
        return None, make_room((), training), f"no time constants could be found ({str(error).rstrip('.')})"
    scales = [f"{a.output} {', '.join(f'{s.seconds:.2g} s' for s in a.scales)}" for a in found.per_output if a.scales]
    why = f"time constants {'; '.join(scales)}" if scales else "no time constants were found"
    return found, found.room, "; ".join([why, *found.room.limits])


def _make_drive(found: Suggestion | None, room: Room, dt: float) -> Drive:
    """Three averages where the slowest resolution is coarse, and a delay that follows the fastest time constants."""
    slowest = max(room.resolutions)
    taus = np.geomspace(_FASTEST, _FASTEST * slowest, 3) if slowest >= _COARSE else ()
    fastest = [min(s.seconds for s in a.scales) / dt for a in (found.per_output if found else ()) if a.scales]
    dead = [np.clip(round(_DEAD * float(np.median(fastest))), 1, _LONGEST_DELAY)] if fastest else []
    return Drive(tuple(float(round(tau)) for tau in taus), tuple(map(int, dead)))


def _list(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
