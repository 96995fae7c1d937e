"""A snapshot as one file: parameters, moments, caches, counters and history, under the run's fingerprint."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.file import fill, named_leaves, pack, unpack
from mrgpssm.training.journal import Progress
from mrgpssm.training.plan import Plan, Snapshot

_KIND = "mrgpssm-checkpoint"
_VERSION = 4
_COUNTERS = ("component", "cycle", "step", "done", "total")
_MEMBERS = ("bound", "kl", "rmse", "skipped")


def fingerprint(plan: Plan, options: Mapping[str, object]) -> str:
    """What a run is: its options and its data, as one hash. Runs with equal ones give equal results."""
    sha = hashlib.sha256(json.dumps([options, list(plan.resolutions)], sort_keys=True).encode())
    for name, array in named_leaves(plan.series, "series").items():
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def pack_snapshot(snapshot: Snapshot, mark: str) -> bytes:
    """The bytes of a checkpoint."""
    content = {"version": _VERSION, "fingerprint": mark, "turn": snapshot.turn, "step": snapshot.step}
    tensors = named_leaves(snapshot.state, "state") | {"alive": snapshot.alive}
    if snapshot.kept is not None and snapshot.errors is not None:
        tensors |= named_leaves(snapshot.kept, "kept") | {"errors": snapshot.errors}
    if snapshot.folds is not None:
        tensors |= named_leaves(snapshot.folds, "folds")
    for name in _COUNTERS:
        tensors[f"history.{name}"] = np.array([getattr(p, name) for p in snapshot.history], np.int64)
    for name in _MEMBERS:
        tensors[f"history.{name}"] = np.array([getattr(p, name) for p in snapshot.history])
    return pack(_KIND, content, tensors)


def unpack_snapshot(data: bytes, template: Snapshot, mark: str, name: str) -> Snapshot:
    """The snapshot in a checkpoint's bytes; `template` is that of a run that has not begun."""
    content, tensors = unpack(data, _KIND, name)
    if content.get("version") != _VERSION:
        raise ModelFileError(f"{name}: a checkpoint of format {content.get('version')!r:.20}; this is {_VERSION}.")
    if content.get("fingerprint") != mark:
        raise ModelFileError(f"{name}: the checkpoint belongs to another run: its options or its data differ.")
    turn, at = (_counter(content, key, name) for key in ("turn", "step"))
    members = template.alive.shape[0]
    rows = [_history(tensors, key, members, name) for key in (*_COUNTERS[:3], *_MEMBERS, *_COUNTERS[3:])]
    if len({len(column) for column in rows}) != 1:
        raise ModelFileError(f"{name}: the columns of the history differ in length.")
    alive = tensors.get("alive")
    if alive is None or alive.shape != (members,) or alive.dtype != bool:
        raise ModelFileError(f"{name}: tensor alive must hold one truth value for each of {members} members.")
    history = tuple(
        Progress(int(a), int(b), int(c), bound, kl, rmse, skipped, int(done), int(total))
        for a, b, c, bound, kl, rmse, skipped, done, total in zip(*rows, strict=True)
    )
    state = fill(template.state, tensors, "state", name, finite=False)  # members that were given up may hold NaN
    learned = any(key.startswith("folds.") for key in tensors)
    folds = fill(template.state.ssm, tensors, "folds", name, finite=False) if learned else None
    if template.kept is None:
        return Snapshot(state, turn, at, alive, history, folds=folds)
    errors = tensors.get("errors")
    if errors is None or errors.ndim != 2 or errors.shape[1] != members:
        raise ModelFileError(
            f"{name}: tensor errors must hold one number for each cycle and each of {members} members."
        )
    kept = fill(template.kept, tensors, "kept", name, finite=False)
    return Snapshot(state, turn, at, alive, history, kept, errors, folds)


def _counter(content: Mapping[str, object], key: str, name: str) -> int:
    value = content.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise ModelFileError(f"{name}: {key} must be a whole number; got {value!r:.40}.")
    return value


def _history(tensors: Mapping[str, np.ndarray], key: str, members: int, name: str) -> np.ndarray:
    """One column of the history: a number per chunk of steps, or one per chunk and member."""
    column = tensors.get(f"history.{key}")
    if (
        column is None
        or column.ndim < 1
        or (len(column) and column.shape[1:] != (() if key in _COUNTERS else (members,)))
    ):
        raise ModelFileError(f"{name}: tensor history.{key} is missing or has another shape than the run's.")
    return column
