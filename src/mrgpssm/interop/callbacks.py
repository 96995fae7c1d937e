"""Callbacks for `MRGPSSM.fit` that log training to TensorBoard or MLflow.

    with TensorBoard("logs") as board:
        model.fit(data, callbacks=[board])

Any callable that takes a `mrgpssm.training.Progress` can be a callback.
"""

import os
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mrgpssm.errors import need
from mrgpssm.training import Progress


def scalars(progress: Progress) -> dict[str, float]:
    """The logged values: bound, KL and window RMSE of the member with the best bound, and skipped steps."""
    where = f"component_{progress.component + 1}"
    values = {f"{where}/skipped": float(progress.skipped.sum()), "cycle": float(progress.cycle + 1)}
    if np.isfinite(progress.bound).any():
        best = int(np.nanargmax(progress.bound))
        for name in ("bound", "kl", "rmse"):
            values[f"{where}/{name}"] = float(getattr(progress, name)[best])
    return values


class TensorBoard(AbstractContextManager):
    """Write TensorBoard event files; `writer` is any object with `add_scalar` (default: tensorboardX)."""

    def __init__(self, folder: str | os.PathLike[str], writer: Any = None):
        if writer is None:
            package = need("tensorboardX", "The TensorBoard callback needs tensorboardX", "tracking")
            writer = package.SummaryWriter(os.fspath(folder))
        self.writer = writer

    def __call__(self, progress: Progress) -> None:
        for name, value in scalars(progress).items():
            self.writer.add_scalar(name, value, progress.done)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class MLflow(AbstractContextManager):
    """Log to the active MLflow run, or start one and end it; `options` are logged as parameters."""

    def __init__(self, run_name: str | None = None, options: dict[str, Any] | None = None):
        self.mlflow = need("mlflow", "The MLflow callback needs mlflow", "tracking")
        self.own = self.mlflow.active_run() is None
        if self.own:
            self.mlflow.start_run(run_name=run_name)
        if options:
            self.mlflow.log_params({name: str(value) for name, value in options.items()})

    def __call__(self, progress: Progress) -> None:
        self.mlflow.log_metrics(scalars(progress), step=progress.done)

    def close(self) -> None:
        """End the run, if this callback began it."""
        if self.own:
            self.mlflow.end_run()

    def __exit__(self, *_: object) -> None:
        self.close()
