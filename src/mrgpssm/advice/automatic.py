"""`MRGPSSM()` without arguments: every setting that was not given is chosen from the data, with the reason in words.

What spoke for the rules, and what against, is in docs/experiments.md. All data get resolutions that follow their time
constants, a mixture of restarts, and bands learned on folds. Many long recordings (four, with 5,000 rows in all) also
get averaged and delayed inputs and a learned noise law; a single one cannot show whether those carry over. Short data
get one or two small components.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from mrgpssm.advice.suggest import LONG, MANY, Room, Suggestion, make_room, suggest
from mrgpssm.arrays.drive import Drive
from mrgpssm.data import Sequence
from mrgpssm.errors import DataError
from mrgpssm.spec import Spec, make_spec

_FASTEST, _COARSE = 10, 3  # rows of the fastest average; the least resolution that needs some
_LONGEST_DELAY, _DEAD = 10, 0.75  # a dead time is this share of a fast time constant, at most so many rows
_FOLDS = 4
_STEPS = {"gpu": 300, "cpu": 150}

Settings = dict[str, Any]
Reason = tuple[tuple[str, ...], Callable[[Settings], str]]  # what is chosen, and a sentence about its final value


class Selection(NamedTuple):
    """A specification without None, and one sentence about each option that was chosen."""

    spec: Spec
    reasons: tuple[str, ...]


def choose(given: Spec, training: list[Sequence], validated: bool) -> Selection:
    """Options that are None are chosen; where resolutions are given, the others are fixed at the paper's."""
    if given.structure.resolutions is not None:
        return Selection(given.fixed(), ())
    rows = sum(map(len, training))
    kind = _short if rows < LONG else _few if len(training) < MANY else _many
    chosen, reasons = kind(training, rows)
    kept = {key: value for key, value in given.flat().items() if value is not None}
    if validated:
        chosen |= {"folds": 0}
        reasons.append((("folds",), lambda _: "bands: learned on the validation sequences"))
    else:
        chosen |= {"folds": _FOLDS}
        reasons.append((("folds",), lambda s: f"bands: learned on {s['folds']} folds, each leaving a part out"))
    if "restarts" in kept and "ensemble" not in kept:
        chosen["ensemble"] = kept["restarts"]
    if kept.get("folds") == 0 and not validated:
        chosen |= {"noise": "gaussian"}  # there will be nothing to learn it from
    if kept.get("calibrate") is False:
        chosen |= {"noise": "gaussian"}
    spec = make_spec(chosen | kept).fixed()
    settings = spec.flat()
    said = (text(settings) for keys, text in reasons if any(key not in kept for key in keys))
    return Selection(spec, tuple(filter(None, said)))


def choose_drive(training: list[Sequence]) -> Drive:
    """The averages and delays that `MRGPSSM()` would see of the inputs: none where recordings are few."""
    if sum(map(len, training)) < LONG or len(training) < MANY:
        return Drive()
    found, room, _ = _find_room(training)
    return Drive(_filters(max(room.resolutions)), _delays(found, training[0].dt))


def _many(training: list[Sequence], rows: int) -> tuple[Settings, list[Reason]]:
    found, room, why = _find_room(training)
    settings: Settings = {
        "resolutions": room.resolutions, "filters": _filters(max(room.resolutions)),
        "delays": _delays(found, training[0].dt),
        "latent_dim": 4, "restarts": 3, "ensemble": 3, "noise": "student",
        "steps": _STEPS["gpu" if jax.default_backend() == "gpu" else "cpu"],
    }  # fmt: skip
    return settings, [
        (("resolutions",), lambda s: f"resolutions {_list(s['resolutions'])}: {why}"),
        (("filters",), lambda s: f"averages of the inputs over {_list(s['filters'])} rows: what coarse steps miss"),
        (("delays",), lambda s: f"inputs also with a delay, in rows: {_list(s['delays'])}, a dead time that may be"),
        _sizes(f"{rows:,} rows in {len(training)} recordings are many"),
        (("steps",), lambda s: f"{s['cycles']} cycles of {s['steps']} steps: 300 with a GPU, 150 without"),
        *_LEARNED,
    ]


def _few(training: list[Sequence], rows: int) -> tuple[Settings, list[Reason]]:
    _, room, why = _find_room(training)
    return {"resolutions": room.resolutions, "restarts": 3, "ensemble": 3}, [
        (("resolutions",), lambda s: f"resolutions {_list(s['resolutions'])}: {why}"),
        _sizes(f"{rows:,} rows, but fewer than {MANY} recordings, so inputs as they are"),
        *_LEARNED,
    ]


def _short(training: list[Sequence], rows: int) -> tuple[Settings, list[Reason]]:
    _, room, why = _find_room(training)
    settings: Settings = {
        "resolutions": room.resolutions, "latent_dim": 4, "inducing": 20, "samples": 10, "windows": 10,
        "window": room.window, "buffer": room.buffer, "steps": 100, "restarts": 5, "ensemble": 5,
    }  # fmt: skip
    return settings, [
        (("resolutions",), lambda s: f"resolutions {_list(s['resolutions'])}: {why}"),
        _sizes(f"{rows:,} rows are few"),
        (("window",), lambda s: f"windows of {s['window']} rows: a quarter of the longest sequence, at most 50"),
        (("cycles", "steps"), lambda s: f"{s['cycles']} cycles of {s['steps']} steps: more do not help short data"),
        *_LEARNED,
    ]


def _sizes(why: str) -> Reason:
    keys = ("latent_dim", "inducing")
    return keys, lambda s: f"{s['latent_dim']} latent dimensions, {s['inducing']} inducing points: {why}"


def _noise(s: Settings) -> str:
    return "noise with heavy tails and a width of its own at every row" if s["noise"] == "student" else ""


_LEARNED: tuple[Reason, ...] = (
    (("ensemble",), lambda s: f"the mixture of {s['ensemble']} restarts: better than one of them as a rule"),
    (("noise",), _noise),
)


def _find_room(training: list[Sequence]) -> tuple[Suggestion | None, Room, str]:
    """What the data suggest, their room, and in a few words why; time constants may not be found in too few data."""
    try:
        found = suggest(training)
    except DataError as error:
        return None, make_room((), training), f"no time constants could be found ({str(error).rstrip('.')})"
    scales = [f"{a.output} {', '.join(f'{s.seconds:.2g} s' for s in a.scales)}" for a in found.per_output if a.scales]
    why = f"time constants {'; '.join(scales)}" if scales else "no time constants were found"
    return found, found.room, "; ".join([why, *found.room.limits])


def _filters(slowest: int) -> tuple[float, ...]:
    if slowest < _COARSE:
        return ()
    return tuple(float(round(tau)) for tau in np.geomspace(_FASTEST, _FASTEST * slowest, 3))


def _delays(found: Suggestion | None, dt: float) -> tuple[int, ...]:
    fastest = [min(s.seconds for s in a.scales) / dt for a in (found.per_output if found else ()) if a.scales]
    if not fastest:
        return ()
    return (int(np.clip(round(_DEAD * float(np.median(fastest))), 1, _LONGEST_DELAY)),)


def _list(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
