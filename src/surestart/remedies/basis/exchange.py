"""Two names that change places at once: at no moment is either of them empty."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

# renameat2(2): both paths as they are, RENAME_EXCHANGE.
_HERE, _EXCHANGE = -100, 2
_NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)


def exchange(one: Path, other: Path) -> bool:
    """What was at one is at the other. False, with nothing changed, where this system or file system has no such
    call."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
