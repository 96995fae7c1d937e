"""Lay out problems, outputs, candidates and restarts as the members of one fleet."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.signal import lfilter

from mrgpssm.baselines.gru.fleet import GruMember, Program, Rows
from mrgpssm.data.ranges import Recording, RowFold, leave_one_out, merge
from mrgpssm.errors import DataError

_EVALUATIONS = 20
_LEAST_ROWS = 24


@dataclass(frozen=True)
class Candidate:
    """Settings to choose from: hidden units, learning rate, and whether to add exponential averages of the inputs."""

    width: int
    learning_rate: float
    averages: bool


@dataclass(frozen=True)
class Layout:
    """The fleet: data, members, sizes, and the members of each (problem, output, candidate)."""

    rows: Rows
    members: GruMember
    program: Program
    candidates: list[Candidate]
    scales: tuple[float, ...]
    index: dict[tuple[int, int, int], list[int]]


def candidates(width: int, rate: float) -> list[Candidate]:
    """The small grid around the given width and learning rate."""
    return [
        Candidate(width, rate, True),
        Candidate(width, rate, False),
        Candidate(width, rate / 3, True),
        Candidate(max(4, width // 4), rate, True),
    ]


def network_features(inputs: np.ndarray, scales: tuple[float, ...]) -> np.ndarray:
    """(T, D (1 + S)) inputs, and averages s_t = s_{t-1} + (u_t - s_{t-1}) / τ for every scale τ, from s_{-1} = u_0."""
    found = [inputs]
    for scale in scales:
        keep = 1 - 1 / scale
        found.append(lfilter([1 / scale], [1, -keep], inputs, axis=0, zi=keep * inputs[:1])[0])
    return np.concatenate(found, axis=1)


def average_scales(shortest: int) -> tuple[float, ...]:
    """Three time constants, geometric, up to 600 rows or a tenth of the shortest sequence."""
    reach = max(2.0, min(600.0, shortest / 10))
    return tuple(reach ** (k / 3) for k in (1, 2, 3))


def lay_out(options: list[dict[str, Any]], sets: list[list[Recording]]) -> Layout:
    """All members of all problems; the sizes are those of the first problem's options, as far as the data allow."""
    first = options[0]
    lengths = [[len(r) for r in recordings] for recordings in sets]
    scales = average_scales(min(min(part) for part in lengths))
    splits = [leave_one_out(part, first["restarts"]) for part in lengths]
    program = _program(first, splits)
    rows, offsets = stack_rows(sets, scales)
    grid = candidates(first["width"], first["learning_rate"])
    most = max(len(merge(fold.train)) for split in splits for fold in split)
    features, inputs = np.arange(rows.features.shape[1]), sets[0][0].inputs.shape[1]
    drafts, index = [], {}
    for problem, recordings in enumerate(sets):
        for column in range(recordings[0].outputs.shape[1]):
            for number, candidate in enumerate(grid):
                own = {
                    "column": np.int32(column),
                    "inputs": (candidate.averages | (features < inputs)).astype(np.float32),
                    "units": (np.arange(first["width"]) < candidate.width).astype(np.float32),
                    "rate": np.float32(candidate.learning_rate),
                }
                for restart, fold in enumerate(splits[problem]):
                    index.setdefault((problem, column, number), []).append(len(drafts))
                    seed = np.random.SeedSequence([options[problem]["seed"], restart, column]).generate_state(1)[0]
                    drafts.append(own | _place(fold, offsets[problem], program, most) | {"key": seed})
    stacked = {name: jnp.asarray(np.stack([draft[name] for draft in drafts])) for name in drafts[0]}
    members = GruMember(**(stacked | {"key": jax.vmap(jax.random.key)(stacked["key"])}))
    return Layout(rows, members, program, grid, scales, index)


def _program(options: dict[str, Any], splits: list[list[RowFold]]) -> Program:
    """The sizes; window and burn-in shrink until every member has a stretch long enough for them."""
    room = min(max(len(p) for p in merge(fold.train)) for folds in splits for fold in folds)
    if room < _LEAST_ROWS:
        raise DataError(f"A GRU needs training stretches of at least {_LEAST_ROWS} rows; the longest has {room}.")
    burn = min(options["burn"], room // 4)
    chunk = max(1, options["steps"] // _EVALUATIONS)
    window = min(options["window"], room - burn)
    rows = max(sum(len(p) for p in fold.train) for folds in splits for fold in folds)
    return Program(
        burn=burn,
        window=window,
        batch=min(options["batch"], max(4, rows // window)),  # a step need not see short data several times over
        steps=-(-options["steps"] // chunk) * chunk,
        chunk=chunk,
        longest=max(len(p) for folds in splits for fold in folds for p in fold.test),
    )


def stack_rows(sets: list[list[Recording]], scales: tuple[float, ...]) -> tuple[Rows, list[list[int]]]:
    """All recordings of all problems end to end, and where each begins."""
    every = [r for recordings in sets for r in recordings]
    ends = np.cumsum([0, *map(len, every)])
    starts = iter(ends[:-1].tolist())
    outputs = np.concatenate([r.outputs for r in every])
    rows = Rows(
        features=jnp.asarray(np.concatenate([network_features(r.inputs, scales) for r in every]), jnp.float32),
        outputs=jnp.asarray(np.nan_to_num(outputs), jnp.float32),
        measured=jnp.asarray(np.isfinite(outputs), jnp.float32),
    )
    return rows, [[next(starts) for _ in recordings] for recordings in sets]


def _place(fold: RowFold, offsets: list[int], program: Program, most: int) -> dict[str, Any]:
    """Where a member learns and what it leaves out; stretches that it lacks are empty ones."""
    stretches, held = merge(fold.train), fold.test[0]
    starts, counts = np.zeros((2, most), np.int32)
    for i, p in enumerate(stretches):
        starts[i], counts[i] = offsets[p.index] + p.start, max(0, len(p) - program.burn - program.window + 1)
    numbers = {
        "held": offsets[held.index] + held.start,
        "held_rows": len(held),
        "known": min(program.burn, held.start),
    }
    return {"starts": starts, "counts": counts, **{name: np.int32(value) for name, value in numbers.items()}}
