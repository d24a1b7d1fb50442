"""The checkpoint's own files (metadata, offsets/N, commits/N), each with its checksum: a value, or a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from surestart.facts.checkpoint.batch_logs import CommitLogEntry, OffsetLogEntry, parse_commit_log, parse_offset_log
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
from surestart.facts.checkpoint.log_folder import LogFolder, check_end, read_log_folder
from surestart.facts.storage.read_budget import VALUES, BoundedStorage, NotRead
from surestart.facts.storage.storage import FOLDER, FolderEntry, Storage

# One line of offsets is one source, and every reader looks at all of them.
MAX_LINES = 1000
# On object stores each file that is read costs a round trip.
ENTRIES_REMOTE = 8
ENTRIES_CRC = 3
# Reading older entries stops here: the rest is for later questions, such as which files the batch in flight reads.
RESERVE = VALUES // 4
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


@dataclass
class BatchLogs:
    """The two logs while they are read."""

    offsets_folder: LogFolder
    commits_folder: LogFolder
    offsets: dict[int, OffsetLogEntry | LogFault] = field(default_factory=dict)
    commits: dict[int, CommitLogEntry | LogFault] = field(default_factory=dict)
    crc_faults: dict[str, LogFault] = field(default_factory=dict)

    @property
    def folders(self) -> tuple[LogFolder, LogFolder]:
        return self.offsets_folder, self.commits_folder

    @property
    def needed_state(self) -> int | None:
        """The version of the state that the next start loads."""
        planned, committed = self.offsets_folder.last, self.commits_folder.last
        return None if planned is None else planned + 1 if committed == planned else planned

    @property
    def hidden_leftovers(self) -> int:
        return sum(folder.leftover_count - len(folder.leftovers) for folder in self.folders)

    def read_offsets(self, storage: BoundedStorage, which: slice) -> None:
        _read_entries(storage, self.offsets_folder, parse_offset_log, which, self.offsets, self.crc_faults)

    def read_commits(self, storage: BoundedStorage, which: slice) -> None:
        _read_entries(storage, self.commits_folder, parse_commit_log, which, self.commits, self.crc_faults)


def read_logs(storage: BoundedStorage) -> BatchLogs:
    offsets_folder = check_end(storage, read_log_folder(storage, "offsets"))
    newest = offsets_folder.last
    wanted = () if newest is None else (newest, newest - 1)
    return BatchLogs(offsets_folder, check_end(storage, read_log_folder(storage, "commits"), wanted))


def _read_entries(
    storage: BoundedStorage,
    folder: LogFolder,
    parse: Callable[[int, bytes], _Entry],
    which: slice,
    into: dict[int, _Entry | LogFault],
    crc_faults: dict[str, LogFault],
) -> None:
    """The entries of that place in the log, counted from the newest on; older ones while the budget lasts."""
    for index, batch in enumerate(folder.ids[::-1][which], start=which.start):
        if index >= ENTRIES_REMOTE and storage.budget.values < RESERVE:
            break
        path = f"{folder.name}/{batch}"
        # By name, whatever the listing says: a checksum that it lacks would not be compared.
        data = read_log(storage, path, crc_faults if index < ENTRIES_CRC else None)
        into[batch] = data if isinstance(data, LogFault) else parse_entry(parse, batch, data, path)
