"""The paper's experiments on workers: every piece is a fleet already, so that a piece is a task."""

from collections.abc import Callable

from mrgpssm.experiments.reproduce.run import Setting, Summary, pieces, reproduce
from mrgpssm.sweep.cluster import connect
from mrgpssm.sweep.engine import Workers


def reproduce_on(what: str, setting: Setting, workers: Workers, tell: Callable[[str], None]) -> Summary:
    """Run the pieces of an experiment on workers; those that others wait for run here, first."""
    here, ran, skipped = [], [], []
    with connect(workers.address, workers.count) as client:
        from distributed import as_completed  # pyright: ignore[reportMissingImports]

        futures = {}
        for piece in pieces(what, setting, tell):
            if piece.needed:
                here.append(reproduce(what, setting, deadline=None, only=piece.name, tell=tell))
            else:
                futures[client.submit(_piece, what, setting, piece.name, pure=False)] = piece.name
        for future in as_completed(list(futures)):
            tell(f"{what}: {futures[future]} {'failed' if future.status == 'error' else 'done'}")
        here += [future.result() for future in futures]
    for summary in here:
        ran += summary.ran
        skipped += summary.skipped
    return Summary(tuple(ran), tuple(skipped), ())


def _piece(what: str, setting: Setting, name: str) -> Summary:
    return reproduce(what, setting, deadline=None, only=name, tell=lambda _: None)
