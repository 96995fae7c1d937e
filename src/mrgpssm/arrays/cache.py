"""The user's cache folder, for files that can be made again."""

import os
from pathlib import Path


def user_cache() -> Path:
    """`$XDG_CACHE_HOME/mrgpssm`, else `~/.cache/mrgpssm`."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "mrgpssm"
