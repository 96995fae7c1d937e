"""How options are declared: a field of a section with its kind, its default, its fixed value and its help."""

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar

from mrgpssm.errors import ConfigError
from mrgpssm.spec.kinds import Kind

_OPTION = "option"


@dataclass(frozen=True)
class Option:
    """What is declared of an option beside its name and default."""

    kind: Kind
    help: str
    fixed: Any = None


def option(default: Any, kind: Kind, text: str, fixed: Any = None) -> Any:
    """A field with its declaration; `fixed` is its value where it is None and not chosen from the data."""
    return field(default=default, metadata={_OPTION: Option(kind, text, fixed)})


class OptionSection:
    """Options that belong together; values are checked, and brought to one type, when it is made."""

    def __post_init__(self):
        for name, declared in options_of(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, declared.kind.check(name, value))

    def to_json(self) -> dict[str, Any]:
        """All options as JSON values."""
        return {name: o.kind.to_json(getattr(self, name)) for name, o in options_of(type(self)).items()}


S = TypeVar("S", bound=OptionSection)


@functools.cache
def options_of(section: type[OptionSection]) -> dict[str, Option]:
    """The declarations of a section by name, in order."""
    own = (f for f in fields(section) if _OPTION in f.metadata)  # pyright: ignore[reportArgumentType]
    return {f.name: f.metadata[_OPTION] for f in own}


def describe_default(section: type[OptionSection], name: str) -> str:
    """The default in words; what is None is chosen from the data, or fixed where resolutions are given."""
    default, fixed = getattr(section(), name), options_of(section)[name].fixed
    if default is not None:
        return f"{default}"
    words = "none" if fixed == () else {True: "yes", False: "no"}[fixed] if isinstance(fixed, bool) else fixed
    return "chosen" if name == "resolutions" else f"chosen; {words} if resolutions are given"


def fixed_value(declared: Field) -> Any:
    """The fixed value of an option's field."""
    return declared.metadata[_OPTION].fixed


def fix(section: S) -> S:
    """The section with its fixed values where it is None."""
    declared = options_of(type(section))
    missing = {name: declared[name].fixed for name in declared if getattr(section, name) is None}
    return replace(section, **missing)  # pyright: ignore[reportArgumentType]


def read_section(section: type[S], table: Mapping[str, Any], where: str, title: str) -> S:
    """A section from the table `title` of a file; an unknown key is answered with the nearest known one."""
    known = options_of(section)
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: {describe_unknown(f'key in [{title}]', key, known)}")
    try:
        return section(**table)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def describe_unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """A sentence about an unknown name: the nearest known one, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]!r:.80}?" if near else f"known are {', '.join(known)}."
    return f"unknown {kind} {name!r:.80}; {hint}"
