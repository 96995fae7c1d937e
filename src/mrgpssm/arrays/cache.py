"""Where things that can be made again are kept: the user's cache folder."""

import os
from pathlib import Path


def user_cache() -> Path:
    """`$XDG_CACHE_HOME/mrgpssm`, else `~/.cache/mrgpssm`."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "mrgpssm"
