"""Where things lie, as people write it: one form for a file and for a command line."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote


def absolute_place(given: str) -> str:
    """As it was given where it names a store; a folder of this machine by its whole path."""
    local = re.match(r"file:/", given)
    if local:
        given = "/" + unquote(given.removeprefix("file:")).lstrip("/")
    given = re.sub(r"^dbfs:/+Volumes/", "/Volumes/", given)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", given):
        return given.rstrip("/")
    return str(Path(given).expanduser().absolute())
