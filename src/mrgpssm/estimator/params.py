"""Arguments by name, as scikit-learn's tools ask for them: `get_params`, `set_params`, and options inside sections."""

import inspect
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from mrgpssm.errors import ConfigError
from mrgpssm.spec import OptionSection, describe_unknown

S = TypeVar("S", bound=OptionSection)


def get_params(estimator: Any, deep: bool) -> dict[str, Any]:
    """The constructor's arguments by name; where `deep`, also `section__option` for those that are sections."""
    own = {name: getattr(estimator, name) for name in inspect.signature(type(estimator)).parameters}
    inner = {
        f"{name}__{f.name}": getattr(value, f.name)
        for name, value in own.items()
        if deep and is_dataclass(value)
        for f in fields(value)
    }
    return own | inner


def write_params(estimator: Any) -> str:
    """The arguments that are not the defaults, as code."""
    known = inspect.signature(type(estimator)).parameters
    own = ((name, getattr(estimator, name), known[name].default) for name in known)
    return ", ".join(f"{name}={_write(value)}" for name, value, usual in own if not _is_same(value, usual))


def _write(value: Any) -> str:
    if not isinstance(value, OptionSection) or not is_dataclass(value):
        return repr(value)
    own = ((f.name, getattr(value, f.name), f.default) for f in fields(value))
    given = ", ".join(f"{name}={v!r}" for name, v, usual in own if not _is_same(v, usual))
    return f"{type(value).__name__}({given})"


def _is_same(value: Any, usual: Any) -> bool:
    return value is usual or (type(value) is type(usual) and bool(value == usual))


def set_params(estimator: Any, params: Mapping[str, Any]) -> None:
    """Set arguments by name; those of one section are changed together."""
    known = get_params(estimator, deep=True)
    changed: dict[str, dict[str, Any]] = defaultdict(dict)
    for name in params:
        if name not in known:
            raise ConfigError(describe_unknown("argument", name, known))
    for name, value in params.items():
        section, _, option = name.partition("__")
        if option:
            changed[section][option] = value
        else:
            setattr(estimator, name, value)
    for section, values in changed.items():
        setattr(estimator, section, replace(getattr(estimator, section), **values))


def check_section(kind: type[S], value: Any) -> S:
    """A section as given; one sentence where it is none."""
    if not isinstance(value, kind):
        raise ConfigError(f"{kind.__name__.lower()} must be {kind.__name__}(...); got {value!r:.80}.")
    return value
