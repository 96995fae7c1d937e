"""A fitted model put to use: free runs as forecasts, and their scores, in the data's own units."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from mrgpssm.arrays.drive import Memory
from mrgpssm.arrays.precision import floating_point
from mrgpssm.arrays.types import Key
from mrgpssm.data import Sequence, cut_warmup, fill, samples_between
from mrgpssm.model import SSM, Component
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.forecast import Forecast, report_times
from mrgpssm.prediction.run import assimilate, free_run, start_particles
from mrgpssm.prediction.scores import Table, score_terms, tabulate_scores
from mrgpssm.rollout import Particles
from mrgpssm.runtime.horizon import Recent
from mrgpssm.runtime.output import Measurements, OutputLaw, Simulation, add_up, join_samples
from mrgpssm.runtime.paths import PathNoise

_CHUNK = 200_000  # samples of one component at a time, over models, sequences and rows
_WARMUP_ROWS = 256  # the compiled warm-up takes a multiple of so many rows

Warmups = SequenceOf[Sequence | None]  # one for every sequence, or none at all


class Piece(NamedTuple):
    """Samples (S, C, D_y) at some rows of one sequence, scaled, of all models of the ensemble, without noise.

    The `parts`, one for each component, add up to the outputs. `drive` (C, D_u) is what is known of the inputs there,
    and `recent` what was measured before.
    """

    sequence: int
    rows: np.ndarray
    parts: list[np.ndarray]
    drive: np.ndarray
    recent: Recent

    @property
    def outputs(self) -> np.ndarray:
        """(S, C, D_y), the sum of all parts."""
        return add_up(self.parts)

    def where(self, chosen: np.ndarray) -> "Piece":
        """Some of the rows."""
        parts = [part[:, chosen] for part in self.parts]
        recent = Recent(self.recent.count, self.recent.since[chosen])
        return Piece(self.sequence, self.rows[chosen], parts, self.drive[chosen], recent)

    def measure(self, law: OutputLaw) -> Measurements:
        """What is known of measurements at these rows."""
        return law.measure(self.outputs, self.drive, self.recent)


@dataclass(frozen=True)
class FreeRuns:
    """Free runs over sequences, piece by piece, and the law of measurements around them."""

    model: FittedModel
    sequences: list[Sequence]
    pieces: Iterable[Piece]
    law: OutputLaw
    seed: int

    def gather(
        self, tell: Callable[[Piece, Measurements, np.ndarray], Table], rows: slice = slice(None)
    ) -> list[Table]:
        """What `tell` says of some rows and their scaled measurements, a table for each sequence.

        Of the slice of `rows`, stop and step count.
        """
        most, thin = np.inf if rows.stop is None else rows.stop, rows.step or 1
        found: list[list[Table]] = [[] for _ in self.sequences]
        scaled = [self.model.scaling.outputs(s.outputs) for s in self.sequences]
        for whole in self.pieces:
            chosen = (whole.rows < most) & (whole.rows % thin == 0)
            piece = whole if chosen.all() else whole.where(chosen)
            if len(piece.rows):
                found[piece.sequence].append(tell(piece, piece.measure(self.law), scaled[piece.sequence][piece.rows]))
        return [{name: np.concatenate([t[name] for t in some]) for name in some[0]} for some in found]


def run_freely(
    model: FittedModel, sequences: list[Sequence], samples: int, seed: int, warmups: Warmups = ()
) -> FreeRuns:
    """Free runs over every sequence from its first row; they are simulated while somebody looks at them, once.

    Each may have a warm-up.
    """
    pieces = _pieces(model, sequences, warmups, samples, seed, 1)
    return FreeRuns(model, sequences, pieces, model.output_law, seed)


def keep_runs(
    model: FittedModel, sequences: list[Sequence], samples: int, seed: int, warmups: Warmups = ()
) -> FreeRuns:
    """The same, kept in memory: S T D_y numbers."""
    pieces = [p._replace(parts=[p.outputs]) for p in _pieces(model, sequences, warmups, samples, seed, 1)]
    return FreeRuns(model, sequences, pieces, model.output_law, seed)


class Past(NamedTuple):
    """A warm-up up to the first row of the run: what drove it, its outputs, scaled, gaps to the next row, and memory.

    `recent` is what it leaves to know of the outputs. It begins with rows of no outputs and no gap, which change
    nothing, up to a length that programs are compiled for.
    """

    drive: np.ndarray
    outputs: np.ndarray
    gaps: np.ndarray
    memory: Memory
    recent: Recent


def forecast(
    model: FittedModel,
    sequence: Sequence,
    warmup: Sequence | None,
    *,
    samples: int,
    seed: int,
    stride: int,
    quantiles: SequenceOf[float],
    keep_samples: bool,
) -> Forecast:
    """Run freely over the sequence's inputs and stream what a `Forecast` holds."""
    rows = np.arange(0, len(sequence), stride)
    shape, sd, offset = (len(rows), len(model.output_names)), model.scaling.output_sd, model.scaling.output_mean
    noise = PathNoise(model.output_law.paths, samples, seed) if keep_samples else None
    run, clock = Simulation.blank(shape, quantiles, noise), sequence.clock()[rows]
    parts = {name: np.empty(shape) for name in component_names(model)}
    for piece in _pieces(model, [sequence], [warmup], samples, seed, stride):
        at = piece.rows // stride
        run.put(at, clock[at], piece.measure(model.output_law), offset, sd)
        for name, part in zip(parts, piece.parts, strict=True):
            parts[name][at] = sd * part.mean(axis=0, dtype=float)
    return Forecast(
        time=report_times(sequence)[rows],
        mean=run.mean,
        std=run.std,
        quantiles=run.quantiles,
        components=parts,
        offset=offset,
        output_names=model.output_names,
        units=model.units,
        samples=run.samples,
        alarm=run.alarm,
    )


