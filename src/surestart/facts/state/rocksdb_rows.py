"""Keys and values of one RocksDB store at one version, by the library `rocksdict` (the extra `state`).

    12.zip                          RocksDB's own notes, and which files hold the rows     store_files
    13.changelog 14.changelog       what was changed since                                 version 14
    12_<id>.zip 13_<id>.changelog   format 2: the commit names the id of the version, its changelog those before it

The files are put together in a folder of their own and opened read only. Of RocksDB's settings only the one that rows
are made with is taken over: others name paths to write to.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surestart.facts.checkpoint.lineage import read_lineage
from surestart.facts.checkpoint.log_file import NotInState, Torn, TornFile, UnknownForm, naming
from surestart.facts.checkpoint.open_file import open_state_file, unpacked
from surestart.facts.checkpoint.state_records import DELETE, DELETE_RANGE, MERGE, StateRecord, read_changelog
from surestart.facts.checkpoint.store_files import (
    SNAPSHOT_LIMIT,
    RocksDbNotes,
    lacks,
    opened_snapshot,
    read_member,
    read_notes,
)
from surestart.facts.state.hdfs_rows import RowReading, TooLarge
from surestart.facts.storage.storage import FILE, Storage

_OWN = re.compile(r"MANIFEST-\d{1,20}|CURRENT|IDENTITY|\d{1,20}\.log")
_ROWS = re.compile(r"\d{1,20}\.(sst|log|blob)")
_COPIED = 1 << 20
_OPTIONS = """[Version]
  rocksdb_version=9.8.4
  options_file_version=1.1

[DBOptions]

[CFOptions "default"]
  merge_operator={id=StringAppendOperator;delimiter=%s;}

[TableOptions/BlockBasedTable "default"]
"""


class NotInstalled(UnknownForm):
    """The library that reads RocksDB's files is not installed."""


