"""The `mrgpssm` command: user errors are one line and exit code 2, anything else that we can explain is exit code 1."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from mrgpssm.arrays.cache import user_cache
from mrgpssm.cli import bench, data, demo, export, fit, report, reproduce, suggest, sweep, tune, use
from mrgpssm.cli.show import collect_warnings, say
from mrgpssm.errors import ConfigError, DataError, FitError, Interrupted, ModelFileError, StorageError
from mrgpssm.training.interrupts import listening

app = typer.Typer(
    help="Multi-resolution Gaussian process state-space models.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("fit")(fit.fit)
app.command("resume")(fit.resume)
app.command("simulate")(use.simulate)
app.command("evaluate")(use.evaluate)
app.command("export")(export.export)
app.command("report")(report.report)
app.command("suggest")(suggest.suggest)
app.command("bench")(bench.bench)
app.command("tune")(tune.tune)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(data.app, name="data")

# What is left when a command is stopped, where it is more than whole files or none; a fit says so itself.
_LEFT = {
    "demo": "It keeps no checkpoints: the same command begins again.",
    "fetch": "Whole files are kept: the same command goes on with the others.",
    "tune": "Finished trials are kept: the same command goes on with the others.",
    "sweep": "Finished runs are kept: the same command goes on with the others.",
    "reproduce": "Finished pieces are kept: the same command goes on with the others.",
}


class _StoppedError(Exception):
    """Ctrl-C or SIGTERM, as an exception that typer hands on; KeyboardInterrupt it would swallow."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.code = 128 + number


def _stoppable(command: Callable[..., None], left: str) -> Callable[..., None]:
    """The command, with a sentence and an exit code for Ctrl-C and SIGTERM."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with listening(lambda: f"Stopped. {left}".rstrip()):
                command(*arguments, **options)
        except Interrupted as stop:
            raise _StoppedError(str(stop), stop.number) from None

    return run


for _info in (*app.registered_commands, *data.app.registered_commands):
    if _info.callback is not None:
        _info.callback = _stoppable(_info.callback, _LEFT.get(_info.name or "", ""))

# typer brings its own copy of click or uses the installed one, depending on its version.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run the command line and turn what went wrong into one line on standard error and an exit code."""
    _keep_compiled_programs()
    try:
        with collect_warnings():
            code = app(standalone_mode=False)
    except (ConfigError, DataError, ModelFileError) as error:
        _stop(str(error), 2)
    except (FitError, StorageError) as error:
        _stop(str(error), 1)
    except OSError as error:  # figures, for one, are written by a library
        _stop(f"{error.filename or 'A file'}: cannot be read or written ({error.strerror or error}).", 1)
    except _StoppedError as stop:
        _stop(str(stop), stop.code)
    except typer.Abort:
        _stop("Stopped.", 130)
    except _UsageError as error:
        _stop(" ".join(error.format_message().split()), error.exit_code)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _keep_compiled_programs() -> None:
    """This process is ours: compiled programs go to the user's cache, unless the user has set JAX up otherwise."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(user_cache() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")


def _stop(message: str, code: int) -> None:
    say(f"mrgpssm: {message}", err=True)
    sys.exit(code)
