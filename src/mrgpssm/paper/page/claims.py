"""The paper's claims, and this project's targets, decided by numbers: every one holds, does not hold, or was not run.

A claim sees only a function from (experiment, method, output) to a cell of RMSE, so that the paper's own numbers can be
put through the same tests.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mrgpssm.paper.page import published
from mrgpssm.paper.page.results import Cell, Results

Look = Callable[[str, str, str], Cell | None]
OUTPUTS = ("PN", "HC", "NOx", "Temp")
GOOD = 1.25  # a method is good on an output where its error is at most this times the best one's
TARGETS = {"PN": 0.52, "HC": 0.36, "NOx": 0.15, "Temp": 0.125}
RATIO = 0.7
GRID = (1, 5, 10, 20, 30, 40, 50, 60, 70)
_MR, _MR_ENGINE = "MR-GPSSM R=[30,1]", "MR-GPSSM R=[30,5,1]"


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
    for output in ("M1", "M2"):
        yield _claim(f"MR-GPSSM is best on {output}", "table:synthetic", lambda o=output: _best_on(look, o))
    yield _claim("Fast dynamics (F) need R=1, slow ones (S) R=30", "section 4.1", lambda: _resolution_matters(look))
    yield _claim(
        f"MR-GPSSM is comparable on F and S (at most {GOOD + 0.25:g} x the best)",
        "section 4.1",
        lambda: _comparable(look),
    )
    for what in ("time", "steps"):
        yield _claim(
            f"A large batch (B=1500) does not replace resolution at equal {what}",
            "table:batchsizeVSresolution",
            lambda what=what: _batches(look, what),
        )
    yield _claim(
        "Slow dynamics prevail in Temp: R=30 beats R=1 there and nowhere else, and its best R is the slowest",
        "figapp:gridsearch",
        lambda: _grid(look),
    )
    yield _claim(
        f"MR-GPSSM is the only method good on all four outputs (at most {GOOD:g} x the best)",
        "fig:engine",
        lambda: _only_good(look),
    )
    yield _claim(
        f"Resolution sets with a fast and a slow component do as well as the default (at most {GOOD:g} x)",
        "table:sensitivity",
        lambda: _mild(look),
    )
    yield _claim("Temp needs a slow component, HC and NOx a fast one", "table:sensitivity", lambda: _needs(look))


def targets(look: Look) -> Iterator[Claim]:
    """What this project asked of itself on the 13 files it has."""
    for output, limit in TARGETS.items():
        yield _claim(
            f"Engine, MR-GPSSM on {output}: RMSE at most {limit:g}", "mean of 5 splits",
            lambda o=output, limit=limit: _at_most(_mean(look, "engine", _MR_ENGINE, o), limit),
        )  # fmt: skip
    for output in ("M1", "M2"):
        yield _claim(
            f"Semi-synthetic {output}: MR-GPSSM at most {RATIO:g} x the best single resolution", "mean of 5 repeats",
            lambda o=output: _ratio(look, o),
        )  # fmt: skip


def relative_errors(look: Look) -> dict[str, float]:
    """RMSE over MR-GPSSM's, averaged over the four outputs, by method (paper, fig:engine, rightmost plot)."""
    try:
        own = {o: _mean(look, "engine", _MR_ENGINE, o) for o in OUTPUTS}
    except _MissingError:
        return {}
    found = {}
    for name in published.ENGINE_METHODS:
        try:
            found[name] = sum(_mean(look, "engine", name, o) / own[o] for o in OUTPUTS) / len(OUTPUTS)
        except _MissingError:
            continue
    return found


def _claim(text: str, source: str, decide: Callable[[], tuple[bool, str]]) -> Claim:
    try:
        return Claim(text, source, *decide())
    except _MissingError as missing:
        return Claim(text, source, None, str(missing))


def _cell(look: Look, what: str, name: str, output: str) -> Cell:
    cell = look(what, name, output)
    if cell is None:
        raise _MissingError(f"needs {what}: {name}")
    return cell


def _mean(look: Look, what: str, name: str, output: str) -> float:
    """The mean; runs that all diverged are worse than anything."""
    mean = _cell(look, what, name, output).mean
    return math.inf if math.isnan(mean) else mean


