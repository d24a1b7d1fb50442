"""Puts a file where a checkpoint was, or will be: no Spark starts there, and who opens it reads where the stream is.

Spark makes a new checkpoint in an empty place, without a word, and begins anew. In the place of a file it cannot make a
folder, so that a start fails.
"""

from __future__ import annotations

from pathlib import Path

from surestart.facts.checkpoint.signpost import Signpost as Signpost
from surestart.facts.checkpoint.signpost import read_signpost as read_signpost
from surestart.remedies.basis.durable import sync


def put_up(path: Path, signpost: Signpost, *, instead: bool = False) -> None:
    """It stands there, whole. Raises FileExistsError where something does already; instead: but for a file."""
    draft = path.with_name(f".{path.name}.signpost")
    draft.write_text(signpost.as_text(), encoding="utf-8")
    sync(draft)
    try:
        if instead:
            draft.replace(path)
        else:
            _link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def _link(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: still never over what is there.
        with path.open("xb") as file:
            file.write(draft.read_bytes())
        sync(path)
