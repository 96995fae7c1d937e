"""What a model keeps of its training data: where its states were, and which rows it has seen."""

from dataclasses import replace

from mrgpssm.data import Sequence
from mrgpssm.estimator.starts import spread_starts
from mrgpssm.estimator.territory import map_territory
from mrgpssm.prediction.fitted import FittedModel


def remember(model: FittedModel, training: list[Sequence]) -> FittedModel:
    """The model with starts of warm-ups, and with its territory where rows are not too few."""
    return map_territory(replace(model, ensemble=spread_starts(model, training)), training)
