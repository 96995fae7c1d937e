"""The paper's experiments on workers: every piece is a fleet already, so that a piece is a task."""

from collections.abc import Callable
from functools import partial

from mrgpssm.paper.records import read_records
from mrgpssm.paper.run import Setting, Summary, is_finished, pieces, reproduce
from mrgpssm.sweep.cluster import connect, run_tasks
from mrgpssm.sweep.engine import Workers


def reproduce_on(what: str, setting: Setting, workers: Workers, tell: Callable[[str], None]) -> Summary:
    """Run the pieces of an experiment on workers; those that others wait for run here, first.

    What counts in the end is the records on the disk: a piece without one is left.
    """
    every, skipped, tasks, reasons = [], [], [], {}
    with connect(workers.address, workers.count) as client:
        for piece in pieces(what, setting, tell):
            every.append(piece)
            if is_finished(piece, read_records(setting.out, setting.scale)):
                skipped.append(piece.name)
            elif piece.needed:
                _run_piece(piece.name, what, setting)
            else:
                tasks.append(piece.name)
        for name, reason in run_tasks(client, partial(_run_piece, what=what, setting=setting), tasks):
            reasons[name] = reason or "its task ended without a record"
            tell(f"{what}: {name} {'done' if reason is None else f'lost ({reason})'}")
    records = read_records(setting.out, setting.scale)
    left = [piece.name for piece in every if not is_finished(piece, records)]
    ran = [piece.name for piece in every if piece.name not in (*left, *skipped)]
    return Summary(tuple(ran), tuple(skipped), tuple(f"{name}: {reasons[name]}" for name in left))


def _run_piece(name: str, what: str, setting: Setting) -> None:
    reproduce(what, setting, deadline=None, only=name, tell=lambda _: None)
