"""The rows of one HDFS-backed store at one version, read from the newest file backwards.

    snapshot 10 ── delta 11 ── delta 12          version 12
    read last  <──────────── read first          a key that a newer file wrote or removed is passed over in an older one

So the first rows are there as soon as one delta has been read, however large the store; a snapshot, which has each key
once, is passed on row by row.

Keys and values of one state file, in the order in which they were written.

.delta .snapshot and version 1 of a .changelog     bytes of the key (4) │ key │ bytes of the value (4) │ value
                                                   a value of -1 bytes: the key is removed
                                                   a key of -1 bytes: the end
.changelog     writeUTF("v2")                      kind (1) │ key │ value, each with its bytes (4) in front
               writeUTF("v3") writeUTF(lineage)    as version 1
               writeUTF("v4") writeUTF(lineage)    as version 2"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from surestart.facts.checkpoint.log_file import NotInState, Torn, UnknownForm, naming
from surestart.facts.checkpoint.open_file import open_state_file, unpacked
from surestart.facts.checkpoint.store_files import StoreVersions
from surestart.facts.storage.storage import Storage

# Keys and values held in memory, of all that is read: of a whole store, and where a few rows are wanted.
HELD = 512 << 20
HELD_FOR_A_FEW = 8 << 20
# What Python adds to a key and a value.
_ADDED = 200


@dataclass
class RowReading:
    """What reading rows was asked for, and what it has met.

    few: no more than this are wanted; None: all.
    between: what stands between the values of a list in RocksDB.
    notes: what a reader has to know."""

    few: int | None = None
    row_checksums: bool = False
    between: bytes = b","
    notes: list[str] = field(default_factory=list)
    held: int = 0

    def hold(self, size: int) -> bool:
        """False once more is in memory than is allowed."""
        self.held += size + _ADDED
        return self.held <= (HELD if self.few is None else HELD_FOR_A_FEW)


class TooLarge(UnknownForm):
    """More than is held in memory here."""


def chain(versions: StoreVersions, version: int) -> tuple[int, list[int]]:
    """The snapshot that `version` begins with, 0 for none, and the changes to be put on it."""
    base = max((number for number in versions.full if number <= version), default=0)
    # Not a list yet: whoever asks may ask for any number.
    steps = range(base + 1, version + 1)
    lost = next((number for number in steps if number not in versions.steps), None)
    if lost is not None:
        kept = sorted(versions.full | versions.steps)
        raise NotInState(f"version {lost}, which version {version} is made of", tuple(map(str, kept)))
    return base, [*steps]


def read_hdfs_rows(
    storage: Storage, folder: str, versions: StoreVersions, version: int, look: RowReading
) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each row, in no order. Torn names the file."""
    base, steps = chain(versions, version)
    seen: set[bytes] = set()
    for number in reversed(steps):
        yield from _of_delta(storage, f"{folder}/{number}.delta", seen, look)
    if base:
        for record in _records(storage, f"{folder}/{base}.snapshot", look):
            if record.key not in seen and record.value is not None:
                yield record.key, record.value


def _of_delta(storage: Storage, path: str, seen: set[bytes], look: RowReading) -> Iterator[tuple[bytes, bytes]]:
    """What holds after the delta: for a key that it has several times, the last one."""
    found: dict[bytes, bytes | None] = {}
    for record in _records(storage, path, look):
        if record.key in seen:
            continue
        found[record.key] = record.value
        if not look.hold(len(record.key) + len(record.value or b"")):
            if look.few is not None:
                look.notes.append(f"{path} is large: a later row may replace one of those that were read")
                yield from _written(found)
            raise TooLarge(f"{path} and what is newer hold more rows than fit into memory here")
    yield from _written(found)
    seen.update(found)


