"""Running a sweep: what is done is skipped, the rest is packed, trained here or on workers, and put into a table.

A run's record is written by whoever trained it, whole or not at all, under the run's own id. A worker, a scheduler or a
client that is killed therefore loses at most the fleets in flight; the same command again does what is missing.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mrgpssm.sweep.cluster import connect
from mrgpssm.sweep.config import SweepConfig
from mrgpssm.sweep.pack import run_pack
from mrgpssm.sweep.runs import Pack, Run, make_runs, packs, read_record, record_path


@dataclass(frozen=True)
class Workers:
    """Who does the work: this process, `count` local ones (None: as many as the machine has room for), or a cluster."""

    serial: bool = False
    count: int | None = None
    address: str | None = None


@dataclass(frozen=True)
class Done:
    """All runs of a sweep, and how many of them were there before or could not be run."""

    runs: tuple[Run, ...]
    skipped: int
    lost: tuple[str, ...]


def run_sweep(config: SweepConfig, workers: Workers, tell: Callable[[str], None]) -> Done:
    """Do what is missing of a sweep."""
    runs, datasets = make_runs(config)
    missing = [run for run in runs if read_record(record_path(config.directory, run)) is None]
    made = packs(missing, datasets, config.fleet)
    tell(f"sweep: {len(runs)} runs, {len(runs) - len(missing)} done before, {len(made)} fleets to train")
    began, finished, lost = time.monotonic(), 0, []
    for pack, error in _completed(made, config, workers):
        finished += len(pack.runs)
        if error is not None:
            lost.append(f"{len(pack.runs)} runs on {pack.dataset.name}: {error}")
        left = (time.monotonic() - began) * (len(missing) - finished) / finished
        tell(f"sweep: {finished} of {len(missing)} runs, {len(lost)} fleets lost, {left:.0f} s left")
    return Done(tuple(runs), len(runs) - len(missing), tuple(lost))


def _completed(made: list[Pack], config: SweepConfig, workers: Workers) -> Iterator[tuple[Pack, str | None]]:
    """Packs as they are finished, each with what went wrong."""
    arguments = (Path(config.directory).absolute(), config.samples, config.keep_models)
    if workers.serial or not made:
        for pack in made:
            run_pack(pack, *arguments)
            yield pack, None
        return
    with connect(workers.address, workers.count) as client:
        from distributed import as_completed  # pyright: ignore[reportMissingImports]

        futures = {client.submit(run_pack, pack, *arguments, pure=False): pack for pack in made}
        for future in as_completed(list(futures)):
            error = future.exception() if future.status == "error" else None
            yield futures[future], None if error is None else " ".join(str(error).split())[:200]
