"""Writes the file of streams whole, or not at all, and never over what somebody else has written meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from surestart.errors import Refused, UsageError
from surestart.typed import in_the_code, typed


def write_over(path: Path, before: bytes, after: bytes) -> None:
    """The file holds `after`, where it held `before`. Raises with nothing written. What a link points to is written,
    and the link stays."""
    target = Path(os.path.realpath(path))
    try:
        draft = target.with_name(f".{target.name}.{os.getpid()}.new")
        with draft.open("wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        if (target.read_bytes() if target.exists() else b"") != before:
            raise Refused(
                f"{path} was changed by somebody while it was written",
                meaning="What they wrote would be gone. Nothing was changed.",
                next=in_the_code(f"the same command again; {draft} holds what would have been written"),
                code="ProjectFileMoved",
            )
        draft.replace(target)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}",
        meaning="Nothing is lost: the same command does it again. Nothing was written.",
        next=typed("ls", "-ld", path.absolute().parent),
        code="ProjectFileNotWritten",
    )
