"""Writes that survive a power failure: what replaces an original has to be on the disk.

Also puts a file where a checkpoint was, or will be. In an empty place Spark would make a new checkpoint, without a
word, and begin anew. Where a file stands it cannot make a folder, so the start fails, and whoever opens the file reads
where the stream is."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

from surestart.facts.checkpoint.find_checkpoints import Signpost as Signpost
from surestart.facts.checkpoint.find_checkpoints import read_signpost as read_signpost

# A file system that keeps a file from its close on, such as a volume over an object store, knows no such call.
_NOT_OFFERED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def sync(path: Path) -> None:
    """The file's bytes, or the folder's names, are on the disk."""
    # A folder cannot be opened for writing; a file opened for reading alone is not synced everywhere.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in _NOT_OFFERED:
            raise
    finally:
        os.close(descriptor)


def sync_folders(top: Path) -> None:
    """The names in this folder and in all below it, and its own name."""
    for folder, _, _ in os.walk(top):
        sync(Path(folder))
    sync(top.parent)


def put_up(path: Path, signpost: Signpost, *, instead: bool = False) -> None:
    """It stands there, whole. Raises FileExistsError where something does already; instead: but for a file."""
    # The name may be as long as any may be.
    draft = path.with_name(f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.signpost")
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
