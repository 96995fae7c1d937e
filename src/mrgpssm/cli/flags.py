"""Command-line flags: those that several commands share, and those of all declared options as one dictionary."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from mrgpssm.spec import (
    SECTIONS,
    Choice,
    Ingredient,
    Kind,
    Number,
    Option,
    OptionSection,
    Several,
    Switch,
    Whole,
    describe_default,
    options_of,
)

ModelPath = Annotated[Path, typer.Argument(help="A model file, or the folder of a run.")]
Files = Annotated[list[str], typer.Argument(help="Files, folders or patterns.")]
InputNames = typer.Option(help="Input columns, separated by commas.")
OutputNames = typer.Option(help="Output columns, separated by commas.")
TimeName = Annotated[str | None, typer.Option(help="The time column.")]
Dt = Annotated[float | None, typer.Option(help="Seconds between rows.")]
GapsName = typer.Option(help="split, irregular or refuse: what a gap in time does.")
Seed = Annotated[int, typer.Option(min=0, help="Seed of the trajectories.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
_TYPES: dict[type[Kind], Any] = {Whole: int, Number: float, Switch: bool, Choice: str, Ingredient: str, Several: str}


def split_names(names: str) -> tuple[str, ...]:
    """Names of columns that are separated by commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose last parameter, `options`, is a dictionary of the options that were given as flags."""
    signature = inspect.signature(command)
    own = [p for p in signature.parameters.values() if p.name != "options"]
    declared = {name: option for section in SECTIONS.values() for name, option in options_of(section).items()}
    flags = [_parameter(name, section) for section in SECTIONS.values() for name in options_of(section)]

    def run(**arguments: Any) -> None:
        given = {name: _read(name, option, arguments.pop(name)) for name, option in declared.items()}
        command(**arguments, options={name: value for name, value in given.items() if value is not None})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature([*own, *flags])  # pyright: ignore[reportFunctionMemberAccess]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *flags)}
    return run


def _parameter(name: str, section: type[OptionSection]) -> inspect.Parameter:
    option, dashed = options_of(section)[name], name.replace("_", "-")
    kind, text = option.kind, option.help
    flag = f"--{dashed}/--{kind.off or f'no-{dashed}'}" if isinstance(kind, Switch) else f"--{dashed}"
    if isinstance(kind, Several):
        text = f"Such as {kind.example}. {text}"
    annotation = Annotated[
        _TYPES[type(kind)] | None, typer.Option(flag, help=text, show_default=describe_default(section, name))
    ]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _read(name: str, option: Option, value: Any) -> Any:
    """The value of a flag; a list comes as text."""
    if value is None or not isinstance(option.kind, Several):
        return value
    return option.kind.read(f"--{name.replace('_', '-')}", value)
