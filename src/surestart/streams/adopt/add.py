"""Adds to the file of streams: behind what is there, which stays byte for byte; whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from surestart.errors import Refused, UsageError
from surestart.streams.adopt.write_stream import HEADER
from surestart.streams.change_file import unwritable, write_over
from surestart.streams.project_file import ProjectFile, parse_project_text, read_project_file
from surestart.typed import in_the_code


def read_if_there(path: Path) -> ProjectFile | None:
    """What the file declares by now; None for one that is not there. Raises for one that is not understood."""
    try:
        path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unwritable(path, error) from error
    return read_project_file(path)


def add_to_file(path: Path, text: str, names: tuple[str, ...]) -> None:
    """The file declares these streams as well; what it held before is unchanged. Raises with nothing written."""
    target = Path(os.path.realpath(path))
    try:
        before = target.read_bytes() if target.exists() else b""
    except OSError as error:
        raise unwritable(path, error) from error
    write_over(path, before, _added(path, before, text, names))


def _added(path: Path, before: bytes, text: str, names: tuple[str, ...]) -> bytes:
    head = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
    more = text if before else f"{HEADER}\n{text}"
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    after = before + (head + more.encode("utf-8")).replace(b"\n", newline)
    old = parse_project_text(path, before.decode("utf-8")) if before else None
    declared = () if old is None else old.streams
    try:
        new = parse_project_text(path, after.decode("utf-8"))
    except UsageError as error:
        raise Refused(
            f"{path} cannot be added to: {error.what}",
            meaning="Its streams are written so that none can follow, such "
            "as stream = { … } on one line. Nothing was changed.",
            next=in_the_code("write each stream as a table of its own: [stream.orders]"),
            code="ProjectFileClosed",
        ) from error
    assert new.streams[: len(declared)] == declared, "what stood there was changed"
    assert tuple(stream.name for stream in new.streams[len(declared) :]) == names
    return after
