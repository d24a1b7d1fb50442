"""offsets/ or commits/ from one listing: which batches are there, which are missing, what lies around beside them.

offsets/0 1 2 4          ids; 3 is a hole
offsets/.4.crc           the local file system's checksum of 4
offsets/.5.<uuid>.tmp    left behind by a writer that died before its rename
offsets/4.bak            nothing that Spark makes
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from surestart.checkpoint.log_file import NOT_A_FILE, UNREADABLE, LogFault
from surestart.checkpoint.storage import FILE, FOLDER, Storage

SHOWN = 20


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
    leftover_count = stray_count = size = 0
    times: list[float] = []
    try:
        for entry in storage.list_folder(name):
            size += entry.size or 0
            if is_batch_name(entry.name):
                batch = int(entry.name)
                if entry.kind == FOLDER:
                    # Spark's listing passes over it, Spark's writing runs into it.
                    faults.append(LogFault(f"{name}/{entry.name}", NOT_A_FILE, "a folder stands where a file belongs"))
                    blocked.append(batch)
                    continue
                if entry.kind != FILE:
                    why = "a device, a pipe or a link that leads out of the checkpoint: not opened"
                    faults.append(LogFault(f"{name}/{entry.name}", UNREADABLE, why))
                    ids.append(batch)
                    continue
                ids.append(batch)
                if entry.size == 0:
                    empty.append(batch)
                if entry.modified is not None:
                    times[:] = [min([entry.modified, *times[:1]]), max([entry.modified, *times[1:]])]
            elif match := re.fullmatch(r"\.(\d{1,18})\.crc", entry.name):
                crcs.append(int(match.group(1)))
            elif is_leftover(entry.name):
                leftover_count += 1
                leftovers.append(f"{name}/{entry.name}") if len(leftovers) < SHOWN else None
            else:
                if entry.kind == FILE and re.fullmatch(r"[+-]?\d{1,18}", entry.name):
                    misread.append((entry.name, int(entry.name)))
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


def is_batch_name(name: str) -> bool:
    """Plain digits without leading zeros. Spark's parser also takes "+5" and "007", which Spark itself never writes."""
    return re.fullmatch(r"0|[1-9]\d{0,17}", name) is not None


def is_leftover(name: str) -> bool:
    """A writer's temporary file, or a checksum of something that is no batch."""
    return name.startswith(".") or name.endswith(".tmp")
