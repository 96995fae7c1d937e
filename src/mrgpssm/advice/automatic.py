"""`MRGPSSM()` without arguments: every setting that was not given is chosen from the data, with the reason in words.

What spoke for the rules, and what against, is in docs/experiments.md. All data get resolutions that follow their time
constants, a mixture of restarts, and bands learned on folds. Where inputs act on outputs of their own row, there is
feed-through. A few recordings have rivals: one component that starts from a linear model, with windows that start
where a filter finds the state, the same with an integrator where a mode hardly fades, and both with two states where
linear models of any order lose the state. Short fits decide (`mrgpssm.estimator.trials`). Many long recordings (four,
with 5,000 rows in all) also get averaged and delayed inputs and a learned noise law; a single one cannot show whether
those carry over. Short data get one or two small components. A linear model is judged beside all of them.
"""

import math
from dataclasses import asdict, replace
from typing import NamedTuple

import jax
import numpy as np

from mrgpssm.advice.rivals import (
    LEAST_ORDER,
    LinearRival,
    Reason,
    Settings,
    find_low,
    find_orders,
    list_starts,
    make_linear,
    take_some,
)
from mrgpssm.advice.suggest import LONG, MANY, Room, Suggestion, make_room, suggest
from mrgpssm.arrays.drive import Drive
from mrgpssm.data import Sequence, apply_drive, can_fold, fill, trained_on
from mrgpssm.data.ranges import Recording
from mrgpssm.errors import DataError
from mrgpssm.spec import Spec, Training, fix, make_spec
from mrgpssm.training import Snapshot
from mrgpssm.training.linear.deadtime import find_dead_times
from mrgpssm.training.linear.feedthrough import one_step_errors, one_step_ratio
from mrgpssm.training.linear.start import find_again

_FASTEST, _COARSE = 10, 3  # rows of the fastest average; the least resolution that needs some
_LONGEST_DELAY, _DEAD = 10, 0.75  # a dead time is this share of a fast time constant, at most so many rows
_FOLDS, _ON_FOLDS = 4, "bands: learned on {folds} folds, each leaving a part out"
_MOST_MIXED = 5  # restarts
_REFIT = 0.4  # of the cycles: as many more, with all data, make the models of the folds the restarts
_LEAST_DEAD, _MOST_DELAYS = 15, 2  # rows of a dead time that is not left to the states; how many become inputs
_QUIET, _SILENT = 0.01, 1e-4  # one-step errors, in deviations, of data with little noise, and of data for float64
_AT_ONCE = 0.9  # the one-step error, squared, that feed-through must fall below
_STEPS = {"gpu": 300, "cpu": 150}
_MORE_ROWS, _MORE_STEPS = 600, 200  # of short data
_FEWER = {"windows": 10, "samples": 16}  # of a few long recordings; 16 samples fill the vectors of the kernel for CPUs
_SHORT = {"latent_dim": 4, "inducing": 20, "samples": 10, "windows": 10, "steps": 100, "restarts": 5, "ensemble": 5}


class Selection(NamedTuple):
    """A specification without None, and one sentence about each option that was chosen.

    `rivals`, by name, are to be tried against it by some cycles of training; `begun` is where the winner then stands.
    Where it has learned, `linear` may still be better.
    """

    spec: Spec
    reasons: tuple[str, ...]
    rivals: tuple[tuple[str, "Selection"], ...] = ()
    linear: LinearRival | None = None
    begun: Snapshot | None = None


def choose(given: Spec, training: list[Sequence], validated: bool, rivals: bool = True) -> Selection:
    """Options that are None are chosen. Where resolutions are given, they have fixed values, and bands have folds.

    Without `rivals` nothing is looked for that would be tried against the choice, which takes most of the time.
    """
    if given.structure.resolutions is not None:
        return _fix(given, training, validated)
    settings, reasons = _choose_settings(training)
    heard, told = _listen(training, settings["resolutions"])
    if given.structure.feedthrough is not None:
        heard["feedthrough"] = given.structure.feedthrough and 1 in settings["resolutions"]
    if "window" in heard:
        reasons = [reason for reason in reasons if reason.options != ("window",)]
    settings, reasons = settings | heard, [*reasons, *told]
    own = _complete(given, settings, reasons, validated)
    asked, judged = given.training.start == "linear", validated or own.spec.bands.folds > 0
    if not _may_be_linear(given) or not (asked or (rivals and judged)):
        return own
    drive = replace(own.spec.structure.drive, filters=())  # a linear model has averages of its own
    driven = [apply_drive(drive, s) for s in training]
    orders = find_orders(driven)
    if not orders:
        return own
    linear, near, low = make_linear(own.spec, orders), [], []
    if asked or len(training) < MANY:
        some = take_some(driven)
        again = [find_again(found, own) for found, own in zip(orders, some, strict=True)]
        near = [found for found in again if found is not None]
        low = find_low(near, some)
    others = [
        (name, _complete(given, learned, [*why, *told], validated))
        for name, (learned, why) in list_starts(settings, near, low, training, given)
    ]
    if asked:
        return others[0][1]._replace(linear=linear)
    return own._replace(rivals=tuple(others), linear=linear)


