"""`MRGPSSM()` without arguments: every setting that was not given is chosen from the data, with the reason in words.

The rules were found on training files alone (docs/experiments.md). All data get resolutions that follow their time
constants, a mixture of restarts, and bands learned on folds. Many long recordings (four, with 5,000 rows in all) also
get averaged and delayed inputs, a static part and learned noise; a single one cannot show whether those carry over.
Short data get one or two small components.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from mrgpssm.data import Sequence
from mrgpssm.errors import DataError
from mrgpssm.options import FIXED, settled
from mrgpssm.suggest import Suggestion, suggest

LONG, MANY = 5_000, 4  # rows, recordings
_WINDOWS = 10  # that the longest sequence has room for at the coarsest resolution
_USUAL, _APART = (30, 5, 1), 3  # resolutions that are added up to three, and how far from those that are there
_FASTEST = 10  # rows: the fastest average
_LONGEST_DELAY, _DEAD = 10, 0.75  # a dead time is this share of a fast time constant, at most so many rows
_FOLDS = 4
_STEPS = {"gpu": 300, "cpu": 200}

Reason = tuple[tuple[str, ...], str]


class Choice(NamedTuple):
    """All settings, and one sentence about each that was chosen."""

    settings: dict[str, Any]
    reasons: tuple[str, ...]


def choose(given: Mapping[str, Any], training: list[Sequence], validated: bool) -> Choice:
    """Settings that are None are chosen; where resolutions are given, the others are fixed at the paper's."""
    if given["resolutions"] is not None:
        return Choice(settled(given), ())
    rows = sum(map(len, training))
    kind = _short if rows < LONG else _few if len(training) < MANY else _many
    chosen, reasons = kind(training, rows)
    kept = {key: value for key, value in given.items() if value is not None}
    if validated:
        chosen |= {"folds": 0}
        reasons.append((("folds",), "bands: learned on the validation sequences"))
    else:
        chosen |= {"folds": _FOLDS}
        reasons.append((("folds",), f"bands: learned on {_FOLDS} folds, models that each leave a part of the data out"))
    if "restarts" in kept and "ensemble" not in kept:
        chosen["ensemble"] = kept["restarts"]
    if kept.get("calibrate") is False:
        chosen |= {"noise": "gaussian"}
    said = tuple(text for keys, text in reasons if not all(key in kept for key in keys))
    settings = FIXED | chosen | kept
    return Choice({key: settings[key] for key in given}, said)


def _many(training: list[Sequence], rows: int) -> tuple[dict[str, Any], list[Reason]]:
    found, why = _suggested(training)
    resolutions, how = _resolutions(found, max(map(len, training)), len(_USUAL))
    filters = _filters(max(resolutions))
    delays = _delays(found, training[0].dt)
    steps = _STEPS["gpu" if jax.default_backend() == "gpu" else "cpu"]
    settings: dict[str, Any] = {
        "resolutions": resolutions, "filters": filters, "delays": delays, "latent_dim": 4, "static": 2000,
        "restarts": 3, "ensemble": 3, "noise": "student", "steps": steps,
    }  # fmt: skip
    return settings, [
        (("resolutions",), f"resolutions {_listed(resolutions)}: {why}{how}"),
        (("filters",), f"averages of the inputs over {_listed(filters)} rows: what steps of {max(resolutions)} miss"),
        (("delays",), f"inputs also with a delay, in rows: {_listed(delays)}, within the fastest time constants"),
        (("latent_dim", "inducing"), f"4 latent dimensions, 50 inducing points: {rows:,} rows are long data"),
        (
            ("steps",),
            f"10 cycles of {steps} steps: 300 with a GPU, 200 without, for half an hour on two cores",
        ),
        (("static",), "a static part of up to 2,000 rows: its share is learned on unseen data"),
        (("ensemble",), "the mixture of 3 restarts: better than any one of them"),
        (("noise",), "noise with heavy tails and a width of its own at every row: learned on unseen data"),
    ]


