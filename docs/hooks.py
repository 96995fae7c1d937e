"""What mkdocs asks us while it builds the site: commands and options are described by themselves."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from mrgpssm.cli.main import COMMANDS, find_command
from mrgpssm.file.words import markdown_table
from mrgpssm.spec import SECTIONS, options_of


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the references where the page asks for them."""
    for place, made in (("<!-- commands -->", commands), ("<!-- options -->", options)):
        markdown = markdown.replace(place, made()) if place in markdown else markdown
    return markdown


def options() -> str:
    """Every section of options with its table, as Markdown."""
    return "\n".join(line for title, section in SECTIONS.items() for line in _describe_options(title, section))


def _describe_options(title: str, section: type) -> Iterator[str]:
    yield f"### {section.__name__} {{ #options-{title} }}\n\n{inspect.getdoc(section)} In a file: `[{title}]`.\n"
    rows = []
    for name, option in options_of(section).items():
        default = getattr(section(), name)
        value = f"`{default}`" if default is not None else f"chosen, or `{option.fixed}`"
        rows.append([f"`{name}`", option.help, option.kind.rule, value])
    yield markdown_table(["option", "what it is", "values", "default"], rows) + "\n"


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
