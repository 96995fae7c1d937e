"""What a command says when Ctrl-C or SIGTERM stops it."""

import functools
from collections.abc import Callable
from typing import Any

from mrgpssm.cli.show import StoppedError
from mrgpssm.errors import Interrupted
from mrgpssm.training.interrupts import listening

# What a stopped command leaves behind, where that is more than whole files. `fit` and `resume` say it themselves.
_LEFT = {
    "demo": "It keeps no checkpoints: the same command begins again.",
    "fetch": "Whole files are kept: the same command goes on with the others.",
    "tune": "Finished trials are kept: the same command goes on with the others.",
    "sweep": "Finished runs are kept: the same command goes on with the others.",
    "reproduce": "Finished pieces are kept: the same command goes on with the others.",
}


def make_stoppable(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """The command, with one sentence and an exit code for Ctrl-C and SIGTERM."""
    sentence = f"Stopped. {_LEFT.get(name, '')}".rstrip()

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with listening(lambda: sentence):
                command(*arguments, **options)
        except Interrupted as stop:
            raise StoppedError(str(stop), stop.number) from None

    return run