def _few(training: list[Sequence], rows: int) -> tuple[dict[str, Any], list[Reason]]:
    found, why = _suggested(training)
    resolutions, how = _resolutions(found, max(map(len, training)), 1)
    number = f"{len(training)} recording{'s' if len(training) > 1 else ''}"
    settings: dict[str, Any] = {"resolutions": resolutions, "restarts": 3, "ensemble": 3}
    return settings, [
        (("resolutions",), f"resolutions {_listed(resolutions)}: {why}{how}"),
        (("latent_dim", "inducing"), f"2 latent dimensions, 50 inducing points: {rows:,} rows, but only {number}"),
        (
            ("filters", "delays", "static"),
            f"inputs as they are, no static part: {MANY} recordings could weigh more",
        ),
        (("ensemble",), "the mixture of 3 restarts: better than any one of them"),
    ]


def _short(training: list[Sequence], rows: int) -> tuple[dict[str, Any], list[Reason]]:
    found, why = _suggested(training)
    longest = max(map(len, training))
    window = int(np.clip(longest // 4, 10, 50))
    resolutions = tuple(r for r in found.resolutions if r * (window + 10) * 2 <= longest)[-2:] if found else ()
    settings: dict[str, Any] = {
        "resolutions": resolutions or (1,), "latent_dim": 4, "inducing": 20, "samples": 10, "windows": 10,
        "window": window, "buffer": min(10, window // 2), "steps": 100, "restarts": 5, "ensemble": 5,
        "static": rows,
    }  # fmt: skip
    return settings, [
        (("resolutions",), f"resolutions {_listed(settings['resolutions'])}: {why}"),
        (("latent_dim", "inducing"), f"4 latent dimensions, 20 inducing points: {rows:,} rows are short data"),
        (("window",), f"windows of {window} rows: a quarter of the longest sequence, at most 50"),
        (("cycles", "steps"), "10 cycles of 100 steps: longer training does not help on short data"),
        (("static",), "a static part of all rows: its share is learned on unseen data"),
        (("ensemble",), "the mixture of 5 restarts: better than any one of them"),
    ]


def _suggested(training: list[Sequence]) -> tuple[Suggestion | None, str]:
    """What the data suggest, and in a few words why; nothing where they are too few or do not vary."""
    try:
        found = suggest(training)
    except DataError as error:
        return None, f"no time constants could be found ({str(error).rstrip('.')})"
    scales = [f"{a.output} {', '.join(f'{s.seconds:.2g} s' for s in a.scales)}" for a in found.per_output if a.scales]
    return found, f"time constants {'; '.join(scales)}" if scales else "no time constants were found"


def _resolutions(found: Suggestion | None, longest: int, least: int) -> tuple[tuple[int, ...], str]:
    """Those of the time constants, with room for ten windows, and usual ones apart from them up to `least`."""
    most = max(1, longest // (_WINDOWS * (FIXED["window"] + FIXED["buffer"])))
    chosen = {min(r, most) for r in (found.resolutions if found else ())}
    limited = bool(found) and max(found.resolutions) > most
    for usual in _USUAL:
        usual = min(usual, most)
        if len(chosen) < least and all(max(r, usual) >= _APART * min(r, usual) for r in chosen):
            chosen.add(usual)
    how = f"; at most {most}, so that the longest sequence holds {_WINDOWS} windows" if limited else ""
    return tuple(sorted(chosen, reverse=True)), how


def _filters(slowest: int) -> tuple[float, ...]:
    if slowest < _APART:
        return ()
    return tuple(float(round(tau)) for tau in np.geomspace(_FASTEST, _FASTEST * slowest, 3))


def _delays(found: Suggestion | None, dt: float) -> tuple[int, ...]:
    fastest = [min(s.seconds for s in a.scales) / dt for a in (found.per_output if found else ()) if a.scales]
    if not fastest:
        return ()
    return (int(np.clip(round(_DEAD * float(np.median(fastest))), 1, _LONGEST_DELAY)),)


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
