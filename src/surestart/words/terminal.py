"""How wide the terminal is that a screen is shown on."""

from __future__ import annotations

import os


def terminal_width(otherwise: int = 80) -> int:
    """By $COLUMNS, else by the terminal itself; shutil would import its compressors for this, 5 ms of every call."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (ValueError, OSError):
        return otherwise
