"""The parts of a figure before it is drawn: marks on panels, panels in sections.

Colours are roles (see `palette`), so that all figures of a report look alike, in print and on screen, light and dark.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Line:
    """A curve; NaN interrupts it."""

    name: str
    x: np.ndarray
    y: np.ndarray
    role: str
    width: float = 1.4
    dash: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Band:
    """The area between two curves over the same x."""

    name: str
    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    role: str
    alpha: float = 0.25


@dataclass(frozen=True)
class Bars:
    """Bars from zero to y at the positions x; `width` in units of x."""

    name: str
    x: np.ndarray
    y: np.ndarray
    role: str
    width: float | np.ndarray = 0.8
    across: bool = False  # positions on the vertical axis
    alpha: float = 1.0


@dataclass(frozen=True)
class Points:
    """Single points."""

    name: str
    x: np.ndarray
    y: np.ndarray
    role: str
    size: float = 6.0
    alpha: float = 1.0
    hollow: bool = False


@dataclass(frozen=True)
class Heat:
    """Colours over a grid, z of shape (len(y), len(x)); `diverging` ones are centred on zero."""

    name: str
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    diverging: bool = False


@dataclass(frozen=True)
class Rule:
    """A straight line across the panel at a value of one axis."""

    name: str
    value: float
    axis: Literal["x", "y"] = "y"
    role: str = "muted"


Mark = Line | Band | Bars | Points | Heat | Rule


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `alt` describes the picture in one sentence; `x_ticks` and `y_ticks` name 0, 1, 2 and so on.

    A `long` panel holds recordings laid end to end along x; `breaks` are the rows at which a new one begins.
    """

    title: str
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    alt: str
    note: str = ""
    log_x: bool = False
    log_y: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    x_ticks: tuple[str, ...] = ()
    y_ticks: tuple[str, ...] = ()
    wide: bool = False
    long: bool = False
    breaks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Section:
    """One question, how to read its panels, and the panels; `missing` says why there are none.

    `columns` is the number of panels side by side if there is room.
    """

    key: str
    title: str
    lead: str = ""
    panels: tuple[Panel, ...] = ()
    missing: str = ""
    columns: int = 3
