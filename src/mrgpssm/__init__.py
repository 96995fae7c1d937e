"""Multi-resolution Gaussian process state-space models.

    from mrgpssm import MRGPSSM, Sequence

Importing this package loads nothing heavy, touches no device and changes no global configuration: JAX comes with the
first use of a name that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrgpssm.blend.blend import Blend
    from mrgpssm.blend.load import load
    from mrgpssm.data import Sequence
    from mrgpssm.data.tables import Columns, read_sequences
    from mrgpssm.errors import ConfigError, DataError, DataWarning, FitError, ModelFileError, StorageError
    from mrgpssm.estimator.estimator import MRGPSSM
    from mrgpssm.prediction.forecast import Forecast
    from mrgpssm.spec import Bands, Training

__version__ = "0.1.0.dev0"
__all__ = [
    "MRGPSSM",
    "Bands",
    "Blend",
    "Columns",
    "ConfigError",
    "DataError",
    "DataWarning",
    "FitError",
    "Forecast",
    "ModelFileError",
    "Sequence",
    "StorageError",
    "Training",
    "load",
    "read_sequences",
]

_HOMES = {
    "MRGPSSM": "mrgpssm.estimator.estimator",
    "Bands": "mrgpssm.spec",
    "Blend": "mrgpssm.blend.blend",
    "Training": "mrgpssm.spec",
    "Sequence": "mrgpssm.data",
    "Columns": "mrgpssm.data.tables",
    "read_sequences": "mrgpssm.data.tables",
    "Forecast": "mrgpssm.prediction.forecast",
    "ConfigError": "mrgpssm.errors",
    "DataError": "mrgpssm.errors",
    "DataWarning": "mrgpssm.errors",
    "FitError": "mrgpssm.errors",
    "ModelFileError": "mrgpssm.errors",
    "StorageError": "mrgpssm.errors",
    "load": "mrgpssm.blend.load",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mrgpssm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
