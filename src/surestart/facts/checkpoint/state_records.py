"""Keys and values of one state file, in the order in which they were written.

.delta .snapshot and version 1 of a .changelog     bytes of the key (4) │ key │ bytes of the value (4) │ value
                                                   a value of -1 bytes: the key is removed
                                                   a key of -1 bytes: the end
.changelog     writeUTF("v2")                      kind (1) │ key │ value, each with its bytes (4) in front
               writeUTF("v3") writeUTF(lineage)    as version 1
               writeUTF("v4") writeUTF(lineage)    as version 2"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from surestart.facts.checkpoint import lz4_blocks
from surestart.facts.checkpoint.log_file import Torn, UnknownForm
from surestart.facts.checkpoint.open_file import is_packed, unpacked

# So many bytes tell how a file is packed.
HEAD = 8
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


def why_cut_off(file: BinaryIO, size: int, changelog: bool, may_read: Callable[[int], bool]) -> str:
    """Why Spark would not come to the end of a .delta, .snapshot or .changelog of so many bytes; "" where it would, and
    where all of it would have to be read and may not. The file can be moved about in."""
    head = file.read(HEAD)
    if head == lz4_blocks.MAGIC:
        file.seek(max(size - lz4_blocks.END_SIZE, 0))
        if lz4_blocks.is_end(file.read(lz4_blocks.END_SIZE)):
            return ""
    elif len(head) == HEAD and not is_packed(head):
        return ""
    if not may_read(size):
        return f"it ends at byte {size:,} without the mark of its end" if head == lz4_blocks.MAGIC else ""
    file.seek(0)
    try:
        for _ in (read_changelog if changelog else read_records)(unpacked(file)):
            continue
    except UnknownForm:
        return ""
    except Torn as error:
        return str(error)
    return ""
