"""A file that somebody has named on the command line: whole at its path, or not there and said why."""

from __future__ import annotations

import os
from pathlib import Path

from surestart.errors import UsageError
from surestart.typed import typed


def write_named_file(path: str, text: str, what: str, meaning: str) -> None:
    """An older file is replaced, and stays as it is where the disk is full. what: as in "the page"."""
    # A link stays one.
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            # A pipe, or the terminal: nothing to be put in its place.
            target.write_text(text, encoding="utf-8")
            return
        fresh = target.with_name(f".surestart-{os.getpid()}.new")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(target)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(
            f"{what} cannot be written to {path}: {error.strerror or error}",
            meaning=meaning,
            next=typed("df", "-h", target.parent, note="it needs a folder with room that you may write to"),
        ) from error