def _fix(given: Spec, training: list[Sequence], validated: bool) -> Selection:
    """The fixed values of what was not given, and folds where bands would have nothing to learn from."""
    spec = given.complete()
    rows = max(spec.structure.resolutions) * (spec.training.buffer + spec.training.window)
    if validated or given.bands.folds is not None or not spec.bands.calibrate or not _can_leave_out(training, rows):
        return Selection(spec, ())
    return Selection(spec.change(folds=_FOLDS), (_ON_FOLDS.format(folds=_FOLDS),))


def _can_leave_out(training: list[Sequence], rows: int) -> bool:
    """Whether every fold trains on a recording of more than so many rows, and stretches are as long."""
    if not can_fold(training, _FOLDS) or (len(training) < _FOLDS and min(map(len, training)) // _FOLDS < rows):
        return False
    known = (trained_on(training, _FOLDS, k) for k in range(_FOLDS))
    return all(max(len(fill(s).sequence) for s in own) > rows for own in known)


def _complete(given: Spec, chosen: Settings, reasons: list[Reason], validated: bool) -> Selection:
    """The options that were given, those that were chosen, and the fixed values of all others."""
    chosen, reasons = chosen | {"folds": 0 if validated else _FOLDS}, list(reasons)
    kept = {key: value for key, value in given.flat().items() if value is not None}
    if "restarts" in kept and "ensemble" not in kept:
        chosen["ensemble"] = kept["restarts"]
    if "ensemble" in kept and "restarts" not in kept:
        chosen["restarts"] = max(chosen["restarts"], kept["ensemble"])
    if kept.get("calibrate") is False or (kept.get("folds") == 0 and not validated):
        chosen["noise"] = "gaussian"  # there will be nothing to learn it from
    if "integrators" in kept and "latent_dim" not in kept:
        chosen["latent_dim"] = max(chosen.get("latent_dim", LEAST_ORDER), kept["integrators"] + 1)
    chosen |= {} if validated else _take_folds(chosen | kept, kept)
    spec = make_spec(chosen | kept).complete()
    why = "the models of the folds, trained on with all data" if spec.training.refit else "better than one as a rule"
    reasons.append(Reason(("ensemble",), "the mixture of {ensemble} restarts", why))
    if spec.bands.noise == "student":
        reasons.append(Reason(("noise",), "noise with heavy tails and a width of its own at every row"))
    reasons.append(Reason(("folds",), "bands: learned on the validation sequences" if validated else _ON_FOLDS))
    values = {key: _list(value) if isinstance(value, tuple) else value for key, value in spec.flat().items()}
    return Selection(spec, tuple(reason.write(values) for reason in reasons if not kept.keys() >= set(reason.options)))


def _take_folds(options: Settings, kept: Settings) -> Settings:
    """Restarts that go on from the models of the folds, where nothing that was given speaks of others."""
    cycles, count = options.get("cycles", fix(Training()).cycles), options["folds"] * options.get("fold_restarts", 1)
    refit = kept.get("refit", math.ceil(_REFIT * cycles))
    if not refit or not count or kept.keys() & {"restarts", "ensemble"} or kept.get("early_stopping"):
        return {}
    return {"restarts": count, "ensemble": min(count, _MOST_MIXED), "refit": refit}


def choose_drive(training: list[Sequence]) -> Drive:
    """What `MRGPSSM()` would see of the inputs: no averages where recordings are few."""
    through = find_feedthrough(training)
    if sum(map(len, training)) < LONG or len(training) < MANY:
        delays = _find_delays(take_some(training)) if len(training) < MANY else ()
        return Drive(delays=delays, feedthrough=through)
    found, room, _ = _find_room(training)
    return replace(_make_drive(found, room, training[0].dt), feedthrough=through)


def _choose_settings(training: list[Sequence]) -> tuple[Settings, list[Reason]]:
    """Resolutions, drive, sizes and steps: for short data, for a few long recordings, or for many."""
    rows = sum(map(len, training))
    found, room, why = _find_room(training)
    settings: Settings = {"resolutions": room.resolutions, "restarts": 3, "ensemble": 3}
    reasons = [Reason(("resolutions",), "resolutions {resolutions}", why)]
    sizes = Reason(("latent_dim", "inducing"), "{latent_dim} latent dimensions, {inducing} inducing points")
    cycles = "{cycles} cycles of {steps} steps"
    if rows < LONG:
        settings |= _SHORT | {"window": room.window, "buffer": room.buffer}
        why = "more do not help data as short as this"
        if rows >= _MORE_ROWS:
            settings["steps"], why = _MORE_STEPS, f"{_MORE_ROWS} rows or more"
        return settings, [
            *reasons,
            sizes._replace(why=f"{rows:,} rows are few"),
            Reason(("window",), "windows of {window} rows", "a quarter of the longest sequence, at most 50"),
            Reason(("cycles", "steps"), cycles, why),
        ]
    if len(training) < MANY:
        few = f"{rows:,} rows, but fewer than {MANY} recordings, so inputs as they are"
        return settings | _FEWER, [*reasons, sizes._replace(why=few)]
    settings |= {"latent_dim": 4, "noise": "student"} | asdict(_make_drive(found, room, training[0].dt))
    settings["steps"] = _STEPS["gpu" if jax.default_backend() == "gpu" else "cpu"]
    return settings, [
        *reasons,
        Reason(("filters",), "averages of the inputs over {filters} rows", "what coarse steps miss"),
        Reason(("delays",), "inputs also with a delay, in rows: {delays}, a dead time that may be"),
        sizes._replace(why=f"{rows:,} rows in {len(training)} recordings are many"),
        Reason(("steps",), cycles, "300 with a GPU, 150 without"),
    ]


def _may_be_linear(given: Spec) -> bool:
    """Whether the options that were given leave room for a linear model."""
    structure = given.structure
    open_to = structure.emission in (None, "linear") and given.training.start != "preset"
    plain = structure.preset == "stable" and not structure.cascade and not structure.joint
    return open_to and plain and structure.latent_dim is None


def _listen(training: list[Sequence], resolutions: tuple[int, ...]) -> tuple[Settings, list[Reason]]:
    """What the recordings say of feed-through, and a few of them of dead times and noise."""
    some, settings, reasons = take_some(training), {}, []
    if 1 in resolutions and _answers_at_once(some):
        settings["feedthrough"] = True
        reasons.append(Reason(("feedthrough",), "feed-through", "inputs help to predict outputs of their own row"))
    if len(training) >= MANY:
        return settings, reasons
    if delays := _find_delays(some):
        settings["delays"] = delays
        reasons.append(Reason(("delays",), "inputs also with a delay, in rows: {delays}", "they act no sooner"))
    errors = [one_step_errors(own) for own in some]
    noise = max((np.inf if e is None else float(np.sqrt(e.min(axis=0).max())) for e in errors), default=np.inf)
    if noise < _QUIET:
        why = f"noise of at most {100 * noise:.2g} % of the deviation"
        settings |= {"window": 100, "window_start": "filter"}
        reasons.append(Reason(("window", "window_start"), "windows of {window} rows, started by a filter", why))
    if noise < _SILENT:
        settings["precision"] = "float64"
        reasons.append(Reason(("precision",), "{precision}", f"noise of {noise:.1g} deviations"))
    return settings, reasons


def _find_delays(some: list[list[Recording]]) -> tuple[int, ...]:
    """Dead times of inputs that are too long to be left to the states."""
    lags = {int(lag) - 1 for own in some for lag in find_dead_times(own) if lag > _LEAST_DEAD}
    return tuple(sorted(lags)[:_MOST_DELAYS])


def find_feedthrough(training: list[Sequence]) -> bool:
    """Whether inputs help to predict an output of their own row; not where one of them is constant."""
    return _answers_at_once(take_some(training))


def _answers_at_once(some: list[list[Recording]]) -> bool:
    return any(one_step_ratio(own) < _AT_ONCE for own in some)


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
