"""One fleet of a sweep: train its runs as one program, score each like `MRGPSSM.score`, write one record each."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling, Sequence
from mrgpssm.data.sequence import take_outputs
from mrgpssm.errors import FitError
from mrgpssm.estimator.choosing import best_restarts
from mrgpssm.estimator.remember import remember
from mrgpssm.file.record import write_record
from mrgpssm.prediction.fitted import FittedModel, write_model
from mrgpssm.prediction.predict import scores
from mrgpssm.sweep.runs import FORMAT, Loaded, Pack, Run, load_splits, record_path
from mrgpssm.training import FleetFit, begin, fit_fleet
from mrgpssm.training.fleet import Member, make_fleet, prepare_splits


def run_pack(pack: Pack, directory: Path, samples: int, keep_models: bool) -> list[str]:
    """Train, score and record the runs of a pack; returns their ids."""
    began = time.perf_counter()
    data = load_splits(replace(pack.dataset, outputs=tuple(dict.fromkeys(run.output for run in pack.runs))))
    try:
        fitted, failure = train(pack, data), None
    except FitError as error:
        fitted, failure = [None] * len(pack.runs), str(error)
    trained = time.perf_counter() - began
    for run, model in zip(pack.runs, fitted, strict=True):
        result: dict[str, Any] = {"failure": failure, "scores": None, "bounds": None}
        if model is not None and np.isfinite(model.bounds).any():
            table = scores(model, [take_outputs(s, [run.output]) for s in data[run.split][1]], samples, 0)
            result |= {"scores": {k: float(v) for k, v in table.iloc[0].items()}, "bounds": model.bounds[0].tolist()}
            if keep_models:
                write_model(directory / "models" / f"{run.id}.mrgpssm", model)
        elif failure is None:
            result["failure"] = "Training diverged: no restart has a finite bound."
        seconds = {"fleet_fit": round(trained, 2), "fleet_size": len(pack.runs)}
        write_record(record_path(directory, run), _describe(run) | result | {"seconds": seconds})
    return [run.id for run in pack.runs]


def train(pack: Pack, data: Loaded) -> list[FittedModel]:
    """The fitted model of every run; each gets what it gets alone."""
    spec, names = pack.spec, [s.name for s in pack.dataset.splits]
    distinct = {id(s): s for name in names for s in data[name][0]}  # splits share sequences
    places, everything = {key: place for place, key in enumerate(distinct)}, list(distinct.values())
    splits = [[places[id(s)] for s in data[name][0]] for name in names]
    driven, scalings, trained = prepare_splits(spec, everything, splits)
    outputs = everything[0].output_names
    members = [
        Member(run.spec.training.seed, 0, number, (outputs.index(run.output),), trained[split], split)
        for run in pack.runs
        for split in [names.index(run.split)]
        for number in range(spec.training.restarts)
    ]
    with floating_point(spec.structure.precision):
        plan, ssm = make_fleet(spec, driven, scalings, members)
        fleet = fit_fleet(plan, begin(plan, ssm), lambda _: None)
    by_name = dict(zip(names, scalings, strict=True))
    runs = enumerate(pack.runs)
    return [_take_run(pack, i, run, fleet, by_name[run.split], data[run.split][0]) for i, run in runs]


def _take_run(
    pack: Pack, index: int, run: Run, fleet: FleetFit, scaling: Scaling, training: list[Sequence]
) -> FittedModel:
    """The run's part of the fleet as a model of its own."""
    members = slice(index * pack.spec.training.restarts, (index + 1) * pack.spec.training.restarts)
    own = FleetFit(
        jax.tree.map(lambda x: x[members], fleet.state), fleet.bounds[members], fleet.alive[members], fleet.history
    )
    column = [training[0].output_names.index(run.output)]
    narrow = Scaling(scaling.input_mean, scaling.input_sd, scaling.output_mean[column], scaling.output_sd[column])
    known = [take_outputs(s, [run.output]) for s in training]
    return remember(best_restarts(run.spec, own, narrow, known[0]), known)


def _describe(run: Run) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "id": run.id,
        "dataset": run.dataset,
        "split": run.split,
        "output": run.output,
        "options": run.spec.to_json(),
    }
