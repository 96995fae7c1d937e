"""From a trained fleet to models: the best restarts of every output, and the models of the folds."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling, Sequence
from mrgpssm.errors import FitError
from mrgpssm.model import SSM, Component
from mrgpssm.prediction.fitted import FittedModel
from mrgpssm.prediction.provenance import Provenance
from mrgpssm.spec import Spec
from mrgpssm.training import FleetFit
from mrgpssm.training.fleet import rank_restarts

Ensemble = tuple[tuple[SSM[Component], ...], ...]


def best_restarts(spec: Spec, fleet: FleetFit, scaling: Scaling, first: Sequence) -> FittedModel:
    """The restarts with the best bounds, for every output."""
    groups = spec.structure.groups(len(first.output_names))
    each = spec.members
    bounds = fleet.bounds.reshape(len(groups), each)[:, : spec.training.restarts]
    lost = [first.output_names[g[0]] for g, row in zip(groups, bounds, strict=True) if not np.isfinite(row).any()]
    if lost:
        raise FitError(
            f"Training failed for output {lost[0]!r}: no restart ended with a finite bound. "
            'Lower learning_rate, or use preset="stable" and precision="float64".'
        )
    ranked = rank_restarts(bounds) + np.arange(len(groups))[:, None] * each
    # As many as every output has: a restart that was given up has no bound.
    rounds = max(1, min(spec.training.ensemble, int(np.isfinite(bounds).sum(axis=1).min())))
    skipped = np.asarray(fleet.state.health.skipped).reshape(len(groups), each)[:, : spec.training.restarts]
    return FittedModel(
        structure=spec.structure,
        ensemble=tuple(tuple(_member(spec, fleet.state.ssm, i) for i in ranked[:, number]) for number in range(rounds)),
        scaling=scaling,
        input_names=first.input_names,
        output_names=first.output_names,
        units=dict(first.units),
        dt=first.dt,
        calibration=np.ones(len(first.output_names)),
        provenance=Provenance(spec.training, spec.bands, np.where(np.isnan(bounds), -np.inf, bounds), skipped),
    )


def fold_ensembles(spec: Spec, fleet: FleetFit, groups: int) -> Iterator[tuple[int, Ensemble]]:
    """The number of every fold and its best restarts, one model per group of outputs in each.

    A fold that was given up is left out.
    """
    places = np.arange(groups * spec.members).reshape(groups, spec.members)[:, spec.members - spec.fold_members :]
    places = places.reshape(groups, spec.bands.folds, spec.bands.fold_restarts)
    # After a refit bounds are of models that have seen everything: they must not choose who judges.
    bounds = np.where(fleet.alive, fleet.bounds if fleet.folds is None else 0.0, -np.inf)
    for k in range(spec.bands.folds):
        own = np.take_along_axis(places[:, k], rank_restarts(bounds[places[:, k]]), axis=1)
        rounds = min(spec.training.ensemble, int(fleet.alive[own].sum(axis=1).min()))
        if rounds:
            yield k, tuple(tuple(_member(spec, fleet.of_folds, i) for i in own[:, number]) for number in range(rounds))


def _member(spec: Spec, ssm: SSM[Component], index: int) -> SSM[Component]:
    """One model of a fleet, taken on the host: nothing to compile."""
    with floating_point(spec.structure.precision):
        return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[index]), ssm)
