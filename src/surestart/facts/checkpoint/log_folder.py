"""offsets/ or commits/ from one listing: which batches are there, which are missing, what else lies there.

offsets/0 1 2 4          ids; 3 is a hole
offsets/.4.crc           the local file system's checksum of 4
offsets/.5.<uuid>.tmp    left behind by a writer that died before its rename
offsets/4.bak            nothing that Spark makes
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from surestart.facts.checkpoint.log_file import NOT_A_FILE, UNREADABLE, LogFault
from surestart.facts.storage.storage import FILE, FOLDER, FolderEntry, Storage

SHOWN = 20
# One name says that something is wrong; a hundred thousand names say no more.
FAULTS = 200


@dataclass(frozen=True)
class LogFolder:
    """exists is None when the storage refused to say. ids are sorted.

    crcs: the ids with a `.id.crc` beside them.
    blocked: ids where a folder stands.
    misread: names such as "+9" that Spark takes for a batch and cannot open."""

    name: str
    exists: bool | None
    ids: tuple[int, ...] = ()
    empty: frozenset[int] = frozenset()
    crcs: frozenset[int] = frozenset()
    blocked: tuple[int, ...] = ()
    misread: tuple[tuple[str, int], ...] = ()
    leftovers: tuple[str, ...] = ()
    leftover_count: int = 0
    strays: tuple[str, ...] = ()
    stray_count: int = 0
    size: int = 0
    first_modified: float | None = None
    last_modified: float | None = None
    faults: tuple[LogFault, ...] = ()

    @property
    def first(self) -> int | None:
        return self.ids[0] if self.ids else None

    @property
    def last(self) -> int | None:
        return self.ids[-1] if self.ids else None

    @property
    def holes(self) -> tuple[tuple[int, int], ...]:
        """Missing batches between the first and the last, as (first missing, last missing)."""
        if not self.ids or self.ids[-1] - self.ids[0] + 1 == len(self.ids):
            return ()
        pairs = zip(self.ids, self.ids[1:], strict=False)
        return tuple((left + 1, right - 1) for left, right in pairs if right - left > 1)


def read_log_folder(storage: Storage, name: str) -> LogFolder:
    """One listing, no file opened."""
    seen = _Seen(name)
    try:
        for entry in storage.list_folder(name):
            seen.take(entry)
    except FileNotFoundError:
        return LogFolder(name, exists=False)
    except NotADirectoryError:
        return LogFolder(
            name, exists=True, faults=(LogFault(name, NOT_A_FILE, "there is a file where a folder should be"),)
        )
    except OSError as error:
        return LogFolder(name, exists=None, faults=(LogFault(name, UNREADABLE, f"{type(error).__name__}: {error}"),))
    return seen.as_folder()


@dataclass
class _Seen:
    """What a listing has shown so far. Of what should not be there a few are kept by name, and all are counted."""

    name: str
    ids: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    crcs: list[int] = field(default_factory=list)
    blocked: list[int] = field(default_factory=list)
    misread: list[tuple[str, int]] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    faults: list[LogFault] = field(default_factory=list)
    leftover_count: int = 0
    stray_count: int = 0
    others: int = 0
    size: int = 0
    first: float | None = None
    last: float | None = None

    def take(self, entry: FolderEntry) -> None:
        self.size += entry.size or 0
        path = f"{self.name}/{entry.name}"
        if is_batch_name(entry.name):
            self._take_batch(entry, path)
        elif entry.name[:1] == "." and entry.name[-4:] == ".crc" and is_batch_name(entry.name[1:-4]):
            self.crcs.append(int(entry.name[1:-4]))
        elif is_leftover(entry.name):
            self.leftover_count += 1
            if len(self.leftovers) < SHOWN:
                self.leftovers.append(path)
        else:
            if entry.kind == FILE and (taken := number_as_java_reads(entry.name)) is not None:
                self.misread.append((entry.name, taken))
            self.stray_count += 1
            if len(self.strays) < SHOWN:
                self.strays.append(path)

    def _take_batch(self, entry: FolderEntry, path: str) -> None:
        batch = int(entry.name)
        if entry.kind == FOLDER:
            # Spark's listing passes over it, Spark's writing runs into it.
            if len(self.blocked) < FAULTS:
                self.faults.append(LogFault(path, NOT_A_FILE, "there is a folder where a file belongs"))
            self.blocked.append(batch)
            return
        self.ids.append(batch)
        if entry.kind != FILE:
            self.others += 1
            if self.others <= FAULTS:
                why = "a device, a pipe or a link that leads out of the checkpoint: not opened"
                self.faults.append(LogFault(path, UNREADABLE, why))
            return
        if entry.size == 0:
            self.empty.append(batch)
        if entry.modified is not None:
            self.first = entry.modified if self.first is None else min(self.first, entry.modified)
            self.last = entry.modified if self.last is None else max(self.last, entry.modified)

    def as_folder(self) -> LogFolder:
        return LogFolder(
            name=self.name,
            exists=True,
            ids=tuple(sorted(self.ids)),
            empty=frozenset(self.empty),
            crcs=frozenset(self.crcs),
            blocked=tuple(sorted(self.blocked)),
            misread=tuple(sorted(self.misread, key=lambda pair: pair[1]))[-SHOWN:],
            leftovers=tuple(sorted(self.leftovers)),
            leftover_count=self.leftover_count,
            strays=tuple(sorted(self.strays)),
            stray_count=self.stray_count,
            size=self.size,
            first_modified=self.first,
            last_modified=self.last,
            faults=tuple(self.faults),
        )


def check_end(storage: Storage, folder: LogFolder, expected: Iterable[int] = ()) -> LogFolder:
    """The folder, listed again if it has a batch that the listing lacks: the one after its newest, or one of
    `expected`. A listing that was cut off shows a log that ends too early, and so a wrong next batch."""
    if folder.exists is None or (folder.faults and folder.faults[0].path == folder.name):
        return folder
    lacking = sorted({0 if folder.last is None else folder.last + 1, *expected} - {*folder.ids, *folder.blocked})
    try:
        there = [batch for batch in lacking if batch >= 0 and is_there(storage, f"{folder.name}/{batch}")]
    except OSError as error:
        return _unlisted(folder, f"{type(error).__name__}: {error}")
    if not there:
        return folder
    again = read_log_folder(storage, folder.name)
    if all(batch in again.ids for batch in there):
        return again
    return _unlisted(folder, f"{folder.name}/{there[0]} is there, and the listing of the folder lacks it")


def is_there(storage: Storage, path: str) -> bool:
    """Asked by name, whatever a listing says."""
    try:
        storage.read_file(path, 1)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _unlisted(folder: LogFolder, why: str) -> LogFolder:
    return replace(folder, exists=None, faults=(LogFault(folder.name, UNREADABLE, why), *folder.faults))


def is_batch_name(name: str) -> bool:
    """Plain ASCII digits without leading zeros: what Spark writes, for batches, entries of a source's list, versions of
    state. `str(int(name)) == name`, so the number finds its file again."""
    return _BATCH.fullmatch(name) is not None


def number_as_java_reads(name: str) -> int | None:
    """The number that Java's Long.parseLong takes from a name that Spark never writes: "+5", "007" with any number of
    zeros, Arabic digits, 10^18 and more. Spark counts such a file among its batches, and then looks for another one."""
    if is_batch_name(name) or not _JAVA_LONG.fullmatch(name):
        return None
    number = int(name)
    return number if -(2**63) <= number < 2**63 else None


_BATCH = re.compile(r"0|[1-9][0-9]{0,17}")
_JAVA_LONG = re.compile(r"[+-]?\d+")


def is_leftover(name: str) -> bool:
    """A writer's temporary file, or a checksum of something that is no batch."""
    return name.startswith(".") or name.endswith(".tmp")