def _text(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "diverged"


def _at_most(value: float, limit: float) -> tuple[bool, str]:
    return value <= limit, _text(value)


def _best_on(look: Look, output: str) -> tuple[bool, str]:
    own = _cell(look, "semi-synthetic", _MR, output)
    single = [name for name in published.SYNTHETIC_METHODS if name != _MR]
    name = min(single, key=lambda n: _mean(look, "semi-synthetic", n, output))
    rival = _cell(look, "semi-synthetic", name, output)
    return (
        own.high < rival.low,
        f"{own.mean:.3f} ± {own.error:.3f} against {rival.mean:.3f} ± {rival.error:.3f} ({name})",
    )


def _ratio(look: Look, output: str) -> tuple[bool, str]:
    own = _mean(look, "semi-synthetic", _MR, output)
    rival = min(_mean(look, "semi-synthetic", n, output) for n in published.SYNTHETIC_METHODS if n != _MR)
    return own <= RATIO * rival, f"{own:.3f} / {rival:.3f} = {own / rival:.2f}"


def _resolution_matters(look: Look) -> tuple[bool, str]:
    pairs = (("F", "GPSSM R=1", "GPSSM R=30"), ("F", "MC-GPSSM R=[1,1]", "MC-GPSSM R=[30,30]"),
             ("S", "GPSSM R=30", "GPSSM R=1"), ("S", "MC-GPSSM R=[30,30]", "MC-GPSSM R=[1,1]"))  # fmt: skip
    return _all_better(look, "semi-synthetic", pairs)


def _batches(look: Look, what: str) -> tuple[bool, str]:
    large = {"GPSSM R=30, B=50": "GPSSM R=1", "MC-GPSSM R=[30,30], B=50": "MC-GPSSM R=[1,1]"}
    pairs = [("S", small, f"{big}, B=1500, equal {what}") for small, big in large.items()]
    return _all_better(look, "batch-vs-resolution", pairs)


def _all_better(look: Look, what: str, pairs) -> tuple[bool, str]:
    found = [(o, _mean(look, what, a, o), _mean(look, what, b, o), a, b) for o, a, b in pairs]
    texts = (f"{o}: {_text(x)} {a}, {_text(y)} {b}" for o, x, y, a, b in found)
    return all(x < y for _, x, y, *_ in found), "; ".join(texts)


def _comparable(look: Look) -> tuple[bool, str]:
    single = [name for name in published.SYNTHETIC_METHODS if name != _MR]
    ratios = {
        o: _mean(look, "semi-synthetic", _MR, o) / min(_mean(look, "semi-synthetic", name, o) for name in single)
        for o in ("F", "S")
    }
    return max(ratios.values()) <= GOOD + 0.25, ", ".join(f"{o}: {r:.2f} x" for o, r in ratios.items())


def _grid(look: Look) -> tuple[bool, str]:
    error = {o: {r: _mean(look, "grid", f"GPSSM R={r}", o) for r in GRID} for o in OUTPUTS}
    best = {o: min(GRID, key=lambda r, o=o: error[o][r]) for o in OUTPUTS}
    slowest = all(best["Temp"] > best[o] for o in OUTPUTS if o != "Temp")
    sides = all((error[o][30] < error[o][1]) == (o == "Temp") for o in OUTPUTS)
    texts = (f"{o}: {_text(error[o][1])} R=1, {_text(error[o][30])} R=30, best R={best[o]}" for o in OUTPUTS)
    return slowest and sides, "; ".join(texts)


def _only_good(look: Look) -> tuple[bool, str]:
    worst = {}
    floor = {o: min(_mean(look, "engine", n, o) for n in published.ENGINE_METHODS) for o in OUTPUTS}
    for name in published.ENGINE_METHODS:
        worst[name] = max(_mean(look, "engine", name, o) / floor[o] for o in OUTPUTS)
    good = [name for name, ratio in worst.items() if ratio <= GOOD]
    listed = ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items())
    return good == [_MR_ENGINE], f"worst ratio to the best on any output: {listed}"


def _mild(look: Look) -> tuple[bool, str]:
    names = ("MR-GPSSM R=[30,15,7,5,1]", "MR-GPSSM R=[40,20,10,5,1]")
    ratios = {
        name: max(_mean(look, "sensitivity", name, o) / _mean(look, "sensitivity", _MR_ENGINE, o) for o in OUTPUTS)
        for name in names
    }
    return max(ratios.values()) <= GOOD, ", ".join(f"{name}: at most {r:.2f} x" for name, r in ratios.items())


def _needs(look: Look) -> tuple[bool, str]:
    slow = _mean(look, "sensitivity", "MR-GPSSM R=[7,5,1]", "Temp") / _mean(look, "sensitivity", _MR_ENGINE, "Temp")
    fast = {
        o: _mean(look, "sensitivity", "MR-GPSSM R=[40,20]", o) / _mean(look, "sensitivity", _MR_ENGINE, o)
        for o in ("HC", "NOx")
    }
    listed = ", ".join(f"{o} without a fast one {r:.2f} x" for o, r in fast.items())
    return slow > 1 and min(fast.values()) > 1, f"Temp without a slow one {slow:.2f} x, {listed}"
