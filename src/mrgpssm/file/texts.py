"""Read JSON and TOML from unknown sources: size, number of values and depth are checked before parsing.

Parsed objects are far larger than their text, and some texts take time that grows with the square of their length.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from mrgpssm.errors import ConfigError, ModelFileError
from mrgpssm.file.atomic import write_atomic
from mrgpssm.file.regular import read_bytes
from mrgpssm.file.words import one_line

MOST_TEXT = 4 * 2**20  # bytes of a JSON text
_TOML_BYTES = 2**20
_JSON_VALUES, _TOML_VALUES = 250_000, 30_000
_DEPTH, _KEY_PARTS = 64, 16

# Each also takes a text that never ends, so that the search is over in one pass.
_JSON_QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_TOML_QUOTED = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)' r"|'''.*?(?:'''|\Z)" r'|"(?:[^"\\\n]|\\[^\n])*"?' r"|'[^'\n]*'?" r"|#[^\n]*",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){{{_KEY_PARTS},}}", re.ASCII)
_BRACKET = re.compile(r"[\[\]{}]")


def parse_json(text: str | bytes, name: str) -> Any:
    """The value of a JSON text; `name` names its source in messages."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogatepass")
        if not is_modest(text):
            raise ModelFileError(f"{name}: the JSON text is larger than any that mrgpssm writes.")
        if _depth(_JSON_QUOTED.sub("", text)) > _DEPTH:
            raise ModelFileError(f"{name}: the JSON text nests deeper than {_DEPTH} levels.")
        return json.loads(text)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name}: this is not valid JSON ({one_line(error)}); the file is damaged.") from None


def is_modest(text: str) -> bool:
    """Whether a JSON text is short and simple enough to be parsed."""
    return len(text) <= MOST_TEXT and sum(map(text.count, ",:[{")) <= _JSON_VALUES


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON table; errors are one sentence."""
    content = parse_json(read_bytes(path, MOST_TEXT), str(path))
    if not isinstance(content, dict):
        raise ModelFileError(f"{path}: this is not a table of names and values; the file is damaged.")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small JSON table, whole or not at all."""
    write_atomic(path, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a configuration file; errors are one sentence."""
    try:
        text = read_bytes(path, _TOML_BYTES, ConfigError).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the file cannot be read as UTF-8 text ({error}).") from None
    bare = _TOML_QUOTED.sub("q", text)
    if sum(map(bare.count, "=[{,")) > _TOML_VALUES:
        raise ConfigError(f"{path}: there are more than {_TOML_VALUES:,} values; that is not a configuration.")
    if _LONG_KEY.search(bare) or _depth(bare) > _DEPTH:
        raise ConfigError(
            f"{path}: a key has more than {_KEY_PARTS} parts, or values nest deeper than {_DEPTH} levels; "
            "that is not a configuration."
        )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is no TOMLDecodeError
        raise ConfigError(f"{path}: this is not valid TOML: {error}.") from None


def _depth(bare: str) -> int:
    """The depth of nested brackets outside strings; counting stops at the limit."""
    depth = most = 0
    if bare.count("[") + bare.count("{") <= _DEPTH:
        return 0
    for found in _BRACKET.finditer(bare):
        depth += 1 if found.group() in "[{" else -1
        most = max(most, depth)
        if most > _DEPTH:
            break
    return most
