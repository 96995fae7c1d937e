"""What a simulation is asked for, checked."""

from collections.abc import Iterable
from typing import Any

from mrgpssm.errors import ConfigError
from mrgpssm.spec import MOST_SEED, Whole


def check_simulation(fitted: bool, samples: Any, stride: Any, quantiles: Iterable[float], seed: Any = 0) -> None:
    """Refuse a simulation that cannot be run."""
    if not fitted:
        raise ConfigError("The model is not fitted yet; call fit(sequences) first.")
    Whole(2).check("samples", samples)  # one sample has no spread
    Whole().check("stride", stride)
    Whole(0, MOST_SEED).check("seed", seed)
    for q in quantiles:
        if not 0 < q < 1:
            raise ConfigError(f"quantiles lie strictly between 0 and 1; got {q!r:.80}.")
