"""Does the order of backfitting matter? Both orders, several seeds, the first fixed split of the engine set.

    python benchmarks/engine_order.py DATA_ROOT [--seeds 3] [--outputs PN HC NOx Temp] [--out results/engine-order.json]

All seeds of all outputs train as one fleet per order, with default settings. Test errors are those of the mean free run
(20 samples) from the first row of every test file, in units of the training data's deviation.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mrgpssm import MRGPSSM
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling
from mrgpssm.data.engine import PAPER_OUTPUTS as OUTPUTS
from mrgpssm.data.engine import Split, fixed_splits, load_engine
from mrgpssm.file.record import write_record
from mrgpssm.spec import arrange
from mrgpssm.training import FleetFit, Plan, begin, fit_fleet
from mrgpssm.training.planning import make_plan
from mrgpssm.training.series import Series, flatten
from mrgpssm.training.state import Cache
from mrgpssm.training.sweep import sweep


def test_errors(plan: Plan, fitted: FleetFit, series: Series) -> np.ndarray:
    """(members,) RMSE of the mean free run over other sequences."""
    members, sequences = plan.tasks.columns.shape[0], series.lengths.shape[0]
    tasks = eqx.tree_at(lambda t: t.training, plan.tasks, jnp.ones((members, sequences), bool))
    total = jnp.zeros((members, series.clock.shape[0], 1), series.clock.dtype)
    for component, resolution in zip(fitted.state.ssm.components, plan.resolutions, strict=True):
        latent = component.transition.gp.inducing.shape[-3]
        states = jnp.zeros((members, series.clock.shape[0], latent), series.clock.dtype)
        blank = Cache(jnp.zeros_like(total), states, states)
        options = {"samples": 20, "chunk": 1000, "longest": int(series.lengths.max())}
        total = total + sweep(component, resolution, series, tasks, blank, keys=tasks.key, **options).outputs
    measured = jnp.moveaxis(series.outputs[0][:, tasks.columns], 1, 0)
    return np.asarray(jnp.sqrt(jnp.mean((measured - total) ** 2, axis=(1, 2))), float)


def run(root: Path, split: Split, outputs: tuple[str, ...], seeds: int, order: str) -> dict:
    """Train one fleet and judge every member."""
    start = time.perf_counter()
    model = MRGPSSM((30, 5, 1), **arrange(restarts=seeds, order=order))
    train, test = (load_engine("gengine2", part, outputs, root) for part in (split.train, split.test))
    scaling = Scaling.fit(train)
    with floating_point(model.precision):
        fresh = flatten(test, [scaling], jnp.dtype(model.precision))
        plan, ssm = make_plan(model.spec.complete(), train, scaling)
        fitted = fit_fleet(plan, begin(plan, ssm), lambda _: None)
        errors = test_errors(plan, fitted, fresh).reshape(len(outputs), seeds)
    bounds = fitted.bounds.reshape(len(outputs), seeds)
    members = {name: {"rmse": errors[i].round(4).tolist(), "bounds": bounds[i].round().tolist()}
               for i, name in enumerate(outputs)}  # fmt: skip
    return {"seconds": round(time.perf_counter() - start, 1), "outputs": members}


def main() -> None:
    """Both orders, one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--outputs", nargs="*", default=list(OUTPUTS), choices=OUTPUTS)
    parser.add_argument("--out", type=Path, default=Path("results/engine-order.json"))
    arguments = parser.parse_args()
    split = fixed_splits()[0]
    results = {}
    for order in ("fast-first", "given"):
        results[order] = run(arguments.root, split, tuple(arguments.outputs), arguments.seeds, order)
        print(order, json.dumps(results[order]), flush=True)
        write_record(
            arguments.out, {"experiment": "engine, order of backfitting", "split": asdict(split), "orders": results}
        )


if __name__ == "__main__":
    main()
