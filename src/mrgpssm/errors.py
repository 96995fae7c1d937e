"""What goes wrong for a user, as one sentence each: what, where, and what to do."""

import signal


class DataError(ValueError):
    """The data cannot be used as given."""


class DataWarning(UserWarning):
    """The data can be used, but something about them is doubtful."""


class ConfigError(ValueError):
    """An argument has a value that makes no sense."""


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
