"""Optional packages: imported when first used, and one sentence where they are missing."""

from importlib import import_module
from typing import Any


def need(module: str, what: str, extra: str) -> Any:
    """The module, or an ImportError that says what to install."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise ImportError(f"{what} needs {name}; install mrgpssm[{extra}].") from None
