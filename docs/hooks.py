"""What mkdocs asks us while it builds the site: the page of commands is filled from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from mrgpssm.cli.main import COMMANDS, find_command

_PLACE = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where the page asks for it."""
    return markdown.replace(_PLACE, commands()) if _PLACE in markdown else markdown


def commands() -> str:
    """Every command with its arguments and options, as Markdown."""
    return "\n".join(line for name, run in _leaves() for line in _section(name, run))


def _leaves() -> Iterator[tuple[str, Any]]:
    for name in COMMANDS:
        for leaf in find_command(name).registered_commands:
            yield f"mrgpssm {name}" + ("" if leaf.name == name else f" {leaf.name}"), leaf.callback


def _section(name: str, run: Any) -> Iterator[str]:
    yield f"## {name}\n\n{inspect.getdoc(run)}\n"
    yield "| option | what it does | default |\n|---|---|---|"
    for parameter in inspect.signature(run).parameters.values():
        kind, about = get_args(parameter.annotation)[:2]
        required = parameter.default is inspect.Parameter.empty
        default = "required" if required else _default(parameter.default)
        yield f"| `{_shown(parameter.name, kind, about, required)}` | {about.help} | {default} |"
    yield ""


def _shown(name: str, kind: Any, about: Any, required: bool) -> str:
    """`FILE...`, `[FILE]`, `--option`, `--option NUMBER`."""
    kinds = {kind} if get_origin(kind) is list else {*get_args(kind)} - {type(None)} or {kind}
    if type(about).__name__ == "ArgumentInfo":
        shown = name.upper() + ("..." if list[str] in kinds else "")
        return shown if required else f"[{shown}]"
    given = [text for text in (about.default, *(about.param_decls or ())) if isinstance(text, str)]
    option = ", ".join(given) or f"--{name.replace('_', '-')}"
    words = {bool: "", int: " N", float: " NUMBER"}
    return option + next((words[k] for k in kinds if k in words), " TEXT")


def _default(value: Any) -> str:
    return "" if value in (None, False, "") else f"`{value}`"