def _written(found: dict[bytes, bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    return ((key, value) for key, value in found.items() if value is not None)


def _records(storage: Storage, path: str, look: RowReading) -> Iterator[StateRecord]:
    with naming(path), open_state_file(storage, path) as file:
        for record in read_records(unpacked(file)):
            yield _without_checksum(record) if look.row_checksums else record


def _without_checksum(record: StateRecord) -> StateRecord:
    """Four bytes in front of the value; of a key that is removed, in front of the key (Spark 4.1 and newer)."""
    if record.value is None:
        return StateRecord(record.kind, record.key[4:], None)
    return StateRecord(record.kind, record.key, record.value[4:])


# One row. Spark's own limit is 2 GB; a state with larger rows than this is looked at with Spark.
ROW_LIMIT = 64 << 20
PUT, DELETE, MERGE, DELETE_RANGE = 0x01, 0x10, 0x11, 0x20
_END = 0x00


class StateRecord(NamedTuple):
    """value None: the key is removed.
    kind: one of those above."""

    kind: int
    key: bytes
    value: bytes | None


class _Stream:
    """The unpacked pieces of a file as one run of bytes; `at`: how many have been taken."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._data, self._next, self.at = pieces, b"", 0, 0

    def take(self, size: int) -> bytes:
        self._fill(size)
        found = self._data[self._next : self._next + size]
        if len(found) < size:
            raise Torn(f"it ends at byte {self.at + len(found):,} of what it unpacks to, within a row")
        self._next += size
        self.at += size
        return found

    def peek(self, size: int) -> bytes:
        self._fill(size)
        return self._data[self._next : self._next + size]

    def _fill(self, size: int) -> None:
        if len(self._data) - self._next >= size:
            return
        parts, have = [self._data[self._next :]], len(self._data) - self._next
        while have < size and (piece := next(self._pieces, b"")):
            parts.append(piece)
            have += len(piece)
        self._data, self._next = b"".join(parts), 0

    def length(self, what: str, least: int = -1) -> int:
        size = int.from_bytes(self.take(4), "big", signed=True)
        if size < least:
            raise Torn(f"a {what} has {size} bytes, at byte {self.at - 4:,} of what it unpacks to")
        if size > ROW_LIMIT:
            raise Torn(f"a {what} has {size:,} bytes, at byte {self.at - 4:,} of what it unpacks to")
        return size

    def utf(self) -> str:
        size = int.from_bytes(self.take(2), "big")
        return self.take(size).decode("utf-8", "replace")


def read_records(pieces: Iterator[bytes]) -> Iterator[StateRecord]:
    """Those of a .delta or a .snapshot. Torn when it ends before its mark of the end."""
    return _plain(_Stream(pieces))


def read_changelog(pieces: Iterator[bytes]) -> Iterator[StateRecord]:
    """Those of RocksDB's .changelog of any version."""
    stream = _Stream(pieces)
    # A file of version 1 begins with the length of a key: no key has 160 or more times 65,536 bytes.
    mark = stream.peek(4)
    if len(mark) == 4 and mark[2:3] == b"v" and mark[:2] == b"\x00\x02":
        version = stream.utf()
        if version not in ("v2", "v3", "v4"):
            raise UnknownForm(f"it is a changelog of version {version[:10]}")
        if version in ("v3", "v4"):
            stream.utf()
        if version in ("v2", "v4"):
            return _kinds(stream)
    return _plain(stream)


def _plain(stream: _Stream) -> Iterator[StateRecord]:
    while (size := stream.length("key")) >= 0:
        key = stream.take(size)
        length = stream.length("value")
        yield StateRecord(DELETE, key, None) if length < 0 else StateRecord(PUT, key, stream.take(length))


def _kinds(stream: _Stream) -> Iterator[StateRecord]:
    while (kind := stream.take(1)[0]) != _END:
        if kind not in (PUT, DELETE, MERGE, DELETE_RANGE):
            raise Torn(f"a record is of the kind {kind:#x}, at byte {stream.at - 1:,} of what it unpacks to")
        key = stream.take(stream.length("key", 0))
        length = stream.length("value", -1 if kind == DELETE else 0)
        yield StateRecord(kind, key, None if length < 0 else stream.take(length))
