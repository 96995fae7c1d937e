"""What goes wrong for a user, as one sentence each: what, where, and what to do."""

import signal
from importlib import import_module
from typing import Any


class DataError(ValueError):
    """The data cannot be used as given."""


class DataWarning(UserWarning):
    """The data can be used, but something about them is doubtful."""


class ConfigError(ValueError):
    """An argument has a value that makes no sense."""


class MissingPackageError(ConfigError, ImportError):
    """An optional package is not installed; the message names it and the extra that brings it."""


class FitError(RuntimeError):
    """Training could not go on; the message names component, cycle and step."""


class ModelFileError(ValueError):
    """A model file or checkpoint cannot be used: damaged, foreign, too new, or inconsistent."""


class StorageError(RuntimeError):
    """Something could not be written; what was there before is untouched."""


class Interrupted(KeyboardInterrupt):
    """The work was stopped by Ctrl-C or SIGTERM; the message says what is left and how to go on."""

    def __init__(self, message: str, number: int = signal.SIGINT):
        super().__init__(message)
        self.number = int(number)  # of the signal


def need(module: str, sentence: str, extra: str) -> Any:
    """Import an optional module, or raise an error with `sentence` ("X needs Y") and what to install."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingPackageError(f"{sentence}; install mrgpssm[{extra}].") from None
