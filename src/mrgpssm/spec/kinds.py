"""Kinds of options: which values one takes, how it is read from a command line, and the rule in words."""

import abc
import numbers
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from mrgpssm.errors import ConfigError

MOST = 2**31 - 1  # counters have 32 bits


class Kind(abc.ABC):
    """The values that an option takes."""

    @property
    @abc.abstractmethod
    def rule(self) -> str:
        """What a value must be, to be read after 'must be'."""

    @abc.abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether this is such a value."""

    @abc.abstractmethod
    def convert(self, value: Any) -> Any:
        """An accepted value in the kind's own type."""

    def check(self, name: str, value: Any) -> Any:
        """The value in the kind's own type; one sentence where it is none."""
        if not self.accepts(value):
            raise ConfigError(f"{name} must be {self.rule}; got {value!r:.80}.")
        return self.convert(value)

    def to_json(self, value: Any) -> Any:
        """A converted value, or None, as a JSON value."""
        return value


class Whole(Kind):
    """A whole number from `least` to `most`."""

    def __init__(self, least: int = 1, most: int = MOST):
        self.least, self.most = least, most

    @property
    def rule(self) -> str:
        return f"a whole number, at least {self.least}" + (f" and at most {self.most:,}" if self.most < MOST else "")

    def accepts(self, value: Any) -> bool:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return whole and self.least <= int(value) <= self.most

    def check(self, name: str, value: Any) -> int:
        """The number; one that is too large is not printed."""
        if isinstance(value, (int, np.integer)) and value > self.most:
            raise ConfigError(f"{name} must be at most {self.most:,}; got a larger number.")
        return super().check(name, value)

    def convert(self, value: Any) -> int:
        return int(value)


class Number(Kind):
    """A number above 0, up to `most`."""

    def __init__(self, most: float = sys.float_info.max):
        self.most = most

    @property
    def rule(self) -> str:
        return "a positive number" + (f", at most {self.most:g}" if self.most < sys.float_info.max else "")

    def accepts(self, value: Any) -> bool:
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        return number and bool(0 < value <= self.most)

    def convert(self, value: Any) -> float:
        return float(value)


class Choice(Kind):
    """One of some words."""

    def __init__(self, *words: str):
        self.words = words

    @property
    def rule(self) -> str:
        return f"one of {', '.join(self.words)}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def convert(self, value: Any) -> str:
        return str(value)


class Ingredient(Kind):
    """What a model is made of: one of ours by its word, or the user's own, a class or an instance of it.

    `base` is the class that they derive from, with its public room, and `ours` maps words to names of classes. The
    rooms above this one define these classes, so they are recognised by name. The value is the word for one of ours,
    else an instance. It is a key of caches: an instance holds settings, but no arrays. Files hold the name of its
    class, which must not be one of the words.
    """

    def __init__(self, base: str, **ours: str):
        self.base, self.words = base, tuple(ours)
        self._words = {name: word for word, name in ours.items()}

    @property
    def rule(self) -> str:
        return f"one of {', '.join(self.words)}, or a subclass of {self.base} or an instance of it without arrays"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.words
        kind = value if isinstance(value, type) else type(value)
        return self._is_derived(kind) and kind.__name__ not in self.words and _is_hashable(value)

    def convert(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        kind = value if isinstance(value, type) else type(value)
        return self._word(kind) or (kind() if value is kind else value)

    def check(self, name: str, value: Any) -> Any:
        """The word or the instance; a class is called without arguments."""
        try:
            return super().check(name, value)
        except TypeError:
            raise ConfigError(
                f"{name}: {_class_name(value)} cannot be made without arguments; give an instance of it, "
                f"{_class_name(value)}(...)."
            ) from None

    def to_json(self, value: Any) -> str | None:
        return value if value is None or isinstance(value, str) else _class_name(value)

    def find(self, name: str, word: str, given: Any) -> Any:
        """What a file names: one of ours, or what the user gives for it."""
        own = None if given is None else self.check(name, given)
        if own is None and word in self.words:
            return word
        if own is None:
            raise ConfigError(
                f"its {name} is {word:.80}, which is not one of mrgpssm's; load it with {name}={word:.80}."
            )
        if self.to_json(own) != word:
            raise ConfigError(f"its {name} is {word:.80}; got {name}={self.to_json(own)}.")
        return own

    def _is_derived(self, kind: type) -> bool:
        return any(c.__name__ == self.base.rpartition(".")[2] and _is_ours(c) for c in kind.__mro__[1:])

    def _word(self, kind: type) -> str | None:
        return self._words.get(kind.__name__) if _is_ours(kind) else None


class Switch(Kind):
    """True or false; on the command line `--name`, and `--no-name` or the word that is given for it."""

    def __init__(self, off: str | None = None):
        self.off = off

    @property
    def rule(self) -> str:
        return "true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, (bool, np.bool_))

    def convert(self, value: Any) -> bool:
        return bool(value)


class Several(Kind):
    """A sequence of values of one kind, on the command line separated by commas."""

    def __init__(self, each: Whole | Number, example: str, most: int = MOST, distinct: bool = False, empty=False):
        self.each, self.example, self.most, self.distinct, self.empty = each, example, most, distinct, empty

    @property
    def rule(self) -> str:
        few = f"at most {self.most} " if self.most < MOST else ""
        apart, example = "different " if self.distinct else "", self.example.replace(",", ", ")
        return f"a sequence of {few}{apart}values such as ({example}), each {self.each.rule}"

    def accepts(self, value: Any) -> bool:
        try:
            self.check("", value)
        except ConfigError:
            return False
        return True

    def check(self, name: str, value: Any) -> tuple:
        """The values as a tuple; one sentence about the first that is wrong."""
        if isinstance(value, (str, numbers.Number)) or not isinstance(value, Iterable):
            raise ConfigError(f"{name} must be {self.rule}; got {value!r:.80}.")
        values = tuple(value)
        for one in values:
            self.each.check(f"each of {name}", one)
        if not values and not self.empty:
            raise ConfigError(f"{name} is empty; give at least one, such as ({self.example.replace(',', ', ')}).")
        if len(values) > self.most or (self.distinct and len(set(values)) < len(values)):
            raise ConfigError(f"{name} must be at most {self.most} different values; got {values!s:.80}.")
        return self.convert(values)

    def convert(self, value: Any) -> tuple:
        return tuple(map(self.each.convert, value))

    def to_json(self, value: Any) -> list | None:
        return None if value is None else list(value)

    def read(self, name: str, text: str) -> tuple:
        """The values in a text such as 30,5,1."""
        try:
            return tuple(
                self.each.convert(float(part) if isinstance(self.each, Number) else int(part))
                for part in text.split(",")
            )
        except ValueError:
            what = "numbers" if isinstance(self.each, Number) else "whole numbers"
            raise ConfigError(
                f"{name} takes {what} separated by commas, such as {self.example}; got {text!r:.80}."
            ) from None


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "mrgpssm"


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _class_name(value: Any) -> str:
    return (value if isinstance(value, type) else type(value)).__name__
