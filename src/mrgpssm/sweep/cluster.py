"""Workers: processes of this machine, or those of a Dask scheduler that is already there.

Every worker is a fresh process (spawned, never forked) that runs one task at a time; JAX's memory options are in its
environment before anything is imported. Where there are GPUs, each has one worker of its own.
"""

import contextlib
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from mrgpssm.errors import ConfigError, need
from mrgpssm.file.words import one_line

Task = TypeVar("Task")
_RETRIES = 3  # how many workers a task may lose before it counts as failed


def _need_dask() -> Any:
    return need("distributed", "Without --serial, workers need Dask", "cluster")


def gpu_count() -> int:
    """The number of GPUs this process may use, found without initialising them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([part for part in visible.split(",") if part.strip() not in ("", "-1")])
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    said = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)  # noqa: S603 - found on the path
    return sum(line.startswith("GPU ") for line in said.stdout.splitlines()) if said.returncode == 0 else 0


def worker_environments(workers: int | None) -> list[dict[str, str]]:
    """One environment per worker: one GPU each if there are any, else two processor cores each."""
    gpus, shared = gpu_count(), {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = [p.strip() for p in visible.split(",")] if visible else [str(i) for i in range(gpus)]
        return [shared | {"CUDA_VISIBLE_DEVICES": names[i % gpus]} for i in range(workers or gpus)]
    return [dict(shared) for _ in range(workers or max(1, (os.cpu_count() or 2) // 2))]


@contextlib.contextmanager
def connect(address: str | None, workers: int | None) -> Iterator[Any]:
    """A Dask client for the scheduler at `address`, or for a local cluster started here."""
    distributed = _need_dask()
    if address is not None:
        try:
            client = distributed.Client(address, timeout="20s")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"No Dask scheduler answers at {address!r} ({' '.join(str(error).split())[:80]})."
            ) from None
        with _quiet(), client:
            yield client
        return
    config: Any = __import__("dask").config
    with config.set({"distributed.scheduler.allowed-failures": _RETRIES, "distributed.admin.tick.limit": "1h"}):
        workers_spec = {
            i: {"cls": distributed.Nanny, "options": {"nthreads": 1, "env": environment, "memory_limit": 0}}
            for i, environment in enumerate(worker_environments(workers))
        }
        scheduler = {"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
        cluster = distributed.SpecCluster(workers=workers_spec, scheduler=scheduler, silence_logs=50)
        with cluster, distributed.Client(cluster) as client:
            yield client


def run_tasks(client: Any, function: Callable[[Task], Any], tasks: Sequence[Task]) -> Iterator[tuple[Task, str | None]]:
    """Call `function` with every task on the workers; yields each task as it ends, with None or why it was lost.

    Only a finished future is a finished task. A task is lost if its future failed or was cancelled, or if the scheduler
    is gone.
    """
    left = dict(enumerate(tasks))
    try:
        futures = {client.submit(function, task, pure=False): index for index, task in left.items()}
        for future in _need_dask().as_completed(list(futures)):
            reason = _reason(future)
            yield left.pop(futures[future]), reason
    except Exception as error:  # whatever the library says when nobody answers any more
        for task in left.values():
            yield task, one_line(error, 200)


def _reason(future: Any) -> str | None:
    """None for a finished future, else why it did not finish."""
    if future.status == "finished":
        return None
    if future.status == "error":
        return one_line(future.exception(), 200)
    return f"the task was {future.status}, as when the scheduler ends"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of Dask; lost tasks are reported in one sentence at the end."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
