"""The rows of one HDFS-backed store at one version, read from the newest file backwards.

    snapshot 10 ── delta 11 ── delta 12          version 12
    read last  <──────────── read first          a key that a newer file wrote or removed is passed over in an older one

So the first rows are there as soon as one delta has been read, however large the store; a snapshot, which has each key
once, is passed on row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from surestart.facts.checkpoint.log_file import NotInState, UnknownForm, naming
from surestart.facts.checkpoint.open_file import open_state_file, unpacked
from surestart.facts.checkpoint.state_records import StateRecord, read_records
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
    """The snapshot that `version` begins with, 0 for none, and the changes to be put on it. A torn one is among them:
    whoever reads it says so, and by its name."""
    base = max((number for number in versions.full if number <= version), default=0)
    # Not a list yet: whoever asks may ask for any number.
    steps = range(base + 1, version + 1)
    lost = next((number for number in steps if number not in versions.steps | versions.torn), None)
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
