"""One of the checkpoint's own files (metadata, offsets/N, commits/N), with its checksum: a value, or a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from surestart.facts.checkpoint.batch_logs import CommitLogEntry, OffsetLogEntry
from surestart.facts.checkpoint.log_file import (
    EMPTY,
    NOT_A_FILE,
    STALE_CRC,
    TOO_LARGE,
    TORN,
    UNREADABLE,
    FormatError,
    LogFault,
    crc_disagrees,
    crc_path,
    parse_json,
    parse_object,
    read_listed_bytes,
)
from surestart.facts.storage.read_budget import NotRead
from surestart.facts.storage.storage import FOLDER, FolderEntry, Storage

# One line of offsets is one source, and every reader looks at all of them.
MAX_LINES = 1000
_Entry = TypeVar("_Entry", OffsetLogEntry, CommitLogEntry)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)


def read_metadata(storage: Storage, root: Mapping[str, FolderEntry]) -> tuple[str | None, LogFault | None, bytes]:
    """(query id, fault, bytes); all empty when there is no metadata file."""
    if "metadata" not in root:
        return None, None, b""
    if root["metadata"].kind == FOLDER:
        return None, LogFault("metadata", NOT_A_FILE, "there is a folder where a file belongs"), b""
    data = read_listed_bytes(storage, "metadata")
    if isinstance(data, LogFault):
        return None, data, b""
    try:
        if not data:
            raise FormatError(EMPTY, "metadata has 0 bytes")
        # Spark reads this file leniently: broken UTF-8 becomes U+FFFD, and what follows the object is ignored.
        fields = parse_object(data.decode("utf-8", "replace"), "metadata")
        query_id = fields.get("id")
        if not isinstance(query_id, str) or not _UUID.fullmatch(query_id):
            raise FormatError(TORN, "metadata holds no query id")
    except FormatError as error:
        return None, LogFault("metadata", error.kind, error.detail), data
    # Spark makes a UUID of it, and writes that everywhere in small letters.
    return query_id.lower(), None, data


def behind_json(data: bytes) -> str:
    return parse_json(data.decode("utf-8", "replace"), "metadata")[1][:80]


def read_log(storage: Storage, path: str, crc_faults: dict[str, LogFault] | None) -> bytes | LogFault:
    data = read_listed_bytes(storage, path)
    if isinstance(data, bytes) and data.count(b"\n") + data.count(b"\r") > MAX_LINES:
        return LogFault(path, TOO_LARGE, f"more than {MAX_LINES:,} lines: no query has so many sources")
    if isinstance(data, bytes) and crc_faults is not None:
        check_crc(storage, path, data, crc_faults)
    return data


def check_crc(storage: Storage, path: str, data: bytes, crc_faults: dict[str, LogFault]) -> None:
    if not storage.checks_crc:
        return
    try:
        crc = storage.read_file(crc_path(path), 1 << 20)
    except NotRead as error:
        crc_faults[path] = LogFault(path, TOO_LARGE, str(error))
        return
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        crc_faults[path] = LogFault(
            path, UNREADABLE, f"its checksum cannot be read: {type(error).__name__}: {error.strerror or error}"
        )
        return
    if not crc and is_cut_off(storage, crc_path(path)):
        crc_faults[path] = LogFault(path, UNREADABLE, "its checksum was read as an empty file, and is none")
        return
    why = crc_disagrees(data, crc)
    if why:
        crc_faults[path] = LogFault(path, STALE_CRC, why)


def is_cut_off(storage: Storage, path: str) -> bool:
    """Whether a file that was read as empty is listed with bytes; one that cannot be listed may be."""
    folder, _, name = path.rpartition("/")
    try:
        return any(entry.name == name and entry.size != 0 for entry in storage.list_folder(folder))
    except OSError:
        return True


def parse_entry(parse: Callable[[int, bytes], _Entry], batch: int, data: bytes, path: str) -> _Entry | LogFault:
    try:
        return parse(batch, data)
    except FormatError as error:
        return LogFault(path, error.kind, error.detail)
