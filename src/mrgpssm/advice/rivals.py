"""Rivals of what time constants suggest: candidates that start from linear models, and those models themselves."""

from typing import Any, NamedTuple

import numpy as np

from mrgpssm.advice.suggest import MANY
from mrgpssm.data import Scaling, Sequence, fill
from mrgpssm.data.ranges import Recording
from mrgpssm.errors import DataError
from mrgpssm.spec import MEMORY, MOST_MEMORY, Spec
from mrgpssm.training.linear.start import find_again
from mrgpssm.training.linear.subspace import Identified, identify

_ENOUGH, _FEW = 200, 1500  # rows that a linear model needs; rows up to which a Gaussian process beside it is small
LEAST_ORDER, _ROOM = 2, 4  # of a component that starts linear; its memory over that of the slowest mode
_DRIFTS = 100  # rows: a mode that fades no sooner may be an integrator
_UNIT_ROOT = 20.7  # if the data have at most so many of its time constants: Dickey and Fuller's limit of 1 %
_LOOKED_AT = 20_000  # rows that are looked at for feed-through, dead times, noise and orders
_INDUCING, _FEW_INDUCING = 50, 20

INTEGRATOR = {"linear": "integrator", "low": "low integrator"}  # names of candidates, without one and with one

Settings = dict[str, Any]


class Reason(NamedTuple):
    """What is said where one of the options is chosen: a text with final values in braces, and why."""

    options: tuple[str, ...]
    text: str
    why: str = ""

    def write(self, values: Settings) -> str:
        """The sentence."""
        return ": ".join(filter(None, (self.text.format(**values), self.why)))


class LinearRival(NamedTuple):
    """A linear model as a specification, and its error (D_y,) on rows left out, in deviations of the outputs."""

    spec: Spec
    errors: np.ndarray


def take_some(training: list[Sequence]) -> list[list[Recording]]:
    """The first rows of all recordings, scaled, for each output; none where an input or output is constant."""
    try:
        scaling = Scaling.fit(training)
    except DataError:
        return []
    filled = [fill(s).sequence for s in training]
    each = max(1, _LOOKED_AT // len(filled))
    some = [(scaling.inputs(s.inputs[:each]), scaling.outputs(s.outputs[:each])) for s in filled]
    columns = range(len(training[0].output_names))
    return [[Recording(u, y[:, [c]]) for u, y in some] for c in columns]


def find_orders(training: list[Sequence]) -> list[Identified]:
    """Linear models of all outputs; none where one of them has none, or rows are few."""
    if sum(map(len, training)) < _ENOUGH:
        return []
    found = [identify(own) for own in take_some(training)]
    return [] if None in found else found  # pyright: ignore[reportReturnType]


def has_rival(training: list[Sequence]) -> bool:
    """Whether `MRGPSSM()` would try a linear start against the resolutions that follow from time constants."""
    return len(training) < MANY and bool(find_orders(training))


def make_linear(spec: Spec, orders: list[Identified]) -> LinearRival:
    """The linear model that the others must beat, with the delays, feed-through and bands of `spec`."""
    still = {"cycles": 0, "finetune": 0, "refit": 0, "early_stopping": False, "window_start": "cache"}
    once = {"restarts": 1, "ensemble": 1, "fold_restarts": 1}
    structure = _linear_structure(orders, spec.structure.integrators)
    own = spec.change(**structure, **still, **once, filters=(), inducing=1)
    return LinearRival(own, np.array([float(each.errors[0]) for each in orders]))


def _linear_structure(orders: list[Identified], integrators: int | None) -> Settings:
    """One component that can hold the linear models of all outputs, beside so many integrators."""
    order, longest = max(each.settings.order for each in orders), max(each.model.memory() for each in orders)
    memory, least = int(np.clip(round(_ROOM * longest), MEMORY, MOST_MEMORY)), max(LEAST_ORDER, 1 + (integrators or 0))
    structure: Settings = {"resolutions": (1,), "latent_dim": max(order, least), "emission": "linear"}
    return structure | {"start": "linear", "memory": memory}


def list_starts(
    settings: Settings, orders: list[Identified], low: list[Identified], training: list[Sequence], given: Spec
) -> list[tuple[str, tuple[Settings, list[Reason]]]]:
    """The candidates that start from linear models, by name: of the order that was found, and of `low` order.

    Where a mode hardly fades, the same with an integrator is a candidate of its own.
    """
    found, drift = [], min((each.model.drift_memory() for each in orders), default=0.0)
    lasts = drift >= max(_DRIFTS, sum(map(len, training)) / _UNIT_ROOT)
    for name, some in (("linear", orders), ("low", low)):
        if not some:
            continue
        chosen, reasons = _start_linear(settings, some, training, given)
        found.append((name, (chosen, reasons)))
        if given.structure.integrators is None and lasts:
            adds = Reason(
                ("integrators",), "an integrator", f"a mode that does not oscillate fades in {drift:.0f} rows"
            )
            found.append((INTEGRATOR[name], (chosen | {"integrators": 1}, [*reasons, adds])))
    return found


def _start_linear(
    settings: Settings, orders: list[Identified], training: list[Sequence], given: Spec
) -> tuple[Settings, list[Reason]]:
    """One component of the order of the linear model, which training starts from, with windows that a filter starts."""
    few = sum(map(len, training)) < _FEW
    kept = {key: settings[key] for key in ("feedthrough", "delays", "window", "buffer", "precision") if key in settings}
    chosen = (
        kept
        | _linear_structure(orders, given.structure.integrators)
        | {"window_start": "filter", "restarts": 2, "ensemble": 2}
    )
    chosen |= {"learning_rate": 0.02, "samples": 10, "windows": 10, "cycles": 20, "steps": 100}
    chosen["inducing"] = _FEW_INDUCING if few else _INDUCING
    reach = max(each.reach for each in orders)
    where = f"in runs of {reach} rows left out" if reach else "on rows left out"
    left, slowest = max(float(each.errors[0]) for each in orders), max(each.model.memory() for each in orders)
    return chosen, [
        Reason(
            ("latent_dim", "start"),
            "{latent_dim} latent dimensions at every row, from a linear model on",
            f"a linear model of that order leaves {100 * left:.0f} % of the deviation {where}",
        ),
        Reason(("memory",), "a memory of {memory} rows", f"the slowest mode of that model fades in {slowest:.0f}"),
        Reason(("window_start",), "windows that start where a filter finds the state"),
    ]


def find_low(orders: list[Identified], some: list[list[Recording]]) -> list[Identified]:
    """Models of the least order, where free runs of linear models lose the state, whatever their order.

    A spring that hardens has no one frequency, and a linear model needs many states for it that the system has not.
    """
    lost = any(each.reach for each in orders)
    if not lost or max(each.settings.order for each in orders) <= LEAST_ORDER:
        return []
    found = [find_again(None, own, LEAST_ORDER) for own in some]
    return [] if None in found else found  # pyright: ignore[reportReturnType]
