"""How a model was made: it is kept in model files for people to read, and no simulation needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from mrgpssm.errors import ConfigError
from mrgpssm.spec import Bands, OptionSection, Training, options_of

S = TypeVar("S", bound=OptionSection)


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("mrgpssm", "jax")}


@dataclass(frozen=True)
class Provenance:
    """Options of training and bands, (groups, restarts) bounds and skipped steps, and the versions of packages."""

    training: Training
    bands: Bands
    bounds: np.ndarray
    skipped: np.ndarray
    packages: dict[str, str] = field(default_factory=_versions)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values; a restart that was given up has no bound."""
        bounds = np.asarray(self.bounds, float)
        return {
            "training": self.training.to_json(),
            "bands": self.bands.to_json(),
            "bounds": [[b if np.isfinite(b) else None for b in row] for row in bounds.tolist()],
            "skipped": np.asarray(self.skipped).tolist(),
            "packages": self.packages,
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any], groups: int) -> "Provenance":
        """The same from a file, as far as it can be read; there are defaults for everything else."""
        bounds, packages = _read_rows(table.get("bounds"), groups, float), table.get("packages")
        return cls(
            _read_options(Training, table.get("training")),
            _read_options(Bands, table.get("bands")),
            np.where(np.isnan(bounds), -np.inf, bounds),
            _read_rows(table.get("skipped"), groups, np.int64),
            packages if isinstance(packages, dict) else {},
        )


def _read_options(section: type[S], table: Any) -> S:
    known = {key: table[key] for key in options_of(section) if key in table} if isinstance(table, dict) else {}
    try:
        return section(**known)
    except ConfigError:
        return section()


def _read_rows(value: Any, groups: int, dtype: type) -> np.ndarray:
    """(groups, restarts), without restarts where the value is no such table."""
    try:
        rows = np.array(value, dtype)
    except (TypeError, ValueError, OverflowError):
        rows = np.empty(0, dtype)
    return rows if rows.ndim == 2 and len(rows) == groups else np.empty((groups, 0), dtype)
