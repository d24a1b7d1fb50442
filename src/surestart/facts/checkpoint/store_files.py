"""What a RocksDB snapshot needs beside itself: `<version>.zip` holds notes, the rows lie in files that it names.

    12.zip          metadata  v1
                              {"sstFiles":[{"dfsSstFileName":"000011-….sst","sizeBytes":1295},…],"logFiles":[…],…}
    SSTs/000011-….sst         rows; several snapshots share one
    logs/000012-….log         the same, where a snapshot has any

Spark copies each named file and compares its size (RocksDBFileManager.loadImmutableFilesFromDfs): one that is gone or
has another size ends the start with CANNOT_LOAD_STATE_STORE. Measured on 4.0.5, with a changelog and without, format 1
and 2."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surestart.facts.checkpoint.log_file import (
    LOG_LIMIT,
    TORN,
    VERSION,
    FormatError,
    parse_object,
    split_log_lines,
    weight,
)
from surestart.facts.storage.read_budget import charge
from surestart.facts.storage.storage import Storage

if TYPE_CHECKING:
    from zipfile import ZipFile

# Notes of some kB, and RocksDB's own log and manifest, which it keeps below this.
SNAPSHOT_LIMIT = 32 * 1024 * 1024
FOLDERS = ("SSTs", "logs")
_LISTS = (("SSTs", "sstFiles"), ("logs", "logFiles"))


# Spark 4.0 writes the checkpoint's format there, as it was set when its JVM first used RocksDB; the rest is the same.
_VERSIONS = ("v1", "v2")
# As they are, and deflated: all that java.util.zip knows. Each other way has a library, and errors, of its own.
_OF_JAVA = (0, 8)
# So many bytes are unpacked in the time of one value.
_UNPACKED_AT_ONCE = 2_000


@dataclass(frozen=True)
class RocksDbNotes:
    """files: path below the store -> bytes, of each file that holds rows.
    local_names: what RocksDB calls it.
    rows: how many there are, None where Spark was told not to count.
    families: their numbers by their names."""

    files: Mapping[str, int] = field(default_factory=dict)
    local_names: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    families: Mapping[str, int] = field(default_factory=dict)


def read_notes(storage: Storage, data: bytes, what: str) -> RocksDbNotes:
    """What the snapshot says of itself.

    FormatError: it is not a whole snapshot, or (kind VERSION) one of another writer's form, which may well be whole.
    storage: where its bytes come from, whose budget pays for what they unpack to."""
    fields = _metadata(storage, data, what)
    items = [(folder, item) for folder, key in _LISTS for item in _items(fields, key)]
    names = {"SSTs": "dfsSstFileName", "logs": "dfsLogFileName"}
    try:
        files = {f"{folder}/{item[names[folder]]}": int(item["sizeBytes"]) for folder, item in items}
        local = {
            f"{folder}/{item[names[folder]]}": str(item.get("localFileName") or item[names[folder]])
            for folder, item in items
        }
        families = {str(name): int(number) for name, number in (fields.get("columnFamilyMapping") or {}).items()}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise FormatError(TORN, f"metadata in {what} does not name files with their sizes") from error
    rows = fields.get("numKeys")
    return RocksDbNotes(files, local, rows if type(rows) is int and 0 <= rows < 2**63 else None, families)


def read_named_files(storage: Storage, data: bytes, what: str) -> Mapping[str, int]:
    """Path below the store -> bytes, of each file that the snapshot names."""
    return read_notes(storage, data, what).files


def lacks(named: Mapping[str, int], present: Mapping[str, int]) -> str:
    """The first named file that is not there as it was written, in words; "" when all are."""
    for path, size in named.items():
        if path not in present:
            return f"{path}, {size} bytes, is not there"
        if present[path] != size:
            return f"{path} has {present[path]} bytes of {size}"
    return ""


def _items(fields: Mapping[str, Any], key: str) -> list[Any]:
    found = fields.get(key) or []
    if not isinstance(found, list):
        raise FormatError(TORN, f"{key} does not name files with their sizes")
    return found


def _metadata(storage: Storage, data: bytes, what: str) -> Mapping[str, Any]:
    charge(storage, 10 * data.count(b"PK\x01\x02"), what)
    with opened_snapshot(data, what) as archive:
        if archive.namelist() and "metadata" not in archive.namelist():
            raise FormatError(VERSION, f"{what} has no list of its files: a form that is not known here")
        text = read_member(archive, "metadata", LOG_LIMIT, what)
        # Spark unpacks all of it, and each piece has a checksum there.
        for name in set(archive.namelist()) - {"metadata"}:
            charge(storage, len(read_member(archive, name, SNAPSHOT_LIMIT, what)) // _UNPACKED_AT_ONCE, what)
    charge(storage, weight(text), what)
    lines = split_log_lines(text, f"metadata in {what}")
    fields = parse_object(lines[1] if len(lines) > 1 else "", f"metadata in {what}")
    if lines[0].strip() not in _VERSIONS or "sstFiles" not in fields:
        raise FormatError(VERSION, f"metadata in {what} is {lines[0][:20]!r}: a form that is not known here")
    return fields


@contextmanager
def opened_snapshot(data: bytes, what: str) -> Iterator[ZipFile]:
    """The archive. What it is read with inside the block raises FormatError where it is not whole."""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except FormatError:
        raise
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise FormatError(TORN, f"{what} is not a whole snapshot ({type(error).__name__})") from error


def read_member(archive: ZipFile, name: str, limit: int, what: str) -> bytes:
    if archive.getinfo(name).compress_type not in _OF_JAVA:
        raise FormatError(VERSION, f"{name[:40]} in {what} is packed in a way that Java does not know")
    with archive.open(name) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise FormatError(TORN, f"{name[:40]} in {what} unpacks to more than {limit:,} bytes")
    return found


HDFS = "hdfs"
ROCKSDB = "rocksdb"


@dataclass(frozen=True)
class StoreVersions:
    """One store of one partition.

    full: versions with a snapshot.
    steps: a delta or changelog.
    torn: one that is there and is cut off; not among the steps.
    ids: their uuids.
    broken: snapshots that a start would choose and cannot load, and why.
    lacks: format 2, of each id of the version that the next start loads: what of it is not there, or "".
    rows: a version and how many rows it has, where the snapshot that a start begins with says it."""

    full: frozenset[int] = frozenset()
    steps: frozenset[int] = frozenset()
    torn: frozenset[int] = frozenset()
    ids: Mapping[int, frozenset[str]] = field(default_factory=dict)
    broken: Mapping[int, str] = field(default_factory=dict)
    lacks: Mapping[tuple[int, str], str] = field(default_factory=dict)
    files: int = 0
    size: int = 0
    rows: tuple[int, int] | None = None

    def loadable(self) -> frozenset[int]:
        """The versions for which `missing_for` finds nothing missing."""
        found, before, whole = set(), 0, True
        for version in sorted(self.full | self.steps):
            follows = whole and version == before + 1
            whole = version not in self.broken if version in self.full else follows
            if whole:
                found.add(version)
            before = version
        return frozenset(found)

    @property
    def latest(self) -> int | None:
        return max(self.full | self.steps, default=None)

    @property
    def oldest(self) -> int | None:
        return min(self.full | self.steps, default=None)

    def missing_for(self, version: int, provider: str) -> str:
        """What a restart that loads `version` would not find, or ""."""
        base = max((number for number in self.full if number <= version), default=0)
        if base in self.broken:
            # The newest snapshot is the one that is loaded: an older one that is whole does not help.
            return self.broken[base]
        if version == 0 or version in self.full:
            return ""
        if provider == ROCKSDB and not self.steps:
            return f"snapshot {version}.zip"
        gap = next((number for number in range(base + 1, version + 1) if number not in self.steps), None)
        return "" if gap is None else f"version {gap}"
