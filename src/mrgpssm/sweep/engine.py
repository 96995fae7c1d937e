"""Run a sweep: skip finished runs, pack the rest, and train them here or on workers.

The process that trains a run also writes its record, whole or not at all, under the id of the run. If a worker, a
scheduler or a client is killed, at most the fleets in progress are lost; the same command again does the missing runs.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mrgpssm.file import make_directory
from mrgpssm.sweep.cluster import connect, run_tasks
from mrgpssm.sweep.config import SweepConfig
from mrgpssm.sweep.pack import run_pack
from mrgpssm.sweep.runs import Pack, Run, make_runs, packs, without_record


@dataclass(frozen=True)
class Workers:
    """Where to train: in this process, in `count` local ones (None: as many as fit), or on a cluster."""

    serial: bool = False
    count: int | None = None
    address: str | None = None


@dataclass(frozen=True)
class Done:
    """All runs of a sweep, how many were skipped, which have no record, and why fleets were lost."""

    runs: tuple[Run, ...]
    skipped: int
    missing: tuple[Run, ...]
    lost: tuple[str, ...]


def run_sweep(config: SweepConfig, workers: Workers, tell: Callable[[str], None]) -> Done:
    """Do the missing runs of a sweep. A run counts as done if its record is on the disk."""
    runs, datasets = make_runs(config)
    missing = without_record(config.directory, runs)
    made = packs(missing, datasets, config.fleet)
    tell(f"sweep: {len(runs)} runs, {len(runs) - len(missing)} done before, {len(made)} fleets to train")
    began, ended, written, lost = time.monotonic(), 0, 0, []
    for pack, reason in _run_packs(made, config, workers):
        ended += len(pack.runs)
        written += len(pack.runs) - len(without_record(config.directory, pack.runs))
        if reason is not None:
            lost.append(f"{len(pack.runs)} runs on {pack.dataset.name}: {reason}")
        left = (time.monotonic() - began) * (len(missing) - ended) / ended
        tell(f"sweep: {written} of {len(missing)} runs, {len(lost)} fleets lost, {left:.0f} s left")
    still = without_record(config.directory, runs)
    return Done(tuple(runs), len(runs) - len(missing), tuple(still), tuple(lost))


def _run_packs(made: list[Pack], config: SweepConfig, workers: Workers) -> Iterator[tuple[Pack, str | None]]:
    """Run the packs; yields each as it ends, with None or why it was lost."""
    folder = Path(config.directory).absolute()
    for name in ("runs", "models") if config.keep_models else ("runs",):
        make_directory(folder / name)
    run = partial(run_pack, directory=folder, samples=config.samples, keep_models=config.keep_models)
    if workers.serial or not made:
        for pack in made:
            run(pack)
            yield pack, None
        return
    with connect(workers.address, workers.count) as client:
        yield from run_tasks(client, run, made)
