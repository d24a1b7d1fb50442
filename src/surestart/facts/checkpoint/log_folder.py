"""offsets/ or commits/ from one listing: which batches are there, which are missing, what lies around beside them.

offsets/0 1 2 4          ids; 3 is a hole
offsets/.4.crc           the local file system's checksum of 4
offsets/.5.<uuid>.tmp    left behind by a writer that died before its rename
offsets/4.bak            nothing that Spark makes
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from surestart.facts.checkpoint.log_file import NOT_A_FILE, UNREADABLE, LogFault
from surestart.facts.storage.storage import FILE, FOLDER, Storage

SHOWN = 20
# One says that something is wrong; a hundred thousand of them say no more.
FAULTS = 200


@dataclass(frozen=True)
class LogFolder:
    """exists is None when the storage refused to say. ids are sorted. crcs: the ids with a `.id.crc` beside them.

    blocked: ids where a folder stands. misread: names such as "+9" that Spark takes for a batch and cannot open.
    """

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
    ids: list[int] = []
    empty: list[int] = []
    crcs: list[int] = []
    blocked: list[int] = []
    misread: list[tuple[str, int]] = []
    leftovers: list[str] = []
    strays: list[str] = []
    faults: list[LogFault] = []
    leftover_count = stray_count = size = others = 0
    times: list[float] = []
    try:
        for entry in storage.list_folder(name):
            size += entry.size or 0
            if is_batch_name(entry.name):
                batch = int(entry.name)
                if entry.kind == FOLDER:
                    # Spark's listing passes over it, Spark's writing runs into it.
                    if len(blocked) < FAULTS:
                        why = "a folder stands where a file belongs"
                        faults.append(LogFault(f"{name}/{entry.name}", NOT_A_FILE, why))
                    blocked.append(batch)
                    continue
                if entry.kind != FILE:
                    others += 1
                    if others <= FAULTS:
                        why = "a device, a pipe or a link that leads out of the checkpoint: not opened"
                        faults.append(LogFault(f"{name}/{entry.name}", UNREADABLE, why))
                    ids.append(batch)
                    continue
                ids.append(batch)
                if entry.size == 0:
                    empty.append(batch)
                if entry.modified is not None:
                    times[:] = [min([entry.modified, *times[:1]]), max([entry.modified, *times[1:]])]
            elif entry.name[:1] == "." and entry.name[-4:] == ".crc" and is_batch_name(entry.name[1:-4]):
                crcs.append(int(entry.name[1:-4]))
            elif is_leftover(entry.name):
                leftover_count += 1
                leftovers.append(f"{name}/{entry.name}") if len(leftovers) < SHOWN else None
            else:
                if entry.kind == FILE and (taken := number_as_java_reads(entry.name)) is not None:
                    misread.append((entry.name, taken))
                stray_count += 1
                strays.append(f"{name}/{entry.name}") if len(strays) < SHOWN else None
    except FileNotFoundError:
        return LogFolder(name, exists=False)
    except NotADirectoryError:
        return LogFolder(name, exists=True, faults=(LogFault(name, NOT_A_FILE, "a file stands where a folder should"),))
    except OSError as error:
        return LogFolder(name, exists=None, faults=(LogFault(name, UNREADABLE, f"{type(error).__name__}: {error}"),))
    ids.sort()
    return LogFolder(
        name=name,
        exists=True,
        ids=tuple(ids),
        empty=frozenset(empty),
        crcs=frozenset(crcs),
        blocked=tuple(sorted(blocked)),
        misread=tuple(sorted(misread, key=lambda pair: pair[1]))[-SHOWN:],
        leftovers=tuple(sorted(leftovers)),
        leftover_count=leftover_count,
        strays=tuple(sorted(strays)),
        stray_count=stray_count,
        size=size,
        first_modified=times[0] if times else None,
        last_modified=times[1] if times else None,
        faults=tuple(faults),
    )


def check_end(storage: Storage, folder: LogFolder, expected: Iterable[int] = ()) -> LogFolder:
    """The same folder, listed again where a batch is there that the listing lacks: the one behind its newest, or one of
    `expected`. A listing that was cut off would show a log that ends earlier, and so another next batch."""
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
    """The number that Java's Long.parseLong takes from a name that Spark never writes: "+5", "007", Arabic digits.
    Spark counts such a file among its batches, and then looks for another name."""
    return None if is_batch_name(name) or not _JAVA_LONG.fullmatch(name) else int(name)


_BATCH = re.compile(r"0|[1-9][0-9]{0,17}")
_JAVA_LONG = re.compile(r"[+-]?\d{1,18}")


def is_leftover(name: str) -> bool:
    """A writer's temporary file, or a checksum of something that is no batch."""
    return name.startswith(".") or name.endswith(".tmp")