def scores(
    model: FittedModel, sequences: list[Sequence], samples: int, seed: int, warmup_rows: int = 0
) -> pd.DataFrame:
    """Free run over every sequence from its first row; one row per output, errors in the data's units.

    The first `warmup_rows` of each set the state, and are not scored.
    """
    if not warmup_rows:
        return score_runs([run_freely(model, sequences, samples, seed)])
    pasts, rests = zip(*(cut_warmup(s, warmup_rows) for s in sequences), strict=True)
    return score_runs([run_freely(model, list(rests), samples, seed, pasts)])


def score_runs(runs: SequenceOf[FreeRuns]) -> pd.DataFrame:
    """The same over free runs of several models of the same outputs, each with sequences of its own."""
    tables = [table for some in runs for table in some.gather(_score_rows(some))]
    return tabulate_scores(tables, runs[0].model.output_names)


def _score_rows(runs: FreeRuns) -> Callable[[Piece, Measurements, np.ndarray], Table]:
    return lambda piece, found, measured: score_terms(found, measured, piece.rows, runs.seed, runs.model.scaling)


def component_names(model: FittedModel) -> list[str]:
    """What forecasts call the components."""
    return [f"component_{i + 1}_R{r}" for i, r in enumerate(model.structure.resolutions)]


def _pieces(
    model: FittedModel, sequences: list[Sequence], warmups: Warmups, samples: int, seed: int, stride: int
) -> Iterator[Piece]:
    """Free runs of all models over all sequences at once, handed out sequence by sequence.

    Gaps are filled, and the rows that were added are walked but not handed out.
    """
    filled = [fill(sequence) for sequence in sequences]
    before = zip(warmups or (None,) * len(sequences), sequences, strict=True)
    pasts = [None if warmup is None else _past(model, warmup, sequence) for warmup, sequence in before]
    known = [model.follow(f, None if p is None else p.memory)[0] for f, p in zip(filled, pasts, strict=True)]
    inputs = [model.structure.drive.act(values) for values in known]
    recent = [Recent.nothing(len(model.output_names)) if p is None else p.recent for p in pasts]
    clocks, reported = [f.sequence.clock() for f in filled], [f.rows[::stride] for f in filled]
    pace = stride if all(f.is_even for f in filled) else 1
    count, groups, rounds = len(sequences), len(model.groups), len(model.ensemble)
    each = -(-samples // rounds)
    with floating_point(model.structure.precision):
        keys = [[_key(seed, number, g) for g in range(groups)] for number in range(rounds)]
        runs = [(model.ensemble[number][g], g, keys[number][g]) for number in range(rounds) for g in range(groups)]
        starts = [_start(model, ssm, g, pasts, each, key) for ssm, g, key in runs]
        ssm, particles = _stack([run[0] for run in runs]), _stack([_stack(row) for row in starts])
        chunk = max(100, _CHUNK // (groups * count * samples))
        stacked = jnp.stack([run[2] for run in runs])
        for draws in free_run(ssm, particles, inputs, clocks, stride=pace, chunk=chunk, keys=stacked):
            for k in range(count):
                first, last = np.searchsorted(reported[k], [draws.rows[0], draws.rows[-1] + 1])
                if last > first:
                    at = reported[k][first:last]
                    walked = (at - draws.rows[0]) // pace
                    parts = [join_samples(part[:, k][:, :, walked], groups)[:samples] for part in draws.parts]
                    rows = stride * np.arange(first, last)
                    yield Piece(k, rows, parts, known[k][at], recent[k].later(clocks[k][at]))


def _past(model: FittedModel, warmup: Sequence, after: Sequence) -> Past:
    filled = fill(warmup, samples_between(warmup, after))
    known, memory = model.follow(filled)
    drive = model.structure.drive
    ahead = model.scaling.inputs(drive.follow(after.inputs[:1], np.ones(1), memory)[0])
    outputs = model.scaling.outputs(filled.sequence.outputs)
    idle = ((-len(outputs) % _WARMUP_ROWS, 0), (0, 0))
    rows = np.pad(drive.act(known, ahead), idle), np.pad(outputs, idle, constant_values=np.nan)
    return Past(*rows, np.pad(filled.steps, idle[0]), memory, Recent.of(outputs, filled.steps))


def _key(seed: int, number: int, group: int) -> Key:
    """The key of one model of the ensemble."""
    key = jax.random.fold_in(jax.random.key(seed), group)
    return key if number == 0 else jax.random.fold_in(key, 1000 + number)


def _stack(trees: SequenceOf):
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)  # on the host: nothing to compile


def _start(
    model: FittedModel, ssm: SSM[Component], group: int, pasts: list[Past | None], samples: int, key: Key
) -> list[tuple[Particles, ...]]:
    """Samples of the first state of every sequence: from q(x_0), or from where its warm-up leaves them.

    A warm-up may begin anywhere, and starts from p(x_0); one without any output is a run that begins earlier.
    """
    cold = start_particles(ssm, samples, key=key)
    warm = start_particles(ssm, samples, True, key=key) if any(past is not None for past in pasts) else cold
    dtype = jnp.dtype(model.structure.precision)
    columns, found = np.array(model.groups[group]), []
    for past in pasts:
        if past is None:
            found.append(cold)
            continue
        rows = (jnp.asarray(values, dtype) for values in (past.drive, past.outputs[:, columns], past.gaps))
        first = warm if np.isfinite(past.outputs[:, columns]).any() else cold
        found.append(assimilate(ssm, first, *rows, key=key))
    return found
