"""Resolutions, window and buffer from the data alone: time scales, coherence, and the reasons in words.

`MRGPSSM()` takes them from here, so that what is suggested is what is fitted.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.signal import csd

from mrgpssm.advice.timescales import WEAK, Search, searches
from mrgpssm.data import Sequence, as_list, check_alike
from mrgpssm.data.sequence import each_column
from mrgpssm.errors import DataError

LEAST_ROWS = 50
LONG, MANY = 5_000, 4  # rows and recordings from which on data are long, and many
WINDOW, BUFFER = 50, 10  # steps of a window that are scored, and before them
SPAN = 3.0  # a window covers this many time constants
MERGE, MOST = 3.0, 4  # resolutions of all outputs closer than this factor merge; how many there may be
_WINDOWS = 10  # that the longest sequence has room for at the coarsest resolution
_USUAL, _APART = (30, 5, 1), 3  # resolutions that are added up to three, and how far from those that are there


@dataclass(frozen=True)
class Scale:
    """One time scale of one output: its time constant, and its share of what all scales explain."""

    seconds: float
    share: float


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the advice rests on: `single` (n,), the cross-validated explained variance of one lag alone over `grid` (n,)
    in seconds; `profiles` (k, n), the same while one chosen scale moves and the others stay; `coherence` (f, D_u) over
    `frequency` (f,) in Hz; half the output's variance lies below `median_frequency`.
    """

    grid: np.ndarray
    single: np.ndarray
    profiles: np.ndarray
    explained: float
    frequency: np.ndarray
    coherence: np.ndarray
    median_frequency: float
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """For one output. `speed` is the share-weighted geometric mean of its time constants in seconds: large is slow."""

    output: str
    scales: tuple[Scale, ...]
    resolutions: tuple[int, ...]
    speed: float
    reasons: tuple[str, ...]
    evidence: Evidence = field(repr=False, compare=False)

    def row(self) -> tuple[str, ...]:
        """The cells of this output in the table of the suggestion."""
        scales = ", ".join(f"{s.seconds:.3g} s ({s.share:.0%})" for s in self.scales) or "none found"
        speed = f"{self.speed:.3g} s" if self.scales else "unknown"
        resolutions = ", ".join(map(str, self.resolutions)) or "none"
        return self.output, scales, f"{self.evidence.explained:.0%}", resolutions, speed


@dataclass(frozen=True)
class Room:
    """What the data have room for: resolutions from slow to fast, steps that are scored, and steps before them.

    `limits` say why they are not just those of the time constants.
    """

    resolutions: tuple[int, ...]
    window: int
    buffer: int
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """For all outputs together: resolutions and windows, and what each output asks of them."""

    room: Room
    per_output: tuple[Advice, ...]
    notes: tuple[str, ...] = ()

    @property
    def resolutions(self) -> tuple[int, ...]:
        """From slow to fast."""
        return self.room.resolutions

    @property
    def window(self) -> int:
        """Steps of a window that are scored."""
        return self.room.window

    @property
    def buffer(self) -> int:
        """Steps before them."""
        return self.room.buffer

    def rank(self) -> list[Advice]:
        """The outputs, slowest first."""
        return sorted(self.per_output, key=lambda a: a.speed if a.scales else -1.0, reverse=True)

    def table(self) -> list[tuple[str, ...]]:
        """A heading and one row per output, slowest first, ready to print."""
        head = ("output", "time constants (share)", "explained", "resolutions", "mean time constant")
        return [head, *(advice.row() for advice in self.rank())]


