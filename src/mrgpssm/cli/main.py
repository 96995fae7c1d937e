"""The `mrgpssm` command. A user error is one line and exit code 2; any other known failure is exit code 1.

The module of a command is imported when the command is called. The list of commands imports none of them.
"""

import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from mrgpssm.arrays.cache import user_cache
from mrgpssm.cli.show import StoppedError, collect_warnings, say
from mrgpssm.errors import ConfigError, DataError, FitError, ModelFileError, StorageError

# name: where its function (or group) is, and its line in the list of commands
COMMANDS = {
    "demo": ("demo:demo", "See in a minute why several resolutions help."),
    "fit": ("fit:fit", "Train a model on recordings."),
    "resume": ("fit:resume", "Go on with a fit that was stopped."),
    "simulate": ("use:simulate", "Run a model freely over new inputs."),
    "evaluate": ("use:evaluate", "Score a model on test recordings."),
    "export": ("export:export", "Write a model as C code or StableHLO."),
    "report": ("report:report", "Judge a run on one HTML page."),
    "suggest": ("suggest:suggest", "Propose resolutions from the data alone."),
    "bench": ("bench:bench", "Time training and simulation on this machine."),
    "benchmark": ("benchmark:benchmark", "Judge the defaults on public benchmarks."),
    "tune": ("tune:tune", "Search for the best options by trials."),
    "sweep": ("sweep:sweep", "Train a grid of models, here or on a cluster."),
    "reproduce": ("reproduce:reproduce", "Repeat the experiments of the paper."),
    "data": ("data:app", "List, describe and fetch named datasets."),
}


def find_command(name: str) -> Any:
    """Import a command, as a Typer application that Ctrl-C stops cleanly."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"mrgpssm.cli.{module}"), attribute)
    make_stoppable = import_module("mrgpssm.cli.stopping").make_stoppable
    group = isinstance(found, typer.Typer)
    single = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=group, help=COMMANDS[name][1])
    if not group:
        single.command(name)(make_stoppable(name, found))
        return single
    for info in found.registered_commands:
        single.command(info.name)(make_stoppable(info.name or "", info.callback))
    return single


class _LazyGroup(TyperGroup):
    """Lists the commands from `COMMANDS` and imports a command when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else typer.main.get_command(find_command(name)), rest


app = typer.Typer(
    cls=_LazyGroup,
    help="Multi-resolution Gaussian process state-space models.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _name, (_, _line) in COMMANDS.items():
    app.command(_name, help=_line)(lambda: None)  # `_LazyGroup` puts the command in its place

# typer brings its own copy of click or uses the installed one, depending on its version.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run the command line; turn errors into one line on standard error and an exit code."""
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
    except StoppedError as stop:
        _stop(str(stop), stop.code)
    except typer.Abort:
        _stop("Stopped.", 130)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            typer.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        _stop(" ".join(error.format_message().split()), error.exit_code)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _keep_compiled_programs() -> None:
    """Keep compiled programs in the user's cache, unless the user has configured JAX otherwise."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(user_cache() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _stop(message: str, code: int) -> None:
    say(f"mrgpssm: {message}", err=True)
    sys.exit(code)
