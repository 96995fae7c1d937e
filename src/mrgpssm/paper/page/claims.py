"""The paper's claims, and this project's targets, decided by numbers: every one holds, does not hold, or was not run.

A claim sees only a function from (experiment, method, output) to a cell of RMSE, so that the paper's own numbers can be
put through the same tests.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mrgpssm.data.engine import PAPER_OUTPUTS as OUTPUTS
from mrgpssm.paper.page import published
from mrgpssm.paper.page.results import Cell, Results

Look = Callable[[str, str, str], Cell | None]
Verdict = tuple[bool, str]
Test = Callable[..., Verdict]
GOOD = 1.25  # a method is good on an output where its error is at most this times the best one's
TARGETS = {"PN": 0.52, "HC": 0.36, "NOx": 0.15, "Temp": 0.125}
RATIO = 0.7
GRID = (1, 5, 10, 20, 30, 40, 50, 60, 70)
_MR, _MR_ENGINE = "MR-GPSSM R=[30,1]", "MR-GPSSM R=[30,5,1]"
_CLAIMS: list[tuple[str, str, Test, tuple]] = []
_TARGETS: list[tuple[str, str, Test, tuple]] = []


@dataclass(frozen=True)
class Claim:
    """What is claimed and where, whether it holds (None: not run), and the numbers that decide."""

    text: str
    source: str
    holds: bool | None
    numbers: str

    @property
    def verdict(self) -> str:
        """In words."""
        return "not run" if self.holds is None else "holds" if self.holds else "does not hold"


class _MissingError(Exception):
    """A cell that the claim needs has no record."""


def look_in(results: Results, unit: str = "training", through: bool = False) -> Look:
    """Cells of the records."""
    return lambda what, name, output: results.cell(what, name, output, "rmse", unit=unit, through=through)


def look_in_paper(what: str, name: str, output: str) -> Cell | None:
    """Cells of the paper's tables."""
    number = published.TABLES.get(what, {}).get("rmse", {}).get(output, {}).get(name)
    return None if number is None else Cell(number[0], number[1], 5, 0)


def claims(look: Look) -> Iterator[Claim]:
    """The claims of section 4 and supplement E, in their order."""
    return (_decide(look, *claim) for claim in _CLAIMS)


def targets(look: Look) -> Iterator[Claim]:
    """What this project asked of itself on the 13 files it has."""
    return (_decide(look, *target) for target in _TARGETS)


def relative_errors(look: Look) -> dict[str, float]:
    """RMSE over MR-GPSSM's, averaged over the four outputs, by method (paper, fig:engine, rightmost plot)."""
    found = {}
    for name in published.METHODS["engine"]:
        try:
            found[name] = sum(_ratios(look, "engine", name).values()) / len(OUTPUTS)
        except _MissingError:
            continue
    return found


def _decide(look: Look, text: str, source: str, test: Test, case: tuple) -> Claim:
    try:
        return Claim(text, source, *test(look, *case))
    except _MissingError as missing:
        return Claim(text, source, None, str(missing))


def _add(to: list, text: str, source: str, *cases: tuple) -> Callable[[Test], Test]:
    """Let a test decide a claim, or one for every case, which also stands in the text."""

    def register(test: Test) -> Test:
        to.extend((text.format(*case), source, test, case) for case in cases or ((),))
        return test

    return register


def _cell(look: Look, what: str, name: str, output: str) -> Cell:
    cell = look(what, name, output)
    if cell is None:
        raise _MissingError(f"needs {what}: {name}")
    return cell


def _mean(look: Look, what: str, name: str, output: str) -> float:
    """The mean; runs that all diverged are worse than anything."""
    mean = _cell(look, what, name, output).mean
    return math.inf if math.isnan(mean) else mean


def _ratios(look: Look, what: str, name: str, outputs: Iterable[str] = OUTPUTS) -> dict[str, float]:
    """A method's error over that of the engine's MR-GPSSM, by output."""
    return {o: _mean(look, what, name, o) / _mean(look, what, _MR_ENGINE, o) for o in outputs}


