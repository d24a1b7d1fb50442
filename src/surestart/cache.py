"""Where downloads and start-up archives are kept between runs; losing it costs time, never data."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$SURESTART_CACHE, or surestart's folder in the user's cache directory."""
    chosen = os.environ.get("SURESTART_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surestart"
