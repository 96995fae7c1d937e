"""A cluster that can be killed: what Dask's client shows when its scheduler ends, without Dask."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from mrgpssm.sweep import cluster


class Cluster:
    """Runs the first `count` tasks; the rest come back as futures of that status, or an exception ends it all."""

    def __init__(self, count: int, status: str = "cancelled", error: Exception | None = None):
        self.count, self.status, self.error = count, status, error

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[[Any], object], task: Any, pure: bool) -> SimpleNamespace:
        """A future; what it stands for is done at once, or never."""
        assert not pure
        self.count -= 1
        if self.count < 0:
            return Future(self.status, self.error)
        function(task)
        return Future("finished", None)

    def as_completed(self, futures: Iterable[Any]) -> Iterable[Any]:
        """All futures, in their order; a cluster with an error and no status breaks off where it has ended."""
        for future in futures:
            if future.status == "gone":
                assert self.error is not None
                raise self.error
            yield future


class Future(SimpleNamespace):
    """What a future shows of itself."""

    def __init__(self, status: str, error: Exception | None):
        super().__init__(status=status, error=error)

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def exception(self) -> Exception | None:
        """Why it failed."""
        return self.error


def put_on_cluster(monkeypatch: Any, made: Cluster) -> None:
    """Whatever address is asked for, this cluster answers."""
    dask = SimpleNamespace(as_completed=made.as_completed, Client=lambda *_, **__: made)
    monkeypatch.setattr(cluster, "_need_dask", lambda: dask)