def suggest(sequences: Sequence | Iterable[Sequence]) -> Suggestion:
    """Propose resolutions R with (buffer + window) R = 3 τ, as far as the data have room: what `MRGPSSM()` uses.

    There is one for each clearly separate τ, at most 4 in all. A step is a twentieth of τ: R = 30 belongs to 600
    samples and R = 1 to 20 and fewer.
    """
    given = as_list(sequences)
    check_alike(given)
    longest = _check_columns(given)
    steps = WINDOW + BUFFER if longest > WINDOW + BUFFER else longest // 2
    even, step = _space_evenly(given)
    seconds, notes = given[0].dt * step, []
    if even is not given:
        notes.append(f"Sampling is uneven: for this search the data was interpolated to steps of {seconds:g} s.")
    found = sorted((_scales(*found, even, seconds) for found in searches(even)), key=lambda some: some[0])
    wanted = _together([scale for _, scales, _ in found for scale in scales], seconds, steps, (longest - 1) // steps)
    room = make_room(wanted, given)
    notes += [f"Resolutions: {limit}." for limit in room.limits]
    if min(room.resolutions) > 1:
        notes.append(
            f"Nothing faster than resolution {min(room.resolutions)} can follow was found; add 1 if that matters."
        )
    names = given[0].output_names
    advices = tuple(_advise(names[column], scales, e, seconds, steps, room) for column, scales, e in found)
    return Suggestion(room, advices, tuple(notes))


def make_room(wanted: tuple[int, ...], sequences: list[Sequence]) -> Room:
    """The resolutions that are wanted, as far as the data have room for their windows.

    Long data keep room for ten windows, and many recordings get three resolutions at least. Short data get smaller
    windows, and at most two resolutions with room for two windows.
    """
    longest = max(map(len, sequences))
    if sum(map(len, sequences)) < LONG:
        window = int(np.clip(longest // 4, 10, WINDOW))
        few = tuple(r for r in wanted if r * (window + BUFFER) * 2 <= longest)[-2:] or (1,)
        limits = [] if set(wanted) <= set(few) else ["short data get at most two, with room for two windows"]
        return Room(few, window, min(BUFFER, window // 2), tuple(limits))
    most = max(1, longest // (_WINDOWS * (WINDOW + BUFFER)))
    least = len(_USUAL) if len(sequences) >= MANY else 1
    chosen, added = {min(r, most) for r in wanted}, []
    for usual in (min(r, most) for r in _USUAL):
        if len(chosen) < least and all(max(r, usual) >= _APART * min(r, usual) for r in chosen):
            chosen.add(usual)
            added.append(str(usual))
    limits = []
    if max(wanted, default=0) > most:
        limits.append(f"at most {most}, so that the longest sequence holds {_WINDOWS} windows")
    if added and wanted:
        limits.append(f"{', '.join(added)} added, since many long recordings carry {least}")
    return Room(order(chosen), WINDOW, BUFFER, tuple(limits))


def order(numbers: Iterable[int]) -> tuple[int, ...]:
    """Resolutions from slow to fast, each once."""
    return tuple(sorted(set(numbers), reverse=True))


def _check_columns(sequences: list[Sequence]) -> int:
    longest = max(map(len, sequences))
    if longest < LEAST_ROWS:
        raise DataError(f"Finding time scales needs {LEAST_ROWS} rows in one sequence; the longest has {longest}.")
    for kind, name, parts in each_column(sequences):
        values = np.concatenate(parts)
        known = values[np.isfinite(values)]
        if len(known) < LEAST_ROWS:
            raise DataError(f"The {kind} {name!r} has {len(known)} measured values; {LEAST_ROWS} are needed.")
        if np.ptp(known) <= 1e-12 * np.abs(known).max():
            raise DataError(f"The {kind} {name!r} is constant ({known[0]:g}); leave it out: it carries no scale.")
    return longest


def _space_evenly(sequences: list[Sequence]) -> tuple[list[Sequence], float]:
    """The sequences at the median step of their clocks (in units of dt), interpolated where that is not so already."""
    steps = np.concatenate([np.diff(s.clock()) for s in sequences])
    step = float(np.median(steps))
    uneven = np.abs(steps / step - 1).max() > 1e-3
    return ([_resample(s, step) for s in sequences] if uneven else sequences), step


def _resample(s: Sequence, step: float) -> Sequence:
    clock = s.clock()
    if clock[-1] > 20 * step * len(s):
        raise DataError(f"{s.name}: most of its time is gaps ({clock[-1] / step:.0f} steps, {len(s)} rows); split it.")
    even = np.arange(0.0, clock[-1], step)
    inputs, outputs = (np.stack([np.interp(even, clock, c) for c in x.T], 1) for x in (s.inputs, s.outputs))
    gap = np.diff(clock, append=np.inf)[np.searchsorted(clock, even, side="right") - 1]
    outputs[gap > 5 * step] = np.nan  # inside a gap there is nothing to explain
    return replace(s, inputs=inputs, outputs=outputs, time=None)


def _scales(
    search: Search, column: int, sequences: list[Sequence], seconds: float
) -> tuple[int, tuple[Scale, ...], Evidence]:
    """The time scales of one output, and what they rest on."""
    chosen = search.best()[::-1]
    total = search.explain(chosen)
    profiles = np.array([search.profile(chosen, i) for i in range(len(chosen))]).reshape(-1, len(search.grid))
    taus = [search.find_top(k, profile) for k, profile in zip(chosen, profiles, strict=True)]
    lost = [max(total - search.explain(chosen[:i] + chosen[i + 1 :]), 1e-6) for i in range(len(chosen))]
    scales = tuple(Scale(t * seconds, a / sum(lost)) for t, a in zip(taus, lost, strict=True))
    single = np.array([search.explain((k,)) for k in range(len(search.grid))])
    spectra, names = _coherence(sequences, column, seconds), sequences[0].input_names
    return column, scales, Evidence(search.grid * seconds, single, profiles, total, *spectra, names)


def _advise(output: str, scales: tuple[Scale, ...], e: Evidence, dt: float, steps: int, room: Room) -> Advice:
    """Every scale with the resolution that follows it best, of those that there are."""
    ideal = [max(1.0, SPAN * s.seconds / dt / steps) for s in scales]
    nearest = [min(room.resolutions, key=lambda r, own=own: abs(np.log(r / own))) for own in ideal]
    speed = float(np.exp(sum(s.share * np.log(s.seconds) for s in scales))) if scales else float("nan")
    reasons = _reasons(scales, nearest, e, dt, room)
    return Advice(output, scales, order(nearest), speed, reasons, e)


def _reasons(scales: tuple[Scale, ...], nearest: list[int], e: Evidence, dt: float, room: Room) -> tuple[str, ...]:
    if not scales:
        return (f"no lag of the inputs explains {WEAK:.0%} of the variance: it asks for no resolution",)
    reasons = [f"lags of the inputs explain {e.explained:.0%} of the variance (cross-validated)"]
    for s, r in zip(scales, nearest, strict=True):
        about = "below one sample" if s.seconds < dt else f"{s.seconds:.3g} s"
        cover = f"windows of {(room.window + room.buffer) * r * dt:.3g} s"
        reasons.append(f"time constant {about} ({s.share:.0%}): resolution {r}, {cover}")
        if s.seconds > 0.99 * e.grid[-1]:
            reasons[-1] += "; the recordings show no slower ones: it may be longer, or drift"
    best = int(np.argmax(e.coherence.mean(0)))
    high = e.frequency[e.coherence[:, best] > 0.5]
    reach = f"exceeds 0.5 up to {high.max():.2g} Hz" if len(high) else "stays below 0.5 (nonlinear, or shared)"
    reasons.append(f"coherence with {e.inputs[best]} {reach}; half the variance lies below {e.median_frequency:.2g} Hz")
    return tuple(reasons)


def _coherence(sequences: list[Sequence], column: int, seconds: float) -> tuple[np.ndarray, np.ndarray, float]:
    """|S_uy|² / (S_uu S_yy) of each input, from Welch spectra summed over sequences and in bins of log frequency."""
    size = int(np.clip(2 ** int(np.log2(max(map(len, sequences)) / 6)), 16, 4096))
    count = sequences[0].inputs.shape[1]
    spectra = np.zeros((2 * count + 1, size // 2 + 1), complex)
    for s in sequences:
        known = np.flatnonzero(np.isfinite(s.outputs[:, column]))
        if len(s) >= size and len(known):
            y = np.interp(np.arange(len(s)), known, s.outputs[known, column])[None]
            pairs = ((s.inputs.T, y), (s.inputs.T, s.inputs.T), (y, y))
            spectra += len(s) * np.concatenate([csd(a, b, nperseg=size)[1] for a, b in pairs])
    spectra, frequency = spectra[:, 1:-1], np.arange(1, size // 2) / size / seconds
    bins = np.floor(5 * np.log2(frequency / frequency[0]) + 1e-9)
    summed = np.stack([spectra[:, bins == b].sum(1) for b in np.unique(bins)], 1)
    centres = np.array([frequency[bins == b].mean() for b in np.unique(bins)])
    coherence = np.abs(summed[:count]) ** 2 / np.maximum((summed[count:-1] * summed[-1]).real, 1e-300)
    power = np.cumsum(spectra[-1].real)
    return centres, coherence.T.clip(0, 1), float(frequency[np.searchsorted(power, power[-1] / 2)])


def _together(scales: list[Scale], seconds: float, steps: int, limit: int) -> tuple[int, ...]:
    """One list for all outputs, at most `limit`: neighbours closer than a factor 3 merge into their geometric mean."""
    found = [(max(1.0, SPAN * s.seconds / seconds / steps), s.share) for s in scales] or [(1.0, 1.0)]
    groups = sorted((float(np.log(min(r, limit))), weight) for r, weight in found)
    while len(groups) > 1:
        gaps = [b[0] - a[0] for a, b in itertools.pairwise(groups)]
        i = int(np.argmin(gaps))
        if gaps[i] >= np.log(MERGE) and len(groups) <= MOST:
            break
        (a, v), (b, w) = groups[i : i + 2]
        groups[i : i + 2] = [((v * a + w * b) / (v + w), v + w)]
    return order(round(np.exp(r)) for r, _ in groups)
