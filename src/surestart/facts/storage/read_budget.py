"""What one reading of a checkpoint or of a table's log may cost, whatever lies there.

A folder of a hundred million names, a file of two gigabytes, two million transactions in one commit: nothing of that is
Spark's, and reading it to the end would take the doctor's time and the machine's memory. A reading has a budget, each
look into the storage is charged to it, and what does not fit raises `NotRead`. That is an OSError, so whoever reads
files reports it like any other evidence that is out of reach: never as a file that is empty, whole or missing.

    bytes    read from files, in blocks: 0.6 s for all of them from a warm disk
    names    seen in listings; one whose size and time were asked for counts twice
    values   made of what was read, at about a microsecond and 150 bytes each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol, cast

from surestart.facts.storage.storage import FolderEntry, Storage, StorageOf

BYTES = 1 << 30
NAMES = 1_000_000
VALUES = 700_000


class NotRead(OSError):
    """Left unread because it is larger than anything that Spark or Delta writes."""


@dataclass
class ReadBudget:
    """What is left. Counts, not seconds: the same checkpoint gets the same answer on a slow machine."""

    bytes: int = BYTES
    names: int = NAMES
    values: int = VALUES

    def take(self, kind: str, count: int, what: str) -> None:
        """Charges it, or raises NotRead."""
        left = getattr(self, kind)
        if count > left:
            limit = {"bytes": f"{BYTES >> 20} MB", "names": f"{NAMES // 2:,} names", "values": f"{VALUES:,} values"}
            raise NotRead(f"{what} was not read to its end: this place holds more than the {limit[kind]} of one look")
        setattr(self, kind, left - count)


@dataclass(frozen=True, eq=False)
class BoundedStorage(StorageOf):
    """A storage whose every read is charged to one budget."""

    budget: ReadBudget = field(default_factory=ReadBudget)
    # What one question has read and the next of the same look needs again, such as a listing.
    remembered: dict[str, Any] = field(default_factory=dict)

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        for entry in _to_its_end(self.storage.list_folder(path), path):
            self.budget.take("names", 2, path)
            yield entry

    def list_matching(self, path: str, wanted: Callable[[str], bool]) -> Iterator[FolderEntry]:
        """Only the names that are wanted; the others are not asked for their size, where the storage can do that."""

        def counted(name: str) -> bool:
            self.budget.take("names", 1, path)
            return wanted(name)

        cheap = getattr(self.storage, "list_matching", None)
        if cheap is not None:
            yield from _to_its_end(cheap(path, counted), path)
            return
        for entry in _to_its_end(self.storage.list_folder(path), path):
            if counted(entry.name):
                yield entry

    def read_file(self, path: str, limit: int) -> bytes:
        data = self.storage.read_file(path, min(limit, self.budget.bytes + 1))
        self.budget.take("bytes", len(data), path)
        return data

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        return cast("AbstractContextManager[BinaryIO]", _CountedFile(self.storage.open_file(path), self.budget, path))

    def charge(self, values: int, what: str) -> None:
        self.budget.take("values", values, what)


def _to_its_end(entries: Iterator[FolderEntry], path: str) -> Iterator[FolderEntry]:
    """A listing that breaks off with "there is no such folder" has shown that there is one: of what it lacks nobody
    may say that it was never there."""
    begun = False
    try:
        for entry in entries:
            begun = True
            yield entry
    except (FileNotFoundError, NotADirectoryError) as error:
        if begun:
            raise OSError(f"{path or 'the folder'} was listed in part: {error}") from error
        raise


class _CountedFile:
    """As much of a file as pyarrow and a block-wise reader need."""

    def __init__(self, manager: AbstractContextManager[BinaryIO], budget: ReadBudget, path: str) -> None:
        self._manager, self._budget, self._path = manager, budget, path
        self._file: Any = None

    def __enter__(self) -> _CountedFile:
        self._file = self._manager.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._manager.__exit__(*raised)

    def read(self, size: int = -1) -> bytes:
        left = self._budget.bytes + 1
        data: bytes = self._file.read(left if size < 0 else min(size, left))
        self._budget.take("bytes", len(data), self._path)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def seekable(self) -> bool:
        return bool(getattr(self._file, "seekable", lambda: False)())

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return bool(getattr(self._file, "closed", False))

    def close(self) -> None:
        self._file.close()


def bounded(storage: Storage) -> BoundedStorage:
    """The storage with a budget: its own, or a fresh one."""
    return storage if isinstance(storage, BoundedStorage) else BoundedStorage(storage)


def charge(storage: Storage, values: int, what: str) -> None:
    """Charged where the storage has a budget; a test's plain storage has none."""
    if isinstance(storage, BoundedStorage):
        storage.charge(values, what)


BLOCK = 1 << 20


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class CountedReader:
    def __init__(self, file: Readable) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        return data


def read_lines(file: Readable, longest: int) -> Iterator[bytes]:
    """Each line without its newline. Of a longer one only the first `longest` + 1 bytes: whoever needs it whole can see
    that it is not."""
    parts: list[bytes] = []
    held = 0
    while block := file.read(BLOCK):
        first, *others = block.split(b"\n")
        if held <= longest:
            parts.append(first)
            held += len(first)
        if others:
            yield b"".join(parts)[: longest + 1]
            yield from (line[: longest + 1] for line in others[:-1])
            parts, held = [others[-1]], len(others[-1])
    if held:
        yield b"".join(parts)[: longest + 1]
