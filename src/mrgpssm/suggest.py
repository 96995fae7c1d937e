"""Resolutions, window and buffer from the data alone: time scales, coherence, and the reasons in words."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.signal import csd

from mrgpssm.data import Sequence, as_list, check_alike
from mrgpssm.errors import DataError
from mrgpssm.timescales import WEAK, Search, searches

LEAST_ROWS = 50
SPAN = 3.0  # a window covers this many time constants
MERGE, MOST = 3.0, 4  # resolutions of all outputs closer than this factor merge; how many there may be


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
        scales = ", ".join(f"{s.seconds:.3g} s ({s.share:.0%})" for s in self.scales) or "none found"
        speed = f"{self.speed:.3g} s" if self.scales else "unknown"
        return self.output, scales, f"{self.evidence.explained:.0%}", ", ".join(map(str, self.resolutions)), speed


@dataclass(frozen=True)
class Suggestion:
    """For all outputs together: resolutions from slow to fast, steps that are scored, and steps before them."""

    resolutions: tuple[int, ...]
    window: int
    buffer: int
    per_output: tuple[Advice, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> list[tuple[str, ...]]:
        """A heading and one row per output, slowest first, ready to print."""
        ranked = sorted(self.per_output, key=lambda a: a.speed if a.scales else -1.0, reverse=True)
        return [("output", "time constants (share)", "explained", "resolutions", "speed"), *(a.row() for a in ranked)]


def suggest(sequences: Sequence | Iterable[Sequence], *, window: int = 50, buffer: int = 10) -> Suggestion:
    """Propose resolutions R with (buffer + window) R = 3 τ: one for each clearly separate τ, at most 4 in all.

    With the defaults a step is a twentieth of τ, so that R = 30 belongs to 600 samples and R = 1 to 20 and fewer.
    """
    given = as_list(sequences)
    check_alike(given)
    longest = _check_columns(given)
    notes = []
    if window + buffer >= longest:
        notes.append(f"The longest sequence has {longest} rows: window and buffer ({window}, {buffer}) are cut to fit.")
        buffer, window = longest // 12, longest // 2 - longest // 12
    steps, limit = window + buffer, (longest - 1) // (window + buffer)
    even, step = _even(given)
    seconds = given[0].dt * step
    if even is not given:
        notes.append(f"Sampling is uneven: for this search the data was interpolated to steps of {seconds:g} s.")
    advices = sorted((_advise(*found, even, seconds, steps) for found in searches(even)), key=lambda pair: pair[0])
    lower = [a.output for _, a in advices if max(a.resolutions) > limit]
    if lower:
        notes.append(f"{', '.join(lower)}: resolutions are lowered to {limit}, the most at which a window fits.")
    advices = tuple(replace(a, resolutions=_falling(min(r, limit) for r in a.resolutions)) for _, a in advices)
    resolutions = _together(advices, seconds, steps, limit)
    if min(resolutions) > 1:
        notes.append(f"Nothing faster than resolution {min(resolutions)} can follow was found; add 1 if that matters.")
    return Suggestion(resolutions, window, buffer, advices, tuple(notes))


def _falling(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers), reverse=True))


def _check_columns(sequences: list[Sequence]) -> int:
    longest = max(map(len, sequences))
    if longest < LEAST_ROWS:
        raise DataError(f"Finding time scales needs {LEAST_ROWS} rows in one sequence; the longest has {longest}.")
    for kind in ("input", "output"):
        table = np.concatenate([getattr(s, kind + "s") for s in sequences])
        for name, values in zip(getattr(sequences[0], kind + "_names"), table.T, strict=True):
            known = values[np.isfinite(values)]
            if len(known) < LEAST_ROWS:
                raise DataError(f"The {kind} {name!r} has {len(known)} measured values; {LEAST_ROWS} are needed.")
            if np.ptp(known) <= 1e-12 * np.abs(known).max():
                raise DataError(f"The {kind} {name!r} is constant ({known[0]:g}); leave it out: it carries no scale.")
    return longest


def _even(sequences: list[Sequence]) -> tuple[list[Sequence], float]:
    """The sequences at the median step of their clocks (in units of dt), interpolated where that is not so already."""
    steps = np.concatenate([np.diff(s.clock()) for s in sequences])
    step = float(np.median(steps))
    uneven = np.abs(steps / step - 1).max() > 1e-3
    return ([_resampled(s, step) for s in sequences] if uneven else sequences), step


def _resampled(s: Sequence, step: float) -> Sequence:
    clock = s.clock()
    if clock[-1] > 20 * step * len(s):
        raise DataError(f"{s.name}: most of its time is gaps ({clock[-1] / step:.0f} steps, {len(s)} rows); split it.")
    even = np.arange(0.0, clock[-1], step)
    inputs, outputs = (np.stack([np.interp(even, clock, c) for c in x.T], 1) for x in (s.inputs, s.outputs))
    gap = np.diff(clock, append=np.inf)[np.searchsorted(clock, even, side="right") - 1]
    outputs[gap > 5 * step] = np.nan  # inside a gap there is nothing to explain
    return replace(s, inputs=inputs, outputs=outputs, time=None)


def _advise(search: Search, column: int, sequences: list[Sequence], seconds: float, steps: int) -> tuple[int, Advice]:
    chosen = search.best()[::-1]
    total = search.explained(chosen)
    profiles = np.array([search.profile(chosen, i) for i in range(len(chosen))]).reshape(-1, len(search.grid))
    taus = [search.refined(k, profile) for k, profile in zip(chosen, profiles, strict=True)]
    lost = [max(total - search.explained(chosen[:i] + chosen[i + 1 :]), 1e-6) for i in range(len(chosen))]
    scales = tuple(Scale(t * seconds, a / sum(lost)) for t, a in zip(taus, lost, strict=True))
    speed = float(np.exp(sum(s.share * np.log(s.seconds) for s in scales))) if scales else float("nan")
    single = np.array([search.explained((k,)) for k in range(len(search.grid))])
    spectra, names = _coherence(sequences, column, seconds), sequences[0].input_names
    evidence = Evidence(search.grid * seconds, single, profiles, total, *spectra, names)
    resolutions = _falling([_resolution(t, steps) for t in taus] or [1])
    reasons = _reasons(scales, evidence, seconds, steps)
    return column, Advice(sequences[0].output_names[column], scales, resolutions, speed, reasons, evidence)


def _resolution(tau: float, steps: int) -> int:
    """R with steps R = 3 τ, both in samples, at least 1."""
    return max(1, round(SPAN * tau / steps))


def _reasons(scales: tuple[Scale, ...], e: Evidence, dt: float, steps: int) -> tuple[str, ...]:
    if not scales:
        return (f"no lag of the inputs explains {WEAK:.0%} of the variance: resolution 1 is a guess",)
    reasons = [f"lags of the inputs explain {e.explained:.0%} of the variance (cross-validated)"]
    for s in scales:
        r = _resolution(s.seconds / dt, steps)
        about = "below one sample" if s.seconds < dt else f"{s.seconds:.3g} s"
        edge = (
            "; the recordings show no slower ones: it may be longer, or drift" if s.seconds > 0.99 * e.grid[-1] else ""
        )
        cover = f"windows of {steps * r * dt:.3g} s"
        reasons.append(f"time constant {about} ({s.share:.0%}): resolution {r}, {cover}{edge}")
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


def _together(advices: tuple[Advice, ...], seconds: float, steps: int, limit: int) -> tuple[int, ...]:
    """One list for all outputs: neighbours closer than a factor 3 merge into their weighted geometric mean."""
    found = [(max(1.0, SPAN * s.seconds / seconds / steps), s.share) for a in advices for s in a.scales] or [(1.0, 1.0)]
    groups = sorted((float(np.log(min(r, limit))), weight) for r, weight in found)
    while len(groups) > 1:
        gaps = [b[0] - a[0] for a, b in itertools.pairwise(groups)]
        i = int(np.argmin(gaps))
        if gaps[i] >= np.log(MERGE) and len(groups) <= MOST:
            break
        (a, v), (b, w) = groups[i : i + 2]
        groups[i : i + 2] = [((v * a + w * b) / (v + w), v + w)]
    return _falling(round(np.exp(r)) for r, _ in groups)