@dataclass
class RocksDbStore:
    """families: the two bytes in front of each key of a column family; none where a store has no families. Open until
    its `stack` is closed."""

    database: Any
    changed: StoreChanges
    families: Mapping[str, bytes]
    stack: ExitStack

    def of_unknown_families(self) -> bool:
        """Whether rows may belong to a family that no snapshot names. Spark writes a snapshot whenever it makes a
        family."""
        known = set(self.families.values())
        return self.database is None or any(key[:2] not in known for key in self.changed.of)

    def rows(self, family: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows: first those that were changed since the snapshot, then the others of the snapshot."""
        for key, change in self.changed.of.items():
            if key.startswith(family) and (value := self._after(key, change)) is not None:
                yield key, value
        for key, value in self._stored(family):
            if key not in self.changed.of and not self.changed.in_range(key):
                yield key, value

    def _after(self, key: bytes, change: StoreChange) -> bytes | None:
        if not change.appended:
            return change.value
        before = None if self.database is None else _asked(lambda: self.database.get(key))
        return change.value if before is None else bytes(before) + self.changed.between + (change.value or b"")

    def _stored(self, family: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self.database is None:
            return
        walk = self.database.iter()
        _asked(lambda: walk.seek(family) if family else walk.seek_to_first())
        while walk.valid():
            key, value = _asked(lambda: (bytes(walk.key()), bytes(walk.value())))
            if not key.startswith(family):
                break
            yield key, value
            walk.next()
        # A walk ends at a block that cannot be read as it does behind the last row.
        _asked(walk.status)


@dataclass(frozen=True)
class StoreChange:
    """value None: removed.
    appended: to what the snapshot has."""

    value: bytes | None
    appended: bool = False


@dataclass
class StoreChanges:
    """What the changelogs leave, key by key.

    between: what stands between the values of a list."""

    between: bytes = b","
    of: dict[bytes, StoreChange] = field(default_factory=dict)
    ranges: list[tuple[bytes, bytes]] = field(default_factory=list)

    def in_range(self, key: bytes) -> bool:
        return any(begin <= key < end for begin, end in self.ranges)

    def put(self, record: StateRecord) -> None:
        key, value = record.key, record.value
        if record.kind == DELETE_RANGE:
            self.ranges.append((key, value or b""))
            for one in [one for one in self.of if key <= one < (value or b"")]:
                self.of[one] = StoreChange(None)
        elif record.kind == MERGE:
            before = self.of.get(key, StoreChange(None, appended=not self.in_range(key)))
            joined = (value or b"") if before.value is None else before.value + self.between + (value or b"")
            self.of[key] = StoreChange(joined, before.appended)
        else:
            self.of[key] = StoreChange(None if record.kind == DELETE else value)


def _asked(question: Any) -> Any:
    try:
        return question()
    except Exception as error:
        # The library has one error for all that RocksDB refuses.
        raise Torn(f"RocksDB says of its files: {str(error)[:200]}") from error


def open_rocksdb(storage: Storage, folder: str, version: int, wanted_id: str, look: RowReading) -> RocksDbStore:
    """The store as it was at that version. wanted_id: what the commit calls it, "" in format 1."""
    if not importlib.util.find_spec("rocksdict"):
        raise NotInstalled(f"{folder}/ is of RocksDB, and rocksdict is not installed")
    present = {entry.name: entry.size or 0 for entry in storage.list_folder(folder) if entry.kind == FILE}
    base, steps = _files(storage, folder, present, version, wanted_id)
    changed = StoreChanges(look.between)
    for name in steps:
        _take(storage, f"{folder}/{name}", changed, look)
    with ExitStack() as stack:
        notes, database = RocksDbNotes(), None
        if base:
            notes, database = _open(storage, folder, base, present[base], look, stack)
        families = {name: number.to_bytes(2, "little", signed=True) for name, number in notes.families.items()}
        return RocksDbStore(database, changed, families, stack.pop_all())


def _files(
    storage: Storage, folder: str, present: Mapping[str, int], version: int, wanted_id: str
) -> tuple[str, list[str]]:
    """The snapshot to begin with, "" for none, and the changelogs after it."""
    ids = {version: f"_{wanted_id}" if wanted_id else ""}
    newest = f"{version}{ids[version]}"
    if wanted_id and f"{newest}.zip" not in present and f"{newest}.changelog" in present:
        path = f"{folder}/{newest}.changelog"
        with naming(path), open_state_file(storage, path) as file:
            ids |= {number: f"_{name}" for number, name in read_lineage(unpacked(file)).items() if number < version}
    steps: list[str] = []
    for number in range(version, 0, -1):
        name = f"{number}{ids.get(number, '')}"
        if f"{name}.zip" in present:
            return f"{name}.zip", steps[::-1]
        if f"{name}.changelog" not in present:
            kept = sorted({found.partition(".")[0] for found in present if not found.startswith(".")})
            raise NotInState(f"{name}.zip or {name}.changelog, which version {version} is made of", tuple(kept[:20]))
        steps.append(f"{name}.changelog")
    return "", steps[::-1]


def _take(storage: Storage, path: str, changed: StoreChanges, look: RowReading) -> None:
    with naming(path), open_state_file(storage, path) as file:
        for record in read_changelog(unpacked(file)):
            if not look.hold(len(record.key) + len(record.value or b"")):
                raise TooLarge("it and what is before it hold more changes than fit into memory here")
            bare = look.row_checksums and record.kind == DELETE
            changed.put(StateRecord(record.kind, record.key[4:], None) if bare else record)


def _open(
    storage: Storage, folder: str, name: str, size: int, look: RowReading, stack: ExitStack
) -> tuple[RocksDbNotes, Any]:
    from rocksdict import AccessType, Rdict

    if size > SNAPSHOT_LIMIT:
        raise TornFile(f"{folder}/{name} has {size:,} bytes, and Spark's have some kB")
    data = storage.read_file(f"{folder}/{name}", size + 1)
    notes = read_notes(storage, data, f"{folder}/{name}")
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="surestart-state-")))
    _unpack(data, place, f"{folder}/{name}")
    present: dict[str, int] = {}
    for inner in {path.partition("/")[0] for path in notes.files}:
        listed = storage.list_folder(f"{folder}/{inner}")
        present |= {f"{inner}/{entry.name}": entry.size or 0 for entry in listed if entry.kind == FILE}
    if why := lacks(notes.files, present):
        raise TornFile(f"{folder}/{name} names what is not there: {why}")
    for path, local in notes.local_names.items():
        if not _ROWS.fullmatch(local) or os.path.lexists(place / local):
            raise TornFile(f"{folder}/{name} names a file {local[:40]!r}, which is none of rows or is there twice")
        _place(storage, f"{folder}/{path}", place / local)
    (place / "OPTIONS-999999").write_text(_OPTIONS % look.between.decode(), encoding="ascii")
    database = _asked(lambda: Rdict(str(place), access_type=AccessType.read_only()))
    stack.callback(database.close)
    return notes, database


def _unpack(data: bytes, place: Path, what: str) -> None:
    with opened_snapshot(data, what) as archive:
        for name in archive.namelist():
            local = name.rpartition("/")[2]
            if _OWN.fullmatch(local):
                (place / local).write_bytes(read_member(archive, name, SNAPSHOT_LIMIT, what))


def _place(storage: Storage, path: str, local: Path) -> None:
    if storage.kind == "local":
        local.symlink_to(Path(storage.location).absolute() / path)
        return
    with storage.open_file(path) as source, local.open("wb") as target:
        while part := source.read(_COPIED):
            target.write(part)
