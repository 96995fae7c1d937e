"""What can be blended: anything with `fit`, `simulate` and `score`."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import pandas as pd

from mrgpssm.prediction.forecast import Forecast

S = TypeVar("S", bound="Simulator")


@runtime_checkable
class Simulator(Protocol):
    """A model of outputs given inputs: `MRGPSSM`, every baseline, `Blend` itself, and classes of your own.

    A blend also hands over `warmup`, `samples`, `seed`, `stride` and `progress` to methods that take them.
    A simulator with `get_params` is copied by its arguments, another one by `copy.deepcopy`.
    """

    def fit(self, sequences: Any, /) -> Any:
        """Learn from a list of sequences."""

    def simulate(self, inputs: Any, /) -> Forecast:
        """Run freely over the inputs of a sequence, in the data's units; a `std` of NaN says that there is none."""
        ...

    def score(self, sequences: Any, /) -> pd.DataFrame:
        """Compare free runs over sequences with what was measured."""
        ...


def call(method: Callable[..., Any], *given: Any, **offered: Any) -> Any:
    """Call a method with those of the offered arguments that it takes."""
    return method(*given, **{name: value for name, value in offered.items() if takes(method, name)})


def takes(method: Callable[..., Any], name: str) -> bool:
    """Whether a method has an argument of that name."""
    return name in inspect.signature(method).parameters


def copy_untrained(part: S) -> S:
    """The same simulator, untrained."""
    get_params: Callable[..., dict[str, Any]] | None = getattr(part, "get_params", None)
    return copy.deepcopy(part) if get_params is None else type(part)(**get_params(deep=False))
