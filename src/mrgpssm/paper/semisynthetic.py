"""The four semi-synthetic sets (paper, supplement E.2): sums of latent states learned from one measurement.

One GPSSM with D = 1 per output, HC and NOx at R = 1, PN and Temp at R = 30; x̄ is the mean of its free run over the
measurement's inputs, in units of the output's deviation. F = HC + NOx, M1 = Temp + HC, M2 = NOx + Temp, S = PN + Temp.
"""

from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Sequence
from mrgpssm.data.sequence import take_outputs
from mrgpssm.errors import DataError
from mrgpssm.file import pack, read_tensors, unpack, write_atomic
from mrgpssm.paper.config import Experiment
from mrgpssm.paper.evaluation import evaluate, lay_out_runs
from mrgpssm.paper.fleet import choose_restarts, make_problem_fleet
from mrgpssm.paper.pieces import Laps, trace_rows
from mrgpssm.paper.problems import Problem, ProblemFold, halves_problem, measurement
from mrgpssm.paper.records import agree, numbers
from mrgpssm.spec import make_spec
from mrgpssm.training import begin, fit_fleet
from mrgpssm.training.progress import reporter

_KIND = "mrgpssm-semi-synthetic"
FAST, SLOW = 1, 30


def latents_path(out: Path, scale: str) -> Path:
    """Where the latent states are kept: every method must see the same numbers."""
    return out / scale / "semi-synthetic" / "latents.safetensors"


def make_latents(experiment: Experiment, source: Sequence, path: Path, *, show: bool) -> dict[str, Any]:
    """Learn every output's latent state x̄ (T,) and write them to a file; returns what the record says."""
    latents, members, laps = {}, {}, Laps()
    for key, resolution in (("fast", FAST), ("slow", SLOW)):
        names = experiment.more["sets"][key]
        problem = Problem("one measurement", (take_outputs(source, names),), (ProblemFold((0,), (0,)),))
        spec = make_spec(_settings(experiment) | {"resolutions": [resolution]}).complete()
        with (
            floating_point(spec.structure.precision),
            reporter(show, spec.structure.resolutions, f"latents {key}") as report,
        ):
            fleet = make_problem_fleet(spec, problem, experiment.methods[0].observation_sd)
            fitted = fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), laps.watch(report.steps))
            best, layout = choose_restarts(fleet, fitted.bounds)[0].tolist(), lay_out_runs(fleet, problem)
            seed = spec.training.seed
            outcome = evaluate(fitted.state.ssm, fleet, layout, experiment.evaluation, seed=seed, keep=best)
        for name, member in zip(names, best, strict=True):
            latents[name] = outcome.mean[member][0].astype(np.float32)
            members[name] = {
                "resolution": resolution,
                "bound": float(fitted.bounds[member]),
                "rmse": round(float(outcome.metrics["rmse"][member]), 4),
                "std": round(float(latents[name].std()), 4),
            }
    seconds = {"all": round(laps.seconds(), 1)}
    config, data = latents_mark(experiment, source)
    save_latents(path, latents, config, data["sha256"])
    return {"latents": members, "seconds": seconds, "traces": latent_traces(latents, source.dt)}


def save_latents(path: Path, latents: dict[str, np.ndarray], config: dict[str, Any], data: str) -> None:
    """One file, with the config and the hash of the data that it was made from."""
    write_atomic(path, pack(_KIND, {"config": config, "data": data}, dict(latents)))


def latents_mark(experiment: Experiment, source: Sequence) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config and data of the latents' piece."""
    whole = Problem("measurement 15", (source,), (ProblemFold((0,), (0,)),))
    config = {"sets": experiment.more["sets"], "options": make_spec(_settings(experiment)).complete().to_json()}
    return config, whole.describe()


def ready_sets(experiment: Experiment, root: str | None, out: Path) -> Problem:
    """The four sets as outputs of one sequence, first half for training; the latents must have been made."""
    path = latents_path(out, experiment.scale)
    if not path.exists():
        raise DataError(f"{path} is missing; run `mrgpssm reproduce semi-synthetic --only latents` first.")
    source = measurement(experiment.scale, root)
    config, data = latents_mark(experiment, source)
    content, tensors = unpack(read_tensors(path), _KIND, str(path))
    if content.get("data") != data["sha256"] or not agree(content.get("config"), config):
        raise DataError(f"{path} was made with another config or other data; delete it and run semi-synthetic again.")
    sums = experiment.more["sets"]["sums"]
    sets = np.stack([sum(np.asarray(tensors[part], float) for part in parts) for parts in sums.values()], axis=1)
    sequence = Sequence(source.inputs, sets, source.dt, None, source.input_names, tuple(sums), {}, "semi-synthetic")
    return halves_problem("semi-synthetic, measurement 15", sequence, experiment.repeats)


def latent_traces(latents: dict[str, np.ndarray], dt: float) -> dict[str, Any]:
    """The latents thinned out, with a stretch of a dilated and a plain window in full, for figures."""
    rows = len(next(iter(latents.values())))
    half = rows // 2
    whole, close = trace_rows(half)
    window = np.arange(min(51, half // (2 * SLOW)))
    parts = {"train": whole, "test": whole + half, "close": close + half}
    parts |= {"dilated": half // 3 + SLOW * window, "plain": half // 3 + window}
    return {
        "dt": dt,
        "rows": {part: [int(at[0]), int(at[1] - at[0]), len(at)] for part, at in parts.items()},
        "values": {name: {part: numbers(x[at], 4) for part, at in parts.items()} for name, x in latents.items()},
    }


def _settings(experiment: Experiment) -> dict[str, Any]:
    table = experiment.more["sets"]
    given = {key: value for key, value in table.items() if key not in ("fast", "slow", "sums")}
    return given | experiment.more["smaller"]
