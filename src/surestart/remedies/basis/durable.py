"""Makes sure that what was written is on the disk: what replaces an original must survive a power failure."""

from __future__ import annotations

import errno
import os
from pathlib import Path

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
