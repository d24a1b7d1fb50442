"""A folder of jars in the cache: made beside its place and put there whole, so that two that resolve at the same time
do not write into each other's, and a session that runs always finds its jars."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Written last: a folder without it is not complete.
STAMP = "resolved.json"


def fill_folder(folder: Path, fill: Callable[[Path], str], *, again: bool = False) -> None:
    """The folder is there whole. fill: puts everything into the folder that it gets, and returns the text of its stamp.
    again: also where it is complete; the former one stays in its place until then."""
    draft, former = (folder.with_name(f"{folder.name}.{os.getpid()}{end}") for end in ("", ".former"))
    try:
        stamp = fill(draft)
        (draft / STAMP).write_text(stamp)
        if again or not (folder / STAMP).exists():
            with suppress(FileNotFoundError):
                folder.rename(former)
        with suppress(OSError):  # Another process was quicker with the same jars.
            draft.rename(folder)
    finally:
        for rest in (draft, former):
            shutil.rmtree(rest, ignore_errors=True)