def _text(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "diverged"


def _best_rival(look: Look, output: str) -> str:
    """The best method with a single resolution on a semi-synthetic set."""
    single = (name for name in published.METHODS["semi-synthetic"] if name != _MR)
    return min(single, key=lambda name: _mean(look, "semi-synthetic", name, output))


def _all_better(look: Look, what: str, pairs: Iterable[tuple[str, str, str]]) -> Verdict:
    """Whether the first method of every (output, method, other method) has the smaller error."""
    found = [(o, _mean(look, what, a, o), _mean(look, what, b, o), a, b) for o, a, b in pairs]
    texts = (f"{o}: {_text(x)} {a}, {_text(y)} {b}" for o, x, y, a, b in found)
    return all(x < y for _, x, y, *_ in found), "; ".join(texts)


@_add(_CLAIMS, "MR-GPSSM is best on {}", "table:synthetic", ("M1",), ("M2",))
def _is_best(look: Look, output: str) -> Verdict:
    own = _cell(look, "semi-synthetic", _MR, output)
    name = _best_rival(look, output)
    rival = _cell(look, "semi-synthetic", name, output)
    numbers = f"{own.mean:.3f} ± {own.error:.3f} against {rival.mean:.3f} ± {rival.error:.3f} ({name})"
    return own.high < rival.low, numbers


@_add(_CLAIMS, "Fast dynamics (F) need R=1, slow ones (S) R=30", "section 4.1")
def _need_resolution(look: Look) -> Verdict:
    methods = (("GPSSM R=1", "GPSSM R=30"), ("MC-GPSSM R=[1,1]", "MC-GPSSM R=[30,30]"))
    pairs = [*(("F", fast, slow) for fast, slow in methods), *(("S", slow, fast) for fast, slow in methods)]
    return _all_better(look, "semi-synthetic", pairs)


@_add(_CLAIMS, f"MR-GPSSM is comparable on F and S (at most {GOOD + 0.25:g} x the best)", "section 4.1")
def _is_comparable(look: Look) -> Verdict:
    ratios = {
        o: _mean(look, "semi-synthetic", _MR, o) / _mean(look, "semi-synthetic", _best_rival(look, o), o)
        for o in ("F", "S")
    }
    return max(ratios.values()) <= GOOD + 0.25, ", ".join(f"{o}: {r:.2f} x" for o, r in ratios.items())


@_add(
    _CLAIMS,
    "A large batch (B=1500) does not replace resolution at equal {}",
    "table:batchsizeVSresolution",
    ("time",),
    ("steps",),
)
def _prefers_resolution(look: Look, equal: str) -> Verdict:
    large = {"GPSSM R=30, B=50": "GPSSM R=1", "MC-GPSSM R=[30,30], B=50": "MC-GPSSM R=[1,1]"}
    pairs = [("S", small, f"{big}, B=1500, equal {equal}") for small, big in large.items()]
    return _all_better(look, "batch-vs-resolution", pairs)


@_add(
    _CLAIMS,
    "Slow dynamics prevail in Temp: R=30 beats R=1 there and nowhere else, and its best R is the slowest",
    "figapp:gridsearch",
)
def _is_slow(look: Look) -> Verdict:
    error = {o: {r: _mean(look, "grid", f"GPSSM R={r}", o) for r in GRID} for o in OUTPUTS}
    best = {o: min(GRID, key=lambda r, o=o: error[o][r]) for o in OUTPUTS}
    slowest = all(best["Temp"] > best[o] for o in OUTPUTS if o != "Temp")
    sides = all((error[o][30] < error[o][1]) == (o == "Temp") for o in OUTPUTS)
    texts = (f"{o}: {_text(error[o][1])} R=1, {_text(error[o][30])} R=30, best R={best[o]}" for o in OUTPUTS)
    return slowest and sides, "; ".join(texts)


@_add(_CLAIMS, f"MR-GPSSM is the only method good on all four outputs (at most {GOOD:g} x the best)", "fig:engine")
def _is_only_good(look: Look) -> Verdict:
    methods = published.METHODS["engine"]
    floor = {o: min(_mean(look, "engine", name, o) for name in methods) for o in OUTPUTS}
    worst = {name: max(_mean(look, "engine", name, o) / floor[o] for o in OUTPUTS) for name in methods}
    listed = ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items())
    good = [name for name, ratio in worst.items() if ratio <= GOOD]
    return good == [_MR_ENGINE], f"worst ratio to the best on any output: {listed}"


@_add(
    _CLAIMS,
    f"Resolution sets with a fast and a slow component do as well as the default (at most {GOOD:g} x)",
    "table:sensitivity",
)
def _is_mild(look: Look) -> Verdict:
    names = ("MR-GPSSM R=[30,15,7,5,1]", "MR-GPSSM R=[40,20,10,5,1]")
    ratios = {name: max(_ratios(look, "sensitivity", name).values()) for name in names}
    return max(ratios.values()) <= GOOD, ", ".join(f"{name}: at most {r:.2f} x" for name, r in ratios.items())


@_add(_CLAIMS, "Temp needs a slow component, HC and NOx a fast one", "table:sensitivity")
def _needs_both(look: Look) -> Verdict:
    slow = _ratios(look, "sensitivity", "MR-GPSSM R=[7,5,1]", ["Temp"])["Temp"]
    fast = _ratios(look, "sensitivity", "MR-GPSSM R=[40,20]", ["HC", "NOx"])
    listed = ", ".join(f"{o} without a fast one {r:.2f} x" for o, r in fast.items())
    return slow > 1 and min(fast.values()) > 1, f"Temp without a slow one {slow:.2f} x, {listed}"


@_add(_TARGETS, "Engine, MR-GPSSM on {}: RMSE at most {:g}", "mean of 5 splits", *TARGETS.items())
def _is_at_most(look: Look, output: str, limit: float) -> Verdict:
    value = _mean(look, "engine", _MR_ENGINE, output)
    return value <= limit, _text(value)


@_add(
    _TARGETS,
    f"Semi-synthetic {{}}: MR-GPSSM at most {RATIO:g} x the best single resolution",
    "mean of 5 repeats",
    ("M1",),
    ("M2",),
)
def _beats_rival(look: Look, output: str) -> Verdict:
    own = _mean(look, "semi-synthetic", _MR, output)
    rival = _mean(look, "semi-synthetic", _best_rival(look, output), output)
    return own <= RATIO * rival, f"{own:.3f} / {rival:.3f} = {own / rival:.2f}"
